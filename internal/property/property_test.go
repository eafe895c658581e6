package property

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// recorder is a test whose failures do not count.
type recorder struct {
	testing.TB

	failed bool
	log    strings.Builder
}

func (*recorder) Helper()                        {}
func (r *recorder) Failed() bool                 { return r.failed }
func (r *recorder) Errorf(string, ...any)        { r.failed = true }
func (r *recorder) Logf(format string, a ...any) { fmt.Fprintf(&r.log, format, a...) }

func TestAFailingCaseIsRepeatedByItsSeed(t *testing.T) {
	draw := func(t *T) {
		t.Int64("number", 0, math.MaxInt64)
		Pick(t, "word", "a", "b")
		t.Bool("sign")
		t.Errorf("wrong")
	}
	logs := map[string]bool{}
	for range 2 {
		r := &recorder{}
		run(r, 42, draw)
		logs[r.log.String()] = true
	}
	for log := range logs {
		if len(logs) != 1 || !strings.Contains(log, "STINT_SEED=42 ") || !strings.Contains(log, "\n    number: ") || !strings.Contains(log, "\n    word: ") {
			t.Errorf("%d logs, of them %s", len(logs), log)
		}
	}
	r := &recorder{}
	run(r, 42, func(t *T) { t.Bool("sign") })
	if r.log.Len() > 0 {
		t.Errorf("a case that holds logs %s", &r.log)
	}
}

func TestNumbersAreInTheirRange(t *testing.T) {
	for _, c := range []struct{ low, high int64 }{{0, 0}, {-3, 3}, {5, 6}, {math.MinInt64, math.MaxInt64}, {math.MaxInt64 - 1, math.MaxInt64}} {
		seen := map[int64]int{}
		run(t, 1, func(t *T) {
			for range 1000 {
				v := t.Int64("v", c.low, c.high)
				if v < c.low || v > c.high {
					t.Fatalf("%d is not from %d to %d", v, c.low, c.high)
				}
				seen[v]++
			}
		})
		if seen[c.low] < 50 || seen[c.high] < 50 {
			t.Errorf("%d to %d: the ends are drawn %d and %d times", c.low, c.high, seen[c.low], seen[c.high])
		}
	}
}

func TestEveryCaseIsRun(t *testing.T) {
	n, want := 0, cases
	if testing.Short() {
		want = casesShort
	}
	Check(t, func(*T) { n++ })
	if n != want {
		t.Errorf("%d cases, want %d", n, want)
	}
}
