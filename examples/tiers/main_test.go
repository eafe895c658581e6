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
