//go:build unix

package ruletest_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

const rounds = 5 // the best round counts, because the machine has other load

// tenThousand returns ten thousand rules, of which one matches a request for
// /orders/7.
func tenThousand() rule.File {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range 10_000 {
		fmt.Fprintf(&b, "  - {id: r%d, limit: 100, window: 60, match: {path_prefix: /p%d/orders, methods: [GET]}}\n", i, i)
	}
	return rule.File{Name: "rules.yaml", Data: []byte(b.String())}
}

func TestTenThousandRulesLoadInHalfASecond(t *testing.T) {
	skipShort(t)
	file, best := tenThousand(), time.Hour
	for range rounds {
		begun, used := time.Now(), processorTime(t)
		if _, err := rule.Parse(file); err != nil {
			t.Fatal(err)
		}
		used = processorTime(t) - used
		t.Logf("10000 rules load in %v, of which the processors worked %v", time.Since(begun), used)
		best = min(best, used)
	}
	if best > 500*time.Millisecond {
		t.Errorf("10000 rules take %v of a processor to load, want 500ms", best)
	}
}

// processorTime returns the processor time of this process, including garbage
// collection. Wall-clock time would also measure other load on the machine.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		t.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

func TestMatchingAmongTenThousandRulesAddsLittle(t *testing.T) {
	skipShort(t)
	one := rule.File{Name: "rules.yaml", Data: []byte("rules:\n  - {id: r7, limit: 100, window: 60, match: {path_prefix: /p7/orders, methods: [GET]}}\n")}
	among, alone := decideTime(t, tenThousand()), decideTime(t, one)
	t.Logf("a check among 10000 rules takes %v, with one rule %v", among, alone)
	if among-alone > 2*time.Microsecond {
		t.Errorf("10000 rules add %v to a check, want 2µs", among-alone)
	}
}

// decideTime returns the time of one check.
func decideTime(t *testing.T, file rule.File) time.Duration {
	t.Helper()
	set, err := rule.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	store := stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000})
	request := rule.Map{"api_key": "k", "method": "GET", "path": "/p7/orders/1"}
	var outcome rule.Outcome
	best := time.Hour
	const each = 20_000
	for range rounds {
		begun := time.Now()
		for range each {
			if err := set.DecideInto(t.Context(), store, request, 1, &outcome); err != nil {
				t.Fatal(err)
			}
		}
		best = min(best, time.Since(begun)/each)
	}
	if len(outcome.Hits) != 1 {
		t.Fatalf("%d rules matched, want one", len(outcome.Hits))
	}
	return best
}
