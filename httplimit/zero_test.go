package httplimit

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

func mustLimit(t *testing.T, l *stint.Limiter, opts ...Option) func(http.Handler) http.Handler {
	t.Helper()
	limited, err := Limit(l, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return limited
}

// An unknown attribute name is an error. If it were ignored, all requests would silently be
// counted by address.
func TestUnknownAttributesAreRefused(t *testing.T) {
	for name, want := range map[string]string{
		"apikey": `did you mean "api_key"?`, "API_KEY": `did you mean "api_key"?`, "Path": `did you mean "path"?`, "IP": `did you mean "ip"?`,
		"heder:x-tenant": `did you mean "header:x-tenant"?`, "coockie:sid": `did you mean "cookie:sid"?`,
		"header": "use api_key, ip", "header:": "use api_key, ip", "": "use api_key, ip", "user": "use api_key, ip", "bearer:x": "use api_key, ip",
		"header: x-tenant": `no header can have the name " x-tenant"`, "header:x tenant": "no header", "header:X-T\n": "no header", "header:x:y": "no header",
		"header:ténant": "no header", "cookie:a b": "no cookie", "cookie:a;b": "no cookie", "cookie:": "use api_key, ip",
		"jwt:sub": "set Tokens to a verifier",
	} {
		if _, err := Limit(fixed(t), By("ip", name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
		c := &Counter{Limiter: fixed(t), By: []string{name}}
		if w := request((&Middleware{Decider: c}).Wrap(http.NotFoundHandler()), "/"); w.Code != 500 {
			t.Errorf("%q: a counter of its own answers %d, want 500", name, w.Code)
		}
	}
	for _, name := range []string{"api_key", "ip", "method", "path", "host", "bearer", "header:x-tenant", "query:user", "cookie:sid"} {
		if _, err := Limit(fixed(t), By(name)); err != nil {
			t.Error(err)
		}
	}
}

func TestClaimsNeedTokens(t *testing.T) {
	m := &Middleware{
		Decider:  &Counter{Limiter: fixed(t), By: []string{"jwt:sub"}},
		Identity: Identity{Tokens: user1()},
	}
	if w := request(m.Wrap(http.NotFoundHandler()), "/"); w.Code != 404 {
		t.Errorf("a request without a token: %d, want it counted by address", w.Code)
	}
}

// A missing field is an error of the constructor or of each answer. No request causes
// a panic, and none passes.
func TestZeroValues(t *testing.T) {
	reached := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request passed") })
	for name, m := range map[string]*Middleware{
		"no decider":                     {},
		"a counter without a limiter":    {Decider: &Counter{}},
		"a counter with a zero limiter":  {Decider: &Counter{Limiter: &stint.Limiter{}}},
		"an identity that is not valid":  {Decider: &Counter{Limiter: fixed(t)}, Identity: Identity{APIKey: []Source{{kind: fromClaim, name: "sub"}}}},
		"tokens that cannot be verified": {Decider: &Counter{Limiter: fixed(t)}, Identity: Identity{RejectInvalidTokens: true}},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", "Bearer a.b.c")
		if m.Wrap(reached).ServeHTTP(w, r); w.Code != 500 {
			t.Errorf("%s: %d, want 500", name, w.Code)
		}
	}
	for name, l := range map[string]*stint.Limiter{"nil": nil, "zero": {}} {
		if _, err := Limit(l); err == nil {
			t.Errorf("a limiter that is %s was taken", name)
		}
	}
	if got := (Source{}).String(); got != "bearer" {
		t.Errorf("the zero source is %q", got)
	}
	zero := NewRequest(httptest.NewRequest("GET", "/", nil), nil)
	if _, ok := zero.Attribute("jwt:sub"); ok || zero.TokenError() != nil {
		t.Error("a request without an identity has a claim")
	}
	for name, r := range map[string]*Request{"zero": {}, "nil": NewRequest(nil, nil), "of a zero request": NewRequest(&http.Request{}, nil)} {
		for _, attribute := range []string{"api_key", "ip", "method", "path", "host", "bearer", "header:x", "query:x", "cookie:x", "jwt:sub"} {
			if attribute == "method" && r.Request != nil {
				continue // an empty method is GET
			}
			if _, ok := r.Attribute(attribute); ok {
				t.Errorf("%s: it has %s", name, attribute)
			}
		}
		if r.Addr().IsValid() || r.TokenError() != nil {
			t.Errorf("%s: it has an address", name)
		}
		if key, err := (&Counter{By: []string{"ip", "path"}}).Key(r); key != "shared" || err != nil {
			t.Errorf("%s: %s, %v", name, key, err)
		}
	}
	var a Answer
	a.SetHeaders(http.Header{}, time.Now())
	a.WriteDenial(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), time.Now())
}
