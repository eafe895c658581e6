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

// health is the known state of one upstream. The zero value is up. Methods take the time
// as an argument and are safe for concurrent use.
type health struct {
	mu struct {
		sync.Mutex
		failures int       // consecutive failed dials
		until    time.Time // not tried before this time; zero: up
		sick     bool      // the last check failed; only a successful check clears it
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

// claim is usable for a caller that then sends a request. If a pause has just ended,
// claim begins another, so that one request tries the upstream while the others wait. The
// returned count of failures must be passed to dialFailed.
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

// dialFailed begins a pause, longer than the last one. Of concurrent dials that were
// claimed after the same number of failures, only the first counts. It reports whether
// the upstream was up.
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

// connected ends any pause and reports whether there was one. It does not clear a failed
// check.
func (h *health) connected() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.mu.failures > 0
	h.mu.failures, h.mu.until = 0, time.Time{}
	return was && !h.mu.sick
}

// checked records the outcome of a check and reports whether the state changed.
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

// retryAfter returns the time until the upstream is tried again: the rest of the pause,
// or the time of the next check.
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
