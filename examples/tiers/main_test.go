package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/examples/internal/program"
)

func TestMain(m *testing.M) { program.Main(m, main) }

func TestPlansHaveTheirLimits(t *testing.T) {
	url := program.Serve(t)
	for _, c := range []struct {
		key    string
		within int
	}{{"k-free", 5}, {"k-pro", 20}, {"unknown", 2}} {
		for range c.within {
			if status, _ := program.Get(t, url, "X-API-Key", c.key); status != http.StatusOK {
				t.Fatalf("%s: status %d within the limit", c.key, status)
			}
		}
	}
	for _, key := range []string{"k-free", "another unknown"} {
		status, header := program.Get(t, url, "X-API-Key", key)
		if status != http.StatusTooManyRequests || header.Get("Retry-After") == "" {
			t.Errorf("%s: status %d, Retry-After %q beyond the limit", key, status, header.Get("Retry-After"))
		}
	}
}

// A customer whose plan has no limit yet is anonymous.
func TestUnknownPlanIsAnonymous(t *testing.T) {
	hello := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	limited, err := limitByPlan(stint.NewMemory(stint.MemoryOptions{}), map[string]string{"k-new": "team"}, hello)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-API-Key", "k-new")
		w := httptest.NewRecorder()
		limited.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("request %d: status %d, want %d", i+1, w.Code, want)
		}
	}
}
