package httplimit_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })

// This handler allows 100 requests a minute from each client address.
func Example() {
	limit, err := stint.PerMinute(100).Compile()
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "orders", limit)
	if err != nil {
		log.Fatal(err)
	}
	limited, err := httplimit.Limit(limiter, httplimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	handler := limited.Wrap(hello)

	w := httptest.NewRecorder() // or http.ListenAndServe(":8080", handler)
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"), w.Header().Get("X-RateLimit-Remaining"))
	// Output: 200 "orders";q=100;w=60 99
}

// Each API key may make two requests a minute and five a day. A request is charged to
// all limits or to none.
func ExampleLimit_byAPIKey() {
	limiter := newLimiter("orders", stint.Spec{Limit: 2, Window: time.Minute},
		stint.Spec{Algorithm: stint.Quota, Limit: 5, Period: "day"})
	limited, err := httplimit.Limit(limiter, httplimit.Options{By: []string{"api_key"}})
	if err != nil {
		log.Fatal(err)
	}
	handler := limited.Wrap(hello)

	for _, key := range []string{"a", "a", "a", "b"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(key, w.Code, w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// a 200 1
	// a 200 0
	// a 429 0
	// b 200 1
}

// Behind a trusted proxy, the client is the address that the proxy names. Forwarding
// headers from other peers are ignored.
func ExampleLimit_trust() {
	limited, err := httplimit.Limit(newLimiter("orders", stint.Spec{Limit: 1, Window: time.Minute}),
		httplimit.Options{Trust: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	if err != nil {
		log.Fatal(err)
	}
	handler := limited.Wrap(hello)

	for _, chain := range []string{"203.0.113.1", "203.0.113.2", "198.51.100.9, 203.0.113.1"} {
		r := httptest.NewRequest("GET", "/", nil) // from the proxy 192.0.2.1
		r.Header.Set("X-Forwarded-For", chain)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, chain)
	}
	// Output:
	// 200 203.0.113.1
	// 200 203.0.113.2
	// 429 198.51.100.9, 203.0.113.1
}

// A function returns the key of a request: here the user of a session. Requests without
// a session are counted by address.
func ExampleLimit_key() {
	sessions := map[string]string{"s1": "ann", "s2": "ann"}
	user := func(r *httplimit.Request) (string, error) {
		session, _ := r.Attribute("cookie:session")
		return sessions[session], nil
	}
	limited, err := httplimit.Limit(newLimiter("orders", stint.Spec{Limit: 1, Window: time.Minute}), httplimit.Options{Key: user})
	if err != nil {
		log.Fatal(err)
	}
	handler := limited.Wrap(hello)

	for _, session := range []string{"s1", "s2", "unknown"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.AddCookie(&http.Cookie{Name: "session", Value: session})
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(session, w.Code)
	}
	// Output:
	// s1 200
	// s2 429
	// unknown 200
}

// A user may make two requests a minute, and all users of a tenant together three. A
// request is charged under both keys or under neither.
func ExampleLimit_joint() {
	store := stint.NewMemory(stint.MemoryOptions{})
	users, err := stint.NewLimiter(store, "users", stint.MustParseLimit("2/m"))
	if err != nil {
		log.Fatal(err)
	}
	tenants, err := stint.NewLimiter(store, "tenants", stint.MustParseLimit("3/m"))
	if err != nil {
		log.Fatal(err)
	}
	both, err := stint.Join(users, tenants)
	if err != nil {
		log.Fatal(err)
	}
	limited, err := httplimit.Limit(both, httplimit.Options{
		Parts: []httplimit.Part{{By: []string{"api_key"}}, {By: []string{"header:X-Tenant"}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	handler := limited.Wrap(hello)

	for _, user := range []string{"ann", "ann", "ann", "bob", "bob"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-API-Key", user)
		r.Header.Set("X-Tenant", "acme")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(user, w.Code)
	}
	// Output:
	// ann 200
	// ann 200
	// ann 429
	// bob 200
	// bob 429
}

// A program may write its own answer to a denial. The headers are set before.
func ExampleLimit_onDenied() {
	limited, err := httplimit.Limit(newLimiter("orders", stint.Spec{Limit: 1, Window: time.Minute}), httplimit.Options{
		OnDenied: func(w http.ResponseWriter, _ *http.Request, a *httplimit.Answer) bool {
			w.WriteHeader(a.Status())
			_, _ = fmt.Fprintf(w, "please wait %v", a.RetryAfter())
			return false
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	handler := limited.Wrap(hello)

	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Header().Get("Retry-After"), w.Body)
	}
	// Output:
	// 200  hello
	// 429 60 please wait 1m0s
}

// This example uses most options: uploads cost their size, one dialect of headers is
// sent, errors are logged, and requests pass when no decision can be made.
func ExampleOptions() {
	limited, err := httplimit.Limit(newLimiter("kilobytes", stint.Spec{Limit: 1000, Window: time.Hour}), httplimit.Options{
		By:      []string{"api_key"},
		Cost:    func(r *httplimit.Request) int64 { return max(0, r.ContentLength) / 1000 },
		Dialect: httplimit.IETF,
		Jitter:  0.2,
		Logger:  slog.Default(),
		OnError: func(http.ResponseWriter, *http.Request, error) bool { return true },
	})
	if err != nil {
		log.Fatal(err)
	}

	w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil)
	r.ContentLength = 250_000
	limited.Wrap(hello).ServeHTTP(w, r)
	fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"), w.Header().Get("RateLimit"))
	// Output: 200 "kilobytes";q=1000;w=3600 "kilobytes";r=750;t=4
}

// A counter is the decider of one limiter. This program wraps it, so that health checks
// are not counted.
func ExampleNewCounter() {
	counter, err := httplimit.NewCounter(newLimiter("orders", stint.Spec{Limit: 1, Window: time.Minute}), httplimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	limited, err := httplimit.New(httplimit.DeciderFunc(func(ctx context.Context, r *httplimit.Request) (httplimit.Answer, error) {
		if r.URL.Path == "/healthz" {
			return httplimit.Answer{Decision: stint.Decision{Allowed: true}, Binding: -1}, nil
		}
		return counter.Decide(ctx, r)
	}), httplimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	handler := limited.Wrap(hello)

	for _, path := range []string{"/orders", "/orders", "/healthz"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		fmt.Println(path, w.Code)
	}
	// Output:
	// /orders 200
	// /orders 429
	// /healthz 200
}

// A request has the attributes of its client, which deciders and key functions read.
func ExampleNewRequest() {
	trusted, err := httplimit.ParsePrefixes("10.0.0.0/8", "192.0.2.1")
	if err != nil {
		log.Fatal(err)
	}
	session, err := httplimit.ParseSource("cookie:session")
	if err != nil {
		log.Fatal(err)
	}
	identity := &httplimit.Identity{APIKey: []httplimit.Source{session}, Clients: httplimit.Clients{Trusted: trusted}}

	r := httptest.NewRequest("GET", "https://API.example.com/v1/orders?page=2", nil) // from the proxy 192.0.2.1
	r.Header.Set("X-Forwarded-For", "203.0.113.9")
	r.Header.Set("Cookie", "session=s1")
	q := httplimit.NewRequest(r, identity)
	for _, name := range []string{"ip", "api_key", "host", "path", "query:page", "header:X-Plan"} {
		value, ok := q.Attribute(name)
		fmt.Printf("%s %q %v\n", name, value, ok)
	}
	// Output:
	// ip "203.0.113.9" true
	// api_key "s1" true
	// host "api.example.com" true
	// path "/v1/orders" true
	// query:page "2" true
	// header:X-Plan "" false
}

// A decider chooses the limiter of a request: here by the plan of the client.
func ExampleNew() {
	tiers := map[string]*httplimit.Counter{}
	for plan, limit := range map[string]int64{"free": 1, "pro": 2} {
		c, err := httplimit.NewCounter(newLimiter(plan, stint.Spec{Limit: limit, Window: time.Minute}), httplimit.Options{By: []string{"api_key"}})
		if err != nil {
			log.Fatal(err)
		}
		tiers[plan] = c
	}
	limited, err := httplimit.New(httplimit.DeciderFunc(func(ctx context.Context, r *httplimit.Request) (httplimit.Answer, error) {
		plan := "free"
		if key, _ := r.Attribute("api_key"); strings.HasPrefix(key, "pro_") {
			plan = "pro"
		}
		return tiers[plan].Decide(ctx, r)
	}), httplimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	handler := limited.Wrap(hello)

	for _, key := range []string{"pro_1", "pro_1", "pro_1", "a", "a"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-API-Key", key)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(key, w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// pro_1 200 "pro";q=2;w=60
	// pro_1 200 "pro";q=2;w=60
	// pro_1 429 "pro";q=2;w=60
	// a 200 "free";q=1;w=60
	// a 429 "free";q=1;w=60
}

// Admit suits frameworks whose handlers are no http.Handler. This is the shape of a
// framework that chains handlers by returning errors.
func ExampleMiddleware_Admit() {
	limited, err := httplimit.Limit(newLimiter("orders", stint.Spec{Limit: 1, Window: time.Minute}), httplimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	type handler func(w http.ResponseWriter, r *http.Request) error
	middleware := func(next handler) handler {
		return func(w http.ResponseWriter, r *http.Request) error {
			if !limited.Admit(w, r) {
				return nil // answered
			}
			return next(w, r)
		}
	}
	greet := middleware(func(w http.ResponseWriter, _ *http.Request) error { _, err := io.WriteString(w, "hello"); return err })

	for range 2 {
		w := httptest.NewRecorder()
		fmt.Println(greet(w, httptest.NewRequest("GET", "/", nil)), w.Code)
	}
	// Output:
	// <nil> 200
	// <nil> 429
}

// Decide suits servers whose responses are no http.ResponseWriter.
func ExampleMiddleware_Decide() {
	limited, err := httplimit.Limit(newLimiter("orders", stint.Spec{Limit: 1, Window: time.Minute}), httplimit.Options{Dialect: httplimit.IETF})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		answer, err := limited.Decide(httptest.NewRequest("GET", "/", nil))
		if err != nil {
			fmt.Println(httplimit.ErrorStatus(err))
			return
		}
		header := http.Header{}
		answer.SetHeaders(header, time.Now())
		fmt.Println(answer.Allowed(), answer.Status(), header.Get("RateLimit"), answer.RetryAfter())
	}
	// Output:
	// true 200 "orders";r=0;t=60 0s
	// false 429 "orders";r=0;t=60 1m0s
}

func newLimiter(name string, specs ...stint.Spec) *stint.Limiter {
	// The clock is fixed, so that the examples always print the same.
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	var limits []stint.Limit
	for _, spec := range specs {
		limit, err := spec.Compile()
		if err != nil {
			log.Fatal(err)
		}
		limits = append(limits, limit)
	}
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{Clock: func() time.Time { return now }}), name, limits...)
	if err != nil {
		log.Fatal(err)
	}
	return limiter
}

// A single address is a network of one.
func ExampleParsePrefixes() {
	fmt.Println(httplimit.ParsePrefixes("10.0.0.0/8", "192.0.2.1"))
	_, err := httplimit.ParsePrefixes("10.0.0.0/33")
	fmt.Println(err)
	// Output:
	// [10.0.0.0/8 192.0.2.1/32] <nil>
	// "10.0.0.0/33" is neither a network nor an address (write 10.0.0.0/8, 2001:db8::/32 or 10.1.2.3)
}

func ExampleParseDialect() {
	fmt.Println(httplimit.ParseDialect("ietf-03"))
	_, err := httplimit.ParseDialect("ietf-3")
	fmt.Println(err)
	// Output:
	// ietf-03 <nil>
	// headers: "ietf-3" is not known (use one of [standard ietf ietf-03 x-ratelimit unix-reset none])
}

func ExampleParseSource() {
	fmt.Println(httplimit.ParseSource("header:X-API-Key"))
	_, err := httplimit.ParseSource("headers:X-API-Key")
	fmt.Println(err)
	// Output:
	// header:X-Api-Key <nil>
	// "headers:X-API-Key" is no source of an identity (did you mean "header:X-API-Key"? Otherwise use bearer, header:NAME, header:NAME:SCHEME, query:NAME, cookie:NAME or jwt:CLAIM)
}
