package httplimit

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

func mustLimit[L Limiter](t testing.TB, limiter L, o Options) *Middleware {
	t.Helper()
	m, err := Limit(limiter, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func asking(t testing.TB, d Decider, o Options) *Middleware {
	t.Helper()
	m, err := New(d, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func counting[L Limiter](t testing.TB, limiter L, o Options) *Counter {
	t.Helper()
	c, err := NewCounter(limiter, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
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
		"header:transfer-encoding": "net/http removes it", "header:Trailer": "net/http removes it",
		"jwt:sub": "set Tokens to a verifier",
	} {
		if _, err := Limit(fixed(t), Options{By: []string{"ip", name}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
		if _, err := NewCounter(fixed(t), Options{By: []string{name}}); (err == nil) != (name == "jwt:sub") {
			t.Errorf("%q: a counter of its own: %v", name, err)
		}
	}
	for _, name := range []string{"api_key", "ip", "method", "path", "host", "bearer", "header:x-tenant", "header:host", "query:user", "cookie:sid"} {
		if _, err := Limit(fixed(t), Options{By: []string{name}}); err != nil {
			t.Error(err)
		}
	}
}

func TestClaimsNeedTokens(t *testing.T) {
	claims := Options{By: []string{"jwt:sub"}}
	c := counting(t, fixed(t), claims)
	if _, err := New(c, Options{}); err == nil || !strings.Contains(err.Error(), "set Tokens") {
		t.Errorf("a counter by claims: %v", err)
	}
	d := DeciderFunc(func(ctx context.Context, r *Request) (Answer, error) { return c.Decide(ctx, r) })
	if w := request(asking(t, d, Options{}).Wrap(http.NotFoundHandler()), "/"); w.Code != 500 {
		t.Errorf("claims behind another decider: %d, want 500", w.Code)
	}
	claims.Identity.Tokens = user1()
	if w := request(mustLimit(t, fixed(t), claims).Wrap(http.NotFoundHandler()), "/"); w.Code != 404 {
		t.Errorf("a request without a token: %d, want it counted by address", w.Code)
	}
}

// Every option that can be wrong is an error of the constructor.
func TestWrongOptionsAreRefused(t *testing.T) {
	l, joint := fixed(t), usersAndTenants(t, stint.NewMemory(stint.MemoryOptions{}))
	key := func(*Request) (string, error) { return "k", nil }
	for name, c := range map[string]struct {
		options Options
		joint   bool
		want    string
	}{
		"an IPv6 prefix below 0":         {Options{IPv6Prefix: -1}, false, "IPv6 prefix"},
		"an IPv6 prefix of 129":          {Options{IPv6Prefix: 129}, false, "use 1 to 128"},
		"a dialect that is not known":    {Options{Dialect: None + 1}, false, "dialect(6) is unknown"},
		"a jitter above 1":               {Options{Jitter: 1.1}, false, "jitter"},
		"a jitter that is no number":     {Options{Jitter: math.NaN()}, false, "jitter"},
		"parts of one limiter":           {Options{Parts: []Part{{}}}, false, "set By or Key"},
		"no parts of two limiters":       {Options{}, true, "0 parts for 2 limiters"},
		"a key of two limiters":          {Options{Key: key}, true, "set Parts"},
		"attributes of two limiters":     {Options{By: []string{"ip"}, Parts: []Part{{}, {}}}, true, "set Parts"},
		"three parts of two limiters":    {Options{Parts: make([]Part, 3)}, true, "3 parts for 2"},
		"an attribute of a part":         {Options{Parts: []Part{{}, {By: []string{"apikey"}}}}, true, `did you mean "api_key"?`},
		"a claim of a part":              {Options{Parts: []Part{{}, {By: []string{"jwt:sub"}}}}, true, "set Tokens"},
		"a claim as API key":             {Options{Identity: Identity{APIKey: []Source{{kind: fromClaim, name: "sub"}}}}, false, "jwt:sub"},
		"rejected tokens without Tokens": {Options{Identity: Identity{RejectInvalidTokens: true}}, false, "set Tokens"},
		"a proxy that is nothing":        {Options{Trust: []netip.Prefix{{}}}, false, "ParsePrefixes"},
		"a proxy that is mapped":         {Options{Trust: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}}, false, "ParsePrefixes"},
		"a header that is not known":     {Options{Identity: Identity{Clients: Clients{Header: 7}}}, false, "forwarded-by(7)"},
	} {
		_, err := Limit(l, c.options)
		if c.joint {
			_, err = Limit(joint, c.options)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "httplimit: ") {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	for name, o := range map[string]Options{"By": {By: []string{"ip"}}, "Key": {Key: key}, "Cost": {Cost: func(*Request) int64 { return 1 }}, "Jitter": {Jitter: 1}} {
		if _, err := New(answers{answer: pass()}, o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s for a decider: %v", name, err)
		}
	}
}

// A missing field is an error of the constructor or of each answer. No request causes
// a panic, and none passes.
func TestZeroValues(t *testing.T) {
	reached := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request passed") })
	for name, m := range map[string]*Middleware{
		"a nil middleware":  nil,
		"a zero middleware": {},
		"a zero counter":    asking(t, DeciderFunc(new(Counter).Decide), Options{}),
		"a nil counter":     asking(t, DeciderFunc((*Counter)(nil).Decide), Options{}),
	} {
		if w := request(m.Wrap(reached), "/"); w.Code != 500 {
			t.Errorf("%s: %d, want 500", name, w.Code)
		}
		if a, err := m.Decide(httptest.NewRequest("GET", "/", nil)); err == nil || a.Binding != -1 {
			t.Errorf("%s decided %+v, %v", name, a, err)
		}
	}
	for name, d := range map[string]Decider{"nil": nil, "a nil function": DeciderFunc(nil), "a nil counter": (*Counter)(nil), "a zero counter": &Counter{}} {
		if _, err := New(d, Options{}); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	for name, l := range map[string]*stint.Limiter{"nil": nil, "zero": {}} {
		if _, err := Limit(l, Options{}); err == nil {
			t.Errorf("a limiter that is %s was taken", name)
		}
	}
	for name, l := range map[string]*stint.JointLimiter{"nil": nil, "zero": {}} {
		if _, err := Limit(l, Options{}); err == nil {
			t.Errorf("a joint limiter that is %s was taken", name)
		}
	}
	var c Counter
	if _, err := c.DecideKeys(t.Context(), 1, "k"); err == nil {
		t.Error("a zero counter decided")
	}
	if _, err := c.PartKey(0, NewRequest(nil, nil)); err == nil {
		t.Error("a zero counter has a key")
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
		if key, err := counting(t, fixed(t), Options{By: []string{"ip", "path"}}).PartKey(0, r); key != "shared" || err != nil {
			t.Errorf("%s: %s, %v", name, key, err)
		}
	}
	var a Answer
	a.SetHeaders(http.Header{}, time.Now())
	a.WriteDenial(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), time.Now())
}
