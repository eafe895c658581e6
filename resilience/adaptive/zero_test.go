package adaptive

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// The zero values behave like those with zero options, whichever method is called first.
func TestZeroValues(t *testing.T) {
	for name, use := range map[string]func(t *testing.T){
		"Concurrency": func(t *testing.T) {
			var c Concurrency
			for range 20 {
				if _, ok := c.Begin(); !ok {
					t.Fatal("refused")
				}
			}
			if _, ok := c.Begin(); ok || c.Usage() != (Usage{Limit: 20, InFlight: 20, Admitted: 20, Shed: 1}) {
				t.Errorf("%+v", c.Usage())
			}
		},
		"Concurrency whose usage is read first": func(t *testing.T) {
			var c Concurrency
			if got := c.Usage(); got != (Usage{Limit: 20}) {
				t.Errorf("%+v", got)
			}
		},
		"Throttle": func(t *testing.T) {
			var c Throttle
			call, ok := c.Begin()
			if call.End(Failure); !ok || c.Probability() != 0.5 {
				t.Errorf("%v, %v", ok, c.Probability())
			}
		},
		"Throttle whose probability is read first": func(t *testing.T) {
			var c Throttle
			if c.Probability() != 0 {
				t.Error(c.Probability())
			}
		},
		"CPU": func(t *testing.T) {
			var c CPU
			if _, err := New(Options{Algorithm: &c}); err == nil || c.Scale(100) != 100 || c.Load() != 0 {
				t.Errorf("%v, %d", err, c.Scale(100))
			}
		},
		"Middleware": func(t *testing.T) {
			w := httptest.NewRecorder()
			Middleware{}.Wrap(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			if w.Code != 404 {
				t.Error(w.Code)
			}
		},
		"Transport": func(t *testing.T) {
			s := httptest.NewServer(http.NotFoundHandler())
			defer s.Close()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := (&Transport{}).RoundTrip(req)
			if err != nil || resp.StatusCode != 404 {
				t.Fatal(resp, err)
			}
			_ = resp.Body.Close()
		},
	} {
		t.Run(name, use)
	}
}
