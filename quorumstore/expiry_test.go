package quorumstore

import (
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// A write of a limit of a day reaches one server alone. Its caller settles it without that server, decides
// again, and is denied. What the others have accepted then expires within seconds: the write that was
// settled must not be found on the one server after that.
func TestASettledWriteIsNotFoundAfterTheOthersExpire(t *testing.T) {
	t.Parallel()
	steadily(t, 3, 12*time.Hour, func(t *testing.T, s *simulation) {
		n, other, late := s.nodes[0], s.nodes[1], s.nodes[2]
		const alone = 2
		elapse(5 * time.Second)
		n.take("other", true, false)
		other.take("other", true, false)
		other.setCut(alone)
		n.slow(0, verbAccept)
		n.slow(1, verbAccept)
		denied := make(chan *simTake)
		go func() { denied <- n.take("k", true, true) }()
		elapse(time.Millisecond)
		n.setCut(alone)
		if h := other.takeN("k", simBurst, true, false); !h.allowed {
			t.Errorf("the other process: %+v", h)
		}
		h := <-denied
		if h.err != nil || h.allowed {
			t.Errorf("the call was not denied: %+v", h)
		}
		elapse(30 * time.Second)
		late.setCut(1)
		if used := late.used("k"); used != 0 {
			t.Errorf("%d units of the day are used after none was allowed", used)
		}
	})
}

// A key stays for as long as a group that may be repeated is remembered.
func TestKeysStayForAMinute(t *testing.T) {
	t.Parallel()
	for keepFor, want := range map[time.Duration]time.Duration{0: stint.RememberFor, time.Hour: time.Hour} {
		o := Options{KeepFor: keepFor}
		if got := o.loop(time.Second).KeepFor; got != want {
			t.Errorf("with KeepFor %v: %v, want %v", keepFor, got, want)
		}
	}
}
