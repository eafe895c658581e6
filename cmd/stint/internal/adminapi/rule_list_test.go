package adminapi

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/live"
	"github.com/stintdev/stint/rule"
)

// fixedLive has fixed rates.
type fixedLive struct{ rates map[string]live.Rates }

func (fixedLive) After(int64) ([]live.Frame, <-chan struct{}) { return nil, nil }
func (fixedLive) Closed() <-chan struct{}                     { return nil }
func (f fixedLive) Rates(...string) map[string]live.Rates     { return f.rates }

func idsOf(t *testing.T, got reply) string {
	t.Helper()
	var ids []string
	list, _ := got.value(t)["rules"].([]any)
	for _, one := range list {
		ids = append(ids, one.(map[string]any)["id"].(string))
	}
	return strings.Join(ids, " ")
}

func TestRulesAreListedInWords(t *testing.T) {
	f := newFixture(t, shop)
	f.Live = fixedLive{map[string]live.Rates{"logins": {Allowed: 1.5, Denied: 3}}}
	got := f.want(200, "GET", "/v1/rules?q=LOGIN", "")
	const want = `{"version":1,"total":2,"found":1,"rules":[{"id":"logins","position":2,"mode":"enforce","when":[],"by":["ip"],` +
		`"limits":[{"limit":"5/m","words":"5 a minute for each address"}],"rates":{"allowed":1.5,"denied":3,"shadow":0,"degraded":0}}]}` + "\n"
	if body := regexp.MustCompile(`,"changed":\{"version":1,"time":"[^"]+","author":"local"\}`).ReplaceAllString(got.body, ""); body != want || body == got.body {
		t.Errorf("got  %s\nwant %s", got.body, want)
	}
	for query, want := range map[string]string{
		"": "orders logins", "?sort=denied": "logins orders", "?sort=id": "logins orders", "?sort=share": "logins orders", "?sort=requests": "logins orders",
		"?sort=mode": "orders logins", "?sort=changed": "orders logins",
		"?offset=1": "logins", "?limit=1": "orders", "?offset=9": "", "?q=/orders": "orders", "?q=none": "", "?rule=orders": "orders", "?rule=order": "",
	} {
		if ids := idsOf(t, f.want(200, "GET", "/v1/rules"+query, "")); ids != want {
			t.Errorf("%s: %q, want %q", query, ids, want)
		}
	}
	for _, query := range []string{"sort=size", "limit=0", "limit=1001", "offset=-1"} {
		f.want(400, "GET", "/v1/rules?"+query, "")
	}
	f.want(200, "PUT", "/rules/orders", `{"limit":"9/m","match":{"path":"/orders"},"mode":"shadow"}`)
	f.want(200, "PUT", "/rules/logins", `{"limit":"9/m","by":["ip"]}`)
	for query, want := range map[string]string{"?sort=changed": "logins orders", "?sort=mode": "logins orders"} {
		if ids := idsOf(t, f.want(200, "GET", "/v1/rules"+query, "")); ids != want {
			t.Errorf("%s after a change: %q, want %q", query, ids, want)
		}
	}
	f.want(200, "PUT", "/rules/orders", `{"limit":"7/s"}`)
	if got := f.want(200, "GET", "/v1/rules", ""); !strings.Contains(got.body, "7 a second for each API key") {
		t.Errorf("after a change: %s", got.body)
	}
}

// leavingLive is the rates for a client that leaves while another request reads the rules.
type leavingLive struct {
	fixedLive

	leave func()
}

func (l leavingLive) Rates(ids ...string) map[string]live.Rates {
	l.leave()
	return l.fixedLive.Rates(ids...)
}

// An order by the last change is refused while the changes cannot be read: it would be that of the
// files.
func TestAnOrderByChangesNeedsTheChanges(t *testing.T) {
	f := newFixture(t, shop)
	ctx, leave := context.WithCancel(t.Context())
	f.Live = leavingLive{leave: func() {
		leave()
		select {
		case f.reading <- struct{}{}:
		default: // the rates are read once more
		}
	}}
	r := httptest.NewRequestWithContext(ctx, "GET", "/v1/rules?sort=changed", nil)
	if got, err := f.ruleList(&request{Request: r}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestManyRulesAreListedAsFast: a page of 10,000 rules takes at most a few times what one of 100
// takes, because the words are made once.
func TestManyRulesAreListedAsFast(t *testing.T) {
	took := func(n int) time.Duration {
		var text strings.Builder
		text.WriteString("rules:\n")
		for i := range n {
			fmt.Fprintf(&text, "  - {id: r%d, match: {path: /p%d}, by: [ip], limit: 5, window: 60}\n", i, i)
		}
		f := newFixture(t, text.String())
		request := func() { f.want(200, "GET", "/v1/rules?limit=50&sort=id", "") }
		request()
		best := time.Hour
		for range 5 {
			began := time.Now()
			request()
			best = min(best, time.Since(began))
		}
		return best
	}
	few, many := took(100), took(10_000)
	t.Logf("%v for 100 rules, %v for 10,000", few, many)
	if many > 10*few && many > 50*time.Millisecond {
		t.Errorf("%v for 10,000 rules, %v for 100", many, few)
	}
}

func TestARequestIsExplained(t *testing.T) {
	f := newFixture(t, shop)
	got := f.want(200, "POST", "/v1/explain", `{"attributes":{"api_key":"k","path":"/orders","colour":"red"}}`)
	for _, want := range []string{
		`{"list":"none","rules":[{"rule":"orders","mode":"enforce","matches":true,"counts":true,"denies":false,"conditions":[{"name":"path","want":"/orders","got":"/orders","holds":true}],"key":"k","by":["api_key"],"cost":1,`,
		`"unread":["colour"]`,
	} {
		if !strings.Contains(got.body, want) {
			t.Errorf("%s lacks %s", got.body, want)
		}
	}
	for body, want := range map[string]string{
		`{}`:                                    "attributes: are missing",
		`{"attributes":[]}`:                     "must be an object of strings",
		`{"attributes":{"path":"/"},"cost":-1}`: "cost: ",
		`{"attributes":{"path":"/"},"key":"k"}`: "not a known field",
	} {
		if got := f.want(400, "POST", "/v1/explain", body); !strings.Contains(got.body, want) {
			t.Errorf("%s: %s", body, got.body)
		}
	}
}

func TestWhoami(t *testing.T) {
	f := newFixture(t, shop)
	if got := f.want(200, "GET", "/v1/whoami", "", "X-Stint-Author", "vera"); got.body != `{"name":"local:vera","role":"admin","token":false,"keys":"shortened with id","features":["replay"]}`+"\n" {
		t.Error(got.body)
	}
	var err error
	f.Tokens, err = ParseTokens(rule.File{Name: "tokens", Data: []byte("v viewer " + hash("viewer") + "\n")}, "")
	if err != nil {
		t.Fatal(err)
	}
	f.Live = fixedLive{}
	if got := f.want(200, "GET", "/v1/whoami", "", "Authorization", "Bearer viewer"); got.body != `{"name":"v","role":"viewer","token":true,"keys":"shortened","features":["live","replay"]}`+"\n" {
		t.Error(got.body)
	}
	f.want(401, "GET", "/v1/whoami", "")
}
