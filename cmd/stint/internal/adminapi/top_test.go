package adminapi

import (
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/topkeys"
	"github.com/stintdev/stint/rule"
)

// fixedTop answers each window and table with other counts.
type fixedTop struct{}

func (fixedTop) Top(w topkeys.Window, denied bool) topkeys.Top {
	n := int64(time.Duration(w) / time.Minute)
	if denied {
		n += 1000
	}
	return topkeys.Top{Since: start, Floor: 1, Items: []topkeys.Item{
		{Rule: "orders", Key: "sk_live_…", Count: n, Error: 1, ID: 1<<63 + 1},
		{Rule: "logins", Key: "203.…", Count: 5, ID: 8},
		{Rule: "", Key: "user…", Count: 4, ID: 9},
	}}
}

func TestTopKeys(t *testing.T) {
	f := newFixture(t, shop)
	f.Top, f.Shadows = fixedTop{}, new(topkeys.Shadows)
	for query, want := range map[string]string{
		"":                         `{"rule":"orders","key":"sk_live_…","count":1001,"error":1,"id":"9223372036854775809"}`,
		"?by=shadow":               `{"items":[],`,
		"?by=denied&window=1h":     `"count":1060,`,
		"?by=allowed&window=1m":    `"count":1,`,
		"?by=allowed&window=1h":    `"count":60,`,
		"?rule=logins":             `{"items":[{"rule":"logins","key":"203.…","count":5,"error":0,"id":"8"}],"since":"2026-03-01T12:00:00Z","floor":1}`,
		"?limit=2&rule=":           `"id":"8"}],"since":"2026-03-01T12:00:00Z","floor":4}`,
		"?limit=3000":              `"key":"user…"`,
		"?window=1h&by=denied&x=y": `"since":"2026-03-01T12:00:00Z"`,
	} {
		if got := f.want(200, "GET", "/v1/top"+query, ""); !strings.Contains(got.body, want) {
			t.Errorf("%s: %s", query, got.body)
		}
	}
	for query, want := range map[string]string{
		"?by=refused":   `by: \"refused\" is not known (use denied, allowed or shadow)`,
		"?window=60s":   `window: \"60s\" is not known (use 1m or 1h)`,
		"?limit=0":      `limit: \"0\" is not a whole number from 1 to 3000`,
		"?limit=3001":   `limit: `,
		"?limit=%2Bone": `limit: `,
	} {
		if got := f.want(400, "GET", "/v1/top"+query, ""); !strings.Contains(got.body, want) {
			t.Errorf("%s: %s", query, got.body)
		}
	}
	if got := f.want(404, "GET", "/v1/top?rule=order", ""); !strings.Contains(got.body, `rule: there is no rule \"order\"`) {
		t.Error(got.body)
	}
	f.Top = nil
	f.want(404, "GET", "/v1/top", "")
}

func TestOnlyAdminsSeeIDs(t *testing.T) {
	f := newFixture(t, shop)
	f.Top, f.Shadows = fixedTop{}, new(topkeys.Shadows)
	var err error
	f.Tokens, err = ParseTokens(rule.File{Name: "tokens", Data: []byte("v viewer " + hash("viewer") + "\no operator " + hash("operator") + "\na admin " + hash("admin") + "\n")}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range roles() {
		got := f.want(200, "GET", "/v1/top", "", "Authorization", "Bearer "+string(role))
		if strings.Contains(got.body, `"id"`) != (role == Admin) {
			t.Errorf("%s: %s", role, got.body)
		}
	}
}
