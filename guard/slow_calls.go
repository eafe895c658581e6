package guard

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/stintdev/stint/resilience/breaker"
)

// slowCalls keeps how long the last slow calls to a shard took. The breaker only counts
// them; the log line of an open circuit says what its percentile was.
type slowCalls struct {
	mu   sync.Mutex
	took []time.Duration // a ring of at most keptSlow; guarded by mu, as next is
	next int
}

// keptSlow bounds the memory of a shard. If a window has more slow calls, the percentile
// is that of the last ones.
const keptSlow = 512

func (s *slowCalls) add(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.took) < keptSlow {
		s.took = append(s.took, took)
		return
	}
	s.took[s.next] = took
	s.next = (s.next + 1) % keptSlow
}

// reached returns what the given share of the calls took at least: with a share of 0.01
// the 99th percentile. The counts are those of a window whose last calls s has seen, and
// at least that share of them were slow.
func (s *slowCalls) reached(share float64, c breaker.Counts) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := slices.Concat(s.took[s.next:], s.took[:s.next])
	last = last[len(last)-min(len(last), c.Slow):]
	if len(last) == 0 {
		return 0
	}
	slices.Sort(last)
	slower := max(1, int(math.Ceil(share*float64(c.Calls)))) - 1 // calls that may have taken longer
	return last[len(last)-1-min(len(last)-1, slower*len(last)/c.Slow)]
}

// explain says in numbers why a breaker opened.
func (s *shards) explain(sh *shard, c breaker.Change) string {
	o := &s.breaker
	switch c.Reason {
	case breaker.ReasonConsecutive:
		return fmt.Sprintf("%d failures in a row", o.ConsecutiveFailures)
	case breaker.ReasonFailures:
		return fmt.Sprintf("%d of %d calls failed, threshold %g %%", c.Counts.Failures, c.Counts.Calls, 100*o.FailureRatio)
	case breaker.ReasonSlow:
		return fmt.Sprintf("p%.4g %s over %d calls, threshold %s", 100-100*o.SlowRatio,
			inMilliseconds(sh.slow.reached(o.SlowRatio, c.Counts)), c.Counts.Calls, inMilliseconds(o.SlowAfter))
	}
	return c.Reason.String()
}

// inMilliseconds writes a time with three digits or, from a second on, whole milliseconds.
func inMilliseconds(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms >= 1000 {
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.3g ms", ms)
}
