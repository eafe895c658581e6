package adminapi

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/emergency"
	"github.com/stintdev/stint/rule"
)

// switchable is a switch without a source, for a server whose requests have the well-known
// attributes and headers.
type switchable struct{ *emergency.Switch }

func (switchable) CheckBy(by string) error {
	return emergency.CheckBy(by, []string{"api_key", "ip", "path"}, func(name string) error {
		if strings.HasPrefix(name, "header:") {
			return nil
		}
		return errors.New("no request has it")
	})
}

func newEmergencyFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, shop)
	f.Emergency = switchable{emergency.New(emergency.Options{Use: func(*emergency.State) error { return nil }})}
	return f
}

const flood = `{"limit":"10/s","by":"ip","for":"10m","reason":"a flood"}`

func TestAnEmergencyIsSwitched(t *testing.T) {
	f := newEmergencyFixture(t)
	if got := f.want(200, "GET", "/v1/emergency", ""); got.at(t, "on") != false || got.header.Get("ETag") != "" {
		t.Error(got)
	}
	began := time.Now()
	got := f.want(200, "PUT", "/v1/emergency", flood, "X-Stint-Author", "vera")
	until, err := time.Parse(time.RFC3339, got.at(t, "until").(string))
	if err != nil || until.Sub(began).Round(time.Minute) != 10*time.Minute || got.at(t, "on") != true || got.at(t, "shared") != false || got.at(t, "replaced") != nil {
		t.Error(err, got.body)
	}
	got = f.want(200, "GET", "/v1/emergency", "")
	if got.at(t, "limit") != "10/s" || got.at(t, "by") != "ip" || got.at(t, "reason") != "a flood" || !strings.Contains(got.at(t, "author").(string), "vera") {
		t.Error(got.body)
	}
	got = f.want(200, "PUT", "/v1/emergency?comment=worse", `{"limit":"1/s","by":"header:X-Device","for":"1h"}`)
	if got.at(t, "replaced.limit") != "10/s" || got.at(t, "limit") != "1/s" || got.at(t, "reason") != "worse" {
		t.Error(got.body)
	}
	if got := f.want(200, "DELETE", "/v1/emergency", ""); got.at(t, "on") != false || got.at(t, "replaced.limit") != "1/s" {
		t.Error(got.body)
	}
	if got := f.want(200, "DELETE", "/v1/emergency", ""); got.at(t, "on") != false || got.at(t, "replaced") != nil {
		t.Error(got.body)
	}
	var audited []string
	for _, e := range f.want(200, "GET", "/audit", "").value(t)["entries"].([]any) {
		audited = append(audited, e.(map[string]any)["what"].(string))
	}
	slices.Reverse(audited)
	if want := []string{"emergency on: 10/s by ip for 10m0s", "emergency on: 1/s by header:X-Device for 1h0m0s", "emergency off", "emergency off"}; !slices.Equal(audited[len(audited)-4:], want) {
		t.Errorf("%q", audited)
	}
}

func TestOfTwoOperatorsOneIsTold(t *testing.T) {
	f := newEmergencyFixture(t)
	f.want(412, "PUT", "/v1/emergency", flood, "If-Match", "*")
	tag := f.want(200, "PUT", "/v1/emergency", flood).header.Get("ETag")
	f.want(200, "PUT", "/v1/emergency", flood, "If-Match", tag)
	f.want(412, "PUT", "/v1/emergency", flood, "If-Match", tag)
	f.want(412, "DELETE", "/v1/emergency", "", "If-Match", tag)
	if got := f.want(200, "GET", "/v1/emergency", ""); got.at(t, "on") != true {
		t.Error(got.body)
	}
	f.want(412, "PUT", "/v1/emergency", flood, "If-None-Match", "*")
	f.want(412, "PUT", "/v1/emergency", flood, "If-None-Match", f.want(200, "GET", "/v1/emergency", "").header.Get("ETag"))
	f.want(200, "DELETE", "/v1/emergency", "", "If-Match", f.want(200, "GET", "/v1/emergency", "").header.Get("ETag"))
	f.want(200, "PUT", "/v1/emergency", flood, "If-None-Match", "*")
	if got := f.want(412, "PUT", "/v1/emergency", flood, "If-None-Match", "*"); !strings.Contains(got.body, "somebody else has switched the emergency in the meantime") {
		t.Error(got.body)
	}
}

func TestAWrongEmergencyChangesNothing(t *testing.T) {
	f := newEmergencyFixture(t)
	for body, want := range map[string]string{
		`{"by":"ip","for":"1m"}`:                                    "limit: is missing",
		`{"limit":"0/s","by":"ip","for":"1m"}`:                      "out of range",
		`{"limit":"2000000000/s","by":"ip","for":"1m"}`:             "out of range",
		`{"limit":"10","by":"ip","for":"1m"}`:                       "write it as number/unit",
		`{"limit":"10/w","by":"ip","for":"1m"}`:                     "write it as number/unit",
		`{"limit":"1/s","for":"1m"}`:                                "by: is missing",
		`{"limit":"1/s","by":"apikey","for":"1m"}`:                  "did you mean api_key?",
		`{"limit":"1/s","by":"zzzzzzzzzz","for":"1m"}`:              "not an attribute that requests have",
		`{"limit":"1/s","by":"ip"}`:                                 "for: is missing",
		`{"limit":"1/s","by":"ip","for":"0s"}`:                      "for: 0s is out of range",
		`{"limit":"1/s","by":"ip","for":"999ms"}`:                   "give 1s to 24h",
		`{"limit":"1/s","by":"ip","for":"2d"}`:                      "give 1s to 24h",
		`{"limit":"1/s","by":"ip","for":"-1m"}`:                     "give 1s to 24h",
		`{"limit":"1/s","by":"ip","for":"soon"}`:                    "not a duration",
		`{"limit":"1/s","by":"ip","until":"1m"}`:                    "not a known field",
		`{"limit":"1/s","by":"ip","for":"1m","reason":"\u001b[2J"}`: "control characters",
	} {
		if got := f.want(400, "PUT", "/v1/emergency", body); !strings.Contains(got.body, want) {
			t.Errorf("%s: %s", body, got.body)
		}
	}
	f.want(400, "PUT", "/v1/emergency?dry_run", flood)
	if got := f.want(200, "GET", "/v1/emergency", ""); got.at(t, "on") != false {
		t.Error(got.body)
	}
}

func TestAnEmergencyThatCannotBeInForceIsAnError(t *testing.T) {
	f := newFixture(t, shop)
	f.want(404, "GET", "/v1/emergency", "")
	f.want(404, "PUT", "/v1/emergency", flood)
	f.want(404, "DELETE", "/v1/emergency", "")
	f.Emergency = switchable{emergency.New(emergency.Options{Use: func(*emergency.State) error { return rule.Problems{{What: "no"}} }})}
	if got := f.want(503, "PUT", "/v1/emergency", flood); got.at(t, "error.code") != "NOT_IN_FORCE" {
		t.Error(got.body)
	}
}
