package rulelimit_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/rule"
	"github.com/stintdev/stint/rule/rulelimit"
)

// hello is the application.
func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

// This program limits its clients by the tiers of a rule file, which operators change
// while it runs.
func ExampleWatch() {
	ctx, path := context.Background(), "testdata/tiers.yaml"

	store := stint.NewMemory(stint.MemoryOptions{})
	rules, err := rulelimit.Watch(ctx, path, store, rulelimit.Options{Logger: slog.Default()})
	if err != nil {
		log.Fatal(err) // every mistake of the file, one on each line
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/", hello)
	limited, err := rules.Middleware(httplimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	handler := limited.Wrap(mux)

	for _, key := range []string{"free_1", "free_1", "gold_1", "stolen_1"} { // or http.ListenAndServe(":8080", handler)
		r := httptest.NewRequest(http.MethodGet, "/v1/orders", nil)
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(key, w.Code, w.Header().Get("X-RateLimit-Limit"))
	}
	// Output:
	// free_1 200 1
	// free_1 429 1
	// gold_1 200 100
	// stolen_1 403
}

// The program knows which user sent a request, and the tier of each user. Rules read both
// as attributes, and shadow rules are observed.
func ExampleNew() {
	set, err := rule.Load("testdata/plans.yaml")
	if err != nil {
		log.Fatal(err)
	}
	store := stint.NewMemory(stint.MemoryOptions{})
	rules, err := rulelimit.New(set, store, rulelimit.Options{
		Attributes: map[string]func(*http.Request) string{
			"user_id": func(r *http.Request) string { return r.Header.Get("X-User") }, // or of the session
			"tier":    func(r *http.Request) string { return map[string]string{"ann": "gold"}[r.Header.Get("X-User")] },
		},
		Observe: func(_ *httplimit.Request, _ int64, o *rule.Outcome) {
			for i := range o.Hits {
				fmt.Println(o.Hits[i].Rule.ID, o.Hits[i].Decision.Allowed)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	limited, err := rules.Middleware(httplimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	handler := limited.Wrap(http.HandlerFunc(hello))

	for _, user := range []string{"ann", "bob", "bob", ""} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-User", user)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(user, w.Code, w.Header().Get("X-RateLimit-Limit"))
	}
	// Output:
	// users true
	// ann 200 100
	// users true
	// bob 200 1
	// users false
	// bob 429 1
	// users false
	//  429 1
}

// A rule that would not limit what it says is refused.
func ExampleNew_refused() {
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(`
rules:
  - id: tenants
    by: ["heder:x-tenant"]
    limit: 100
    window: 1m
`)})
	if err != nil {
		log.Fatal(err)
	}
	_, err = rulelimit.New(set, stint.NewMemory(stint.MemoryOptions{}), rulelimit.Options{})
	fmt.Println(err)
	// Output:
	// rules.yaml:4:10: "heder:x-tenant" is no attribute of a request (did you mean "header:x-tenant"? Otherwise use api_key, ip, method, path, host, header:NAME, query:NAME, cookie:NAME or jwt:CLAIM); give Options.Attributes a function for an attribute that the program knows
}
