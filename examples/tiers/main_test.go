package main

import (
	"net/http"
	"testing"

	"github.com/stintdev/stint/examples/internal/program"
)

func TestMain(m *testing.M) { program.Main(m, main) }

func TestPlansHaveTheirLimits(t *testing.T) {
	url := program.Serve(t)
	for _, c := range []struct {
		key     string
		allowed int
	}{{"k-free", 5}, {"k-pro", 100}, {"unknown", 2}} {
		for range c.allowed {
			if r := program.Get(t, url, "X-API-Key", c.key); r.StatusCode != http.StatusOK {
				t.Fatalf("%s: status %d within the limit", c.key, r.StatusCode)
			}
		}
	}
	for _, key := range []string{"k-free", "another unknown"} {
		r := program.Get(t, url, "X-API-Key", key)
		if r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
			t.Errorf("%s: status %d, Retry-After %q beyond the limit", key, r.StatusCode, r.Header.Get("Retry-After"))
		}
	}
}
