package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

const orders = `
rules:
  - id: orders
    match: {path_prefix: /v1/}
    by: [api_key]
    limit: 2
    window: 60
    algorithm: fixed_window
blacklist: ["sk_revoked_*"]
whitelist: ["sk_internal_*"]
`

func TestCheckIsDecidedByTheRules(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, orders)})
	const body = `{"attributes":{"api_key":"a","method":"GET","path":"/v1/orders"},"cost":2}`
	first := s.post("http", "/v1/check", body)
	if first.status != http.StatusOK {
		t.Fatalf("status %d: %s", first.status, first.body)
	}
	const numbers = `"limit":2,"remaining":0,"retry_after_ms":%d,"reset_after_ms":60000,"delay_ms":0,"never":false,"degraded":false,"at_us":%d`
	want := func(allowed bool, retry int) string {
		n := fmt.Sprintf(numbers, retry, start)
		return fmt.Sprintf(`{"allowed":%v,%s,"rule":"orders","limits":[{"rule":"orders","name":"fixed_window:1m","allowed":%[1]v,%[2]s}]}`, allowed, n)
	}
	wantJSON(t, first.body, want(true, 0))
	second := s.post("http", "/v1/check", body)
	if second.status != http.StatusOK {
		t.Errorf("a denial is a decision: status %d", second.status)
	}
	wantJSON(t, second.body, want(false, 60000))
}

func TestHeadersAreTheSameInAnyCase(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, "rules:\n  - {id: teams, match: {headers: {X-Plan: gold}}, by: [header:X-Team], missing: deny, limit: 2, window: 60}\n")})
	for i, name := range []string{"header:X-Team", "header:x-team", "header:X-TEAM"} {
		got := s.post("http", "/v1/check", `{"attributes":{"`+name+`":"red","header:X-plan":"gold"}}`)
		if want := fmt.Sprintf(`{"allowed":%v,"limit":2,"remaining":%d`, i < 2, max(0, 1-i)); !strings.HasPrefix(got.body, want) {
			t.Errorf("%s: %s, want %s", name, got.body, want)
		}
	}
}

func TestRequestsThatNoLimitCounts(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, orders)})
	for name, c := range map[string]struct{ attributes, want string }{
		"no rule matches": {`{"api_key":"a","path":"/other"}`, `{"allowed":true,"limits":[]}`},
		"allow-listed":    {`{"api_key":"sk_internal_1","path":"/v1/orders"}`, `{"allowed":true,"limits":[]}`},
		"deny-listed":     {`{"api_key":"sk_revoked_1","path":"/v1/orders"}`, `{"allowed":false,"listed":true,"limits":[]}`},
	} {
		got := s.post("http", "/v1/check", `{"attributes":`+c.attributes+`}`)
		if got.status != http.StatusOK {
			t.Errorf("%s: status %d", name, got.status)
		}
		wantJSON(t, got.body, c.want)
	}
}

func TestNumbersAndBooleansCountAsTheirText(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, "rules:\n  - {id: a, by: [tenant, beta], limit: 1, window: 60}\n")})
	s.post("http", "/v1/check", `{"attributes":{"tenant":42,"beta":true}}`)
	got := s.post("http", "/v1/check", `{"attributes":{"tenant":"42","beta":"true"}}`)
	if got.decoded(t)["allowed"] != false {
		t.Errorf("the number 42 and the text 42 are two callers: %s", got.body)
	}
}

func TestShadowRuleIsReportedAndNeverDenies(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, "rules:\n  - {id: a, by: [api_key], limit: 1, window: 60, mode: shadow}\n")})
	const body = `{"attributes":{"api_key":"k"}}`
	s.post("http", "/v1/check", body)
	got := s.post("http", "/v1/check", body).decoded(t)
	line := got["limits"].([]any)[0].(map[string]any)
	if got["allowed"] != true || line["allowed"] != false || line["shadow"] != true {
		t.Errorf("%v", got)
	}
}

func TestBadChecksSayWhatIsWrong(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, orders)})
	for name, c := range map[string]struct{ body, want string }{
		"no attributes":            {`{}`, "attributes: is missing"},
		"attributes are a list":    {`{"attributes":[]}`, "attributes: a JSON object is expected"},
		"null attributes":          {`{"attributes":null}`, "attributes: a JSON object is expected"},
		"an attribute is a list":   {`{"attributes":{"path":["/"]}}`, `attributes: "path": must be a string`},
		"an attribute is null":     {`{"attributes":{"path":null}}`, `attributes: "path": must be a string`},
		"an attribute twice":       {`{"attributes":{"path":"/","path":"/"}}`, `attributes: "path": is given twice`},
		"misspelt attributes":      {`{"attribute":{}}`, "did you mean attributes?"},
		"negative cost":            {`{"attributes":{},"cost":-1}`, "cost: -1 is out of range (use a whole number from 0 to"},
		"fractional cost":          {`{"attributes":{},"cost":0.5}`, "cost: 0.5 is not a whole number"},
		"cost of 2^63":             {`{"attributes":{},"cost":9223372036854775808}`, "cost: 9223372036854775808 is not"},
		"cost above all limits":    {`{"attributes":{},"cost":1000000001}`, "cost: 1000000001 is out of range"},
		"key as another would":     {`{"attributes":{},"key":"k"}`, `"key": is not a known field (use one of attributes, cost, request_id)`},
		"key of 5000 bytes":        {`{"attributes":{"path":"/v1/","api_key":"` + strings.Repeat("k", 5000) + `"}}`, "api_key"},
		"key with a control":       {`{"attributes":{"path":"/v1/","api_key":"a\nb"}}`, "api_key"},
		"half of a surrogate pair": {`{"attributes":{"path":"/v1/","api_key":"\udc00"}}`, "half of a surrogate pair"},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.post("http", "/v1/check", c.body)
			if got.status != http.StatusBadRequest || !strings.Contains(got.errorMessage(), c.want) {
				t.Errorf("status %d: %s\nwant 400 with %q", got.status, got.body, c.want)
			}
		})
	}
}

// failing is a store that is down, or that answers with degraded decisions.
type failing struct {
	code     stint.Code
	degraded *stint.Decision
}

func (f failing) Take(context.Context, stint.Claim) (stint.Decision, error) {
	if f.degraded != nil {
		return *f.degraded, nil
	}
	return stint.Decision{}, &stint.Error{Code: f.code, Problem: "no connection to 10.0.0.5", Err: fmt.Errorf("dial 10.0.0.5: refused")}
}

func (f failing) TakeGroups(ctx context.Context, _ []stint.Group, out []stint.Decision) error {
	d, err := f.Take(ctx, stint.Claim{})
	for i := range out {
		out[i] = d
	}
	return err
}

func TestFailuresOfTheStoreAreTranslatedAndCounted(t *testing.T) {
	for code, c := range map[stint.Code]struct {
		status int
		kind   string
	}{
		stint.CodeUnavailable: {http.StatusServiceUnavailable, "unavailable"},
		stint.CodeTimeout:     {http.StatusServiceUnavailable, "timeout"},
		stint.CodeExhausted:   {http.StatusServiceUnavailable, "exhausted"},
		stint.CodeInternal:    {http.StatusInternalServerError, "internal"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			s := run(t, Config{Rules: rulesFile(t, orders), Store: failing{code: code}})
			got := s.post("http", "/v1/check", `{"attributes":{"api_key":"k","path":"/v1/"}}`)
			if got.status != c.status || strings.Contains(got.body, "10.0.0.5") {
				t.Errorf("status %d: %s", got.status, got.body)
			}
			s.wantMetric(`stint_store_errors_total{kind="`+c.kind+`",shard=""} 1`, true)
			s.wantMetric("stint_store_up 0", code == stint.CodeUnavailable || code == stint.CodeTimeout)
		})
	}
}

// overBudget is a store that has no room left for callers' own limits.
type overBudget struct{ stint.Store }

func (overBudget) Take(context.Context, stint.Claim) (stint.Decision, error) {
	return stint.Decision{}, &stint.Error{Code: stint.CodeExhausted, Kind: "caller_budget", Problem: "no room for new keys", Mend: "use fewer"}
}

func (o overBudget) TakeGroups(ctx context.Context, groups []stint.Group, _ []stint.Decision) error {
	_, err := o.Take(ctx, stint.Claim{})
	errs := make([]error, len(groups))
	for i := range errs {
		errs[i] = err
	}
	return &stint.GroupsError{Errs: errs}
}

// A caller whose own limits are over their budget gets an error that says so and names the mend.
// A flood of these errors is not logged.
func TestCallersOverTheirBudgetGetAnError(t *testing.T) {
	s := run(t, Config{Store: overBudget{}})
	got := s.post("http", "/v1/take", `{"key":"k","limit":{"limit":5,"window":"1m"}}`)
	if got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "CALLER_LIMITS_EXHAUSTED") || !strings.Contains(got.body, "use fewer") {
		t.Errorf("status %d: %s", got.status, got.body)
	}
}

func TestClosedRuleAnswers503WithADecision(t *testing.T) {
	const closedRule = "rules:\n  - {id: a, by: [api_key], limit: 1, window: 60, on_store_failure: closed}\n"
	store := failing{degraded: &stint.Decision{Degraded: true, Unavailable: true, Limit: 1, RetryAfter: time.Second}}
	s := run(t, Config{Rules: rulesFile(t, closedRule), Store: store})
	got := s.post("http", "/v1/check", `{"attributes":{"api_key":"k"}}`)
	if decoded := got.decoded(t); got.status != http.StatusServiceUnavailable || decoded["degraded"] != true || decoded["allowed"] != false {
		t.Errorf("status %d: %s", got.status, got.body)
	}
	s.wantMetric(`stint_decisions_total{decision="error_closed",rule="a"} 1`, true)
	if got := s.get("http", "/v1/auth/x", "X-API-Key", "k"); got.status != http.StatusServiceUnavailable || got.header.Get("X-RateLimit-Status") != "503" {
		t.Errorf("forward auth: status %d, %v", got.status, got.header)
	}
}
