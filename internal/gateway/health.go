package gateway

import (
	"sync"
	"time"
)

// The pause after a failed dial doubles with each failure in a row.
const (
	minBackOff = 500 * time.Millisecond
	maxBackOff = 15 * time.Second
)

// health is what the gateway believes of one upstream. The zero value is up.
// Time is an argument; it is safe for use by many goroutines.
type health struct {
	mu struct {
		sync.Mutex
		failures int       // dials that failed, in a row
		until    time.Time // not tried before; zero: up
		sick     bool      // the last check failed; only a check can mend it
	}
}

// usable reports whether a request may be sent at now.
func (h *health) usable(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.usableLocked(now)
}

func (h *health) usableLocked(now time.Time) bool {
	return !h.mu.sick && !now.Before(h.mu.until)
}

// claim is usable for the one who then sends. When a pause has just ended it
// begins another, so that one request finds out and the others wait. What it
// returns goes to dialFailed.
func (h *health) claim(now time.Time) (failures int, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.usableLocked(now) {
		return 0, false
	}
	if h.mu.failures > 0 {
		h.mu.until = now.Add(backOff(h.mu.failures))
	}
	return h.mu.failures, true
}

// dialFailed begins a pause, longer than the one before it. Of dials that
// were under way together, claimed after the same number of failures, the
// first alone counts. It reports whether the upstream was up before.
func (h *health) dialFailed(now time.Time, claimed int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if claimed != h.mu.failures {
		return false
	}
	h.mu.failures++
	h.mu.until = now.Add(backOff(h.mu.failures))
	return h.mu.failures == 1 && !h.mu.sick
}

// connected ends every pause. It reports whether there was one. A check that
// failed stands.
func (h *health) connected() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.mu.failures > 0
	h.mu.failures, h.mu.until = 0, time.Time{}
	return was && !h.mu.sick
}

// checked takes the outcome of a check. It reports whether that changed
// anything.
func (h *health) checked(healthy bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := h.mu.sick == healthy || healthy && h.mu.failures > 0
	h.mu.sick = !healthy
	if healthy {
		h.mu.failures, h.mu.until = 0, time.Time{}
	}
	return changed
}

// retryAfter is how long until the upstream is tried again: the rest of the
// pause, or the next check.
func (h *health) retryAfter(now time.Time, interval time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.sick {
		return interval
	}
	return h.mu.until.Sub(now)
}

func backOff(failures int) time.Duration {
	if failures > 5 {
		return maxBackOff
	}
	return min(maxBackOff, minBackOff<<(failures-1))
}
