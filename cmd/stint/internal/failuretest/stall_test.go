package failuretest

import (
	"slices"
	"time"
)

const (
	pulse = 500 * time.Microsecond // how often stalls looks whether the process runs
	stall = time.Millisecond       // how late it then is at least that was stalled
)

// stalls is the times in which the host kept this process from running what
// was ready to run: a timer that was due and did not fire. The longest check
// is judged without them, for they say nothing of the store. On a host that is
// not busy there are none; the figures give both.
type stalls struct{ all []span }

// watch notes stalls until done is closed.
func (s *stalls) watch(done <-chan struct{}) {
	timer := time.NewTimer(pulse)
	defer timer.Stop()
	for due := time.Now().Add(pulse); ; due = time.Now().Add(pulse) {
		select {
		case <-timer.C:
		case <-done:
			return
		}
		if now := time.Now(); now.Sub(due) >= stall {
			s.all = append(s.all, span{due, now})
		}
		timer.Reset(pulse)
	}
}

// within is how much of a time was stalls.
func (s *stalls) within(from, to time.Time) (sum time.Duration) {
	first, _ := slices.BinarySearchFunc(s.all, from, func(late span, t time.Time) int { return late.to.Compare(t) })
	for _, late := range s.all[first:] {
		if !late.from.Before(to) {
			break
		}
		sum += earlier(late.to, to).Sub(later(late.from, from))
	}
	return sum
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
