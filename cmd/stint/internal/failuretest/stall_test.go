package failuretest

import (
	"slices"
	"time"
)

const (
	pulse = 500 * time.Microsecond // interval of the timer
	stall = time.Millisecond       // least delay of the timer that counts as a stall
)

// stalls records the times in which the host did not run this process although a timer
// was due. The longest check is measured without them, because they do not depend on
// the store. On an idle host there are no stalls. The figures print both values.
type stalls struct{ all []span }

// watch records stalls until done is closed.
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

// within returns the sum of the stalls between two times.
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
