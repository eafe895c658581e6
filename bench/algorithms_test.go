package main

import (
	"strings"
	"testing"
	"time"
)

func TestAlgorithmsPartRunsInSmall(t *testing.T) {
	o := options{only: []string{"algorithms"}, rounds: 1, slice: 5 * time.Millisecond, keys: 10_000}
	if o.findRedis() == "" {
		t.Skip("no redis-server or valkey-server is installed")
	}
	var out strings.Builder
	if err := runParts(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	for _, a := range algorithmsOverRedis() {
		if n := strings.Count(out.String(), a.spec.Algorithm.String()); n < 2 {
			t.Errorf("%v is named %d times:\n%s", a.spec.Algorithm, n, &out)
		}
	}
	for _, load := range []string{"load: one check in flight", "load: 64 checks in flight"} {
		if !strings.Contains(out.String(), load) {
			t.Errorf("the output lacks %q:\n%s", load, &out)
		}
	}
	if !strings.Contains(out.String(), "sliding_window_counter, p99") || strings.Count(out.String(), "  0 %") != 2*(1+len(algorithmsOverRedis())) {
		t.Errorf("a bar lacks, or a check was not admitted:\n%s", &out)
	}
}
