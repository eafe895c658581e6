package main

import (
	"net/http"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

var plans = map[string]stint.Limit{
	"anonymous": stint.MustParseLimit("2/h"), // requests without a known API key
	"free":      stint.MustParseLimit("5/h"),
	"pro":       stint.MustParseLimit("1000/h"),
}

// limitByPlan limits each known API key by its plan. Requests with an unknown key or plan
// are anonymous and count by address, so inventing a key for each request gains nothing.
func limitByPlan(store stint.Store, planOf map[string]string, next http.Handler) (http.Handler, error) {
	handlers := map[string]http.Handler{}
	for plan, limit := range plans {
		limiter, err := stint.NewLimiter(store, plan, limit)
		if err != nil {
			return nil, err
		}
		by := "header:X-API-Key"
		if plan == "anonymous" {
			by = "ip"
		}
		limited, err := httplimit.Limit(limiter, httplimit.Options{By: []string{by}})
		if err != nil {
			return nil, err
		}
		handlers[plan] = limited.Wrap(next)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limited, known := handlers[planOf[r.Header.Get("X-API-Key")]]
		if !known {
			limited = handlers["anonymous"]
		}
		limited.ServeHTTP(w, r)
	}), nil
}
