package httplimit_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
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
	limited, err := httplimit.Limit(limiter)
	if err != nil {
		log.Fatal(err)
	}
	handler := limited(hello)

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
	limited, err := httplimit.Limit(limiter, httplimit.By("api_key"))
	if err != nil {
		log.Fatal(err)
	}
	handler := limited(hello)

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
func ExampleTrust() {
	limited, err := httplimit.Limit(newLimiter("orders", stint.Spec{Limit: 1, Window: time.Minute}),
		httplimit.Trust(netip.MustParsePrefix("192.0.2.0/24")))
	if err != nil {
		log.Fatal(err)
	}
	handler := limited(hello)

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

// This example uses most settings: users are identified by a header, uploads
// cost their size, one dialect of headers is sent, and requests pass when no decision
// can be made.
func ExampleMiddleware() {
	user, err := httplimit.ParseSource("header:X-User")
	if err != nil {
		log.Fatal(err)
	}
	m := &httplimit.Middleware{
		Decider: &httplimit.Counter{
			Limiter: newLimiter("kilobytes", stint.Spec{Limit: 1000, Window: time.Hour}),
			By:      []string{"api_key"},
			Cost:    func(r *http.Request) int64 { return max(0, r.ContentLength) / 1000 },
			Dialect: httplimit.IETF,
			Jitter:  0.2,
		},
		Identity: httplimit.Identity{APIKey: []httplimit.Source{user}},
		OnError: func(w http.ResponseWriter, r *http.Request, next http.Handler, err error) {
			log.Print(err)
			next.ServeHTTP(w, r)
		},
	}
	if err := m.Identity.Validate(); err != nil {
		log.Fatal(err)
	}

	w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil)
	r.ContentLength = 250_000
	m.Wrap(hello).ServeHTTP(w, r)
	fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"), w.Header().Get("RateLimit"))
	// Output: 200 "kilobytes";q=1000;w=3600 "kilobytes";r=750;t=4
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
