package httplimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

func TestBodies(t *testing.T) {
	exceeded := Answer{Decision: denied(), Policies: []Policy{orders(t)}}
	never := exceeded
	never.Decision.RetryAfter = stint.Never
	nothing := never
	nothing.Decision.Limit = 0
	banned := exceeded
	banned.Decision.Penalty, banned.Reason = stint.Ban, "Banned until 2021-12-20T12:00:36Z after 5 denials"
	for name, c := range map[string]struct {
		answer Answer
		accept string
		status int
		kind   string
		body   string
	}{
		"exceeded": {exceeded, "", 429, "application/json",
			`{"error":{"code":"RATE_LIMIT_EXCEEDED","message":"Rate limit of 100 requests per 60 seconds exceeded","details":{"limit":100,"window_seconds":60,"retry_after_seconds":36,"reset_at":"2021-12-20T12:01:01Z","endpoint":"/v1/orders"}}}`},
		"exceeded for ever": {never, "", 429, "application/json",
			`{"error":{"code":"RATE_LIMIT_EXCEEDED","message":"Rate limit of 100 requests per 60 seconds exceeded","details":{"limit":100,"window_seconds":60,"reset_at":"2021-12-20T12:01:01Z","endpoint":"/v1/orders"}}}`},
		"everything is denied": {nothing, "", 429, "application/json",
			`{"error":{"code":"RATE_LIMIT_EXCEEDED","message":"Rate limit of 0 requests per 60 seconds exceeded","details":{"limit":0,"window_seconds":60,"reset_at":"2021-12-20T12:01:01Z","endpoint":"/v1/orders"}}}`},
		"exceeded as a problem": {exceeded, "application/problem+json", 429, "application/problem+json",
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"Rate limit of 100 requests per 60 seconds exceeded","code":"RATE_LIMIT_EXCEEDED","retry_after_seconds":36,"violated-policies":["orders"]}`},
		"banned": {banned, "", 429, "application/json",
			`{"error":{"code":"RATE_LIMIT_EXCEEDED","message":"Banned until 2021-12-20T12:00:36Z after 5 denials","details":{"retry_after_seconds":36,"reset_at":"2021-12-20T12:01:01Z","penalty":"ban","endpoint":"/v1/orders"}}}`},
		"banned as a problem": {banned, "application/problem+json", 429, "application/problem+json",
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"Banned until 2021-12-20T12:00:36Z after 5 denials","code":"RATE_LIMIT_EXCEEDED","retry_after_seconds":36,"violated-policies":["orders"]}`},
		"denied without a limit": {Answer{Binding: -1}, "", 429, "application/json",
			`{"error":{"code":"RATE_LIMIT_EXCEEDED","message":"Rate limit exceeded","details":{"retry_after_seconds":1}}}`},
		"listed": {Answer{Listed: true, Binding: -1}, "", 403, "application/json",
			`{"error":{"code":"DENIED_BY_LIST","message":"Access is denied by a list"}}`},
		"listed as a problem": {Answer{Listed: true, Binding: -1}, "application/problem+json", 403, "application/problem+json",
			`{"type":"about:blank","title":"Forbidden","status":403,"detail":"Access is denied by a list","code":"DENIED_BY_LIST"}`},
		"unavailable": {Answer{Unavailable: true, Decision: stint.Decision{RetryAfter: 1500 * time.Millisecond}}, "", 503, "application/json",
			`{"error":{"code":"LIMITER_UNAVAILABLE","message":"The limit cannot be checked at the moment","details":{"retry_after_seconds":2}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := deny(&c.answer, "GET", c.accept)
			if w.Code != c.status || w.Header().Get("Content-Type") != c.kind || w.Body.String() != c.body {
				t.Errorf("%d %s\n%s\nwant %d %s\n%s", w.Code, w.Header().Get("Content-Type"), w.Body, c.status, c.kind, c.body)
			}
			if got := w.Header().Get("Content-Length"); got != fmt.Sprint(len(c.body)) {
				t.Errorf("Content-Length %s; want %d", got, len(c.body))
			}
		})
	}
}

func TestProblemNamesEveryViolatedPolicy(t *testing.T) {
	a := Answer{Decision: denied(), Binding: 2, Policies: []Policy{
		{Name: "a", Limit: orders(t).Limit, Exceeded: true}, {Name: "b", Limit: orders(t).Limit}, {Name: "c", Limit: orders(t).Limit, Exceeded: true}}}
	var body struct {
		Violated []string `json:"violated-policies"`
	}
	w := deny(&a, "GET", "application/problem+json")
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || fmt.Sprint(body.Violated) != "[a c]" {
		t.Errorf("violated-policies %v, %v; want [a c]", body.Violated, err)
	}
}

func TestHeadHasNoBody(t *testing.T) {
	w := deny(&Answer{Decision: denied(), Policies: []Policy{orders(t)}}, "HEAD", "")
	if w.Code != 429 || w.Body.Len() != 0 || w.Header().Get("Retry-After") != "36" {
		t.Errorf("%d, %d bytes, %v; want 429 with headers alone", w.Code, w.Body.Len(), w.Header())
	}
}

func TestAnotherStatusKeepsTheBody(t *testing.T) {
	a := Answer{Decision: denied(), Policies: []Policy{orders(t)}}
	w := httptest.NewRecorder()
	a.WriteDenialAs(w, httptest.NewRequest("GET", "/v1/orders", nil), testNow, http.StatusForbidden)
	if want := deny(&a, "GET", "").Body.String(); w.Code != 403 || w.Body.String() != want {
		t.Errorf("%d %s; want 403 %s", w.Code, w.Body, want)
	}
}

// A server that answers in place of this one sends the body that this one would have
// written.
func TestDenialBodyIsWhatIsWritten(t *testing.T) {
	for _, a := range []Answer{
		{Decision: denied(), Policies: []Policy{orders(t)}},
		{Listed: true, Binding: -1},
		{Unavailable: true, Binding: -1},
	} {
		for _, accept := range []string{"", "application/problem+json"} {
			want := deny(&a, "GET", accept)
			r := httptest.NewRequest("HEAD", "/v1/orders", nil)
			r.Header.Set("Accept", accept)
			if kind, text := a.DenialBody(r, testNow); kind != want.Header().Get("Content-Type") || string(text) != want.Body.String() {
				t.Errorf("%s %s\nwant %s", kind, text, want.Body)
			}
		}
	}
}

func TestHeaderAndBodyNameOneRetryTime(t *testing.T) {
	for range 100 {
		a := Answer{Decision: denied(), Policies: []Policy{orders(t)}, Jitter: 1}
		w := deny(&a, "GET", "")
		var body struct {
			Error struct{ Details details }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Fatal(err)
		}
		if header, in := w.Header().Get("Retry-After"), fmt.Sprint(body.Error.Details.RetryAfterSeconds); header != in {
			t.Fatalf("Retry-After %s, in the body %s", header, in)
		}
		if got := w.Header().Get("RateLimit"); got != `"orders";r=0;t=36` {
			t.Fatalf("RateLimit %s; want t before jitter", got)
		}
	}
}

func TestAcceptChoosesTheForm(t *testing.T) {
	for accept, want := range map[string]bool{
		"":                              false,
		"*/*":                           false,
		"application/*":                 false,
		"text/html":                     false,
		"application/json":              false,
		"application/problem+json":      true,
		"Application/Problem+JSON":      true,
		"application/problem+json;q=0":  false,
		"application/problem+json, */*": true,
		"text/html, application/problem+json;q=0.1":                     true,
		"application/json, application/problem+json":                    true,
		"application/json;q=0.5, application/problem+json;q=0.4":        false,
		"application/json;q=0.5, application/problem+json; q=0.6":       true,
		"application/problem+json;q=0.5, */*":                           false,
		"application/problem+json;q=0.5, */*, application/json;q=0.1":   true,
		"application/problem+json;q=0.5, */*;q=0.9, application/*;q=.3": true,
		"application/problem+json;charset=utf-8":                        true,
		"application/problem+json;q=NaN":                                false,
		"application/problem+json;q=2":                                  false,
		"application/problem+json;q=":                                   false,
		",;,=;q":                                                        false,
	} {
		if got := prefersProblem([]string{accept}); got != want {
			t.Errorf("Accept %q: problem %v; want %v", accept, got, want)
		}
	}
	if !prefersProblem([]string{"application/json;q=0.2", "application/problem+json"}) {
		t.Error("a second line is not read")
	}
}

func TestErrorsAreTranslated(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		body   string
	}{
		"the request's fault": {&stint.Error{Code: stint.CodeInvalid, Problem: "key: is empty", Mend: "name one"}, 400,
			`{"error":{"code":"INVALID_REQUEST","message":"key: is empty (name one)"}}`},
		"the store's": {&stint.Error{Code: stint.CodeUnavailable, Problem: "dial 10.0.0.1"}, 503,
			`{"error":{"code":"LIMITER_UNAVAILABLE","message":"The limit cannot be checked at the moment"}}`},
		"out of time": {&stint.GroupsError{Errs: []error{nil, &stint.Error{Code: stint.CodeTimeout}}}, 503,
			`{"error":{"code":"LIMITER_UNAVAILABLE","message":"The limit cannot be checked at the moment"}}`},
		"ours": {errors.New("secret"), 500,
			`{"error":{"code":"INTERNAL","message":"The limit could not be checked"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			WriteError(w, httptest.NewRequest("GET", "/", nil), c.err)
			if w.Code != c.status || w.Body.String() != c.body || w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("%d %s %v; want %d %s", w.Code, w.Body, w.Header(), c.status, c.body)
			}
		})
	}
}

func deny(a *Answer, method, accept string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, "/v1/orders?page=2", nil)
	r.Header.Set("Accept", accept)
	a.WriteDenial(w, r, testNow)
	return w
}
