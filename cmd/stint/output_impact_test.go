package main

import (
	"strings"
	"testing"

	"github.com/stintdev/stint/cmd/stint/internal/impact"
)

// An impact on few requests says that no change is refused for it.
func TestImpactOfFewRequestsRefusesNothing(t *testing.T) {
	const hint = "impact: too few requests to refuse a change for (fewer than 100)\n"
	for allowed, want := range map[int]bool{99: true, 100: false} {
		var out strings.Builder
		l := &printer{w: &out}
		l.impact(&impact.Result{Requests: allowed, Allowed: allowed, Denied: 60, Share: 0.6, Callers: 1})
		if got := strings.Contains(out.String(), hint); got != want {
			t.Errorf("%d allowed:\n%s", allowed, &out)
		}
	}
}
