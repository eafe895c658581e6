package cas

import (
	"sync"
	"time"
)

// serverClock tells the time of a server between its answers, for rounds whose item is in
// the cache.
//
// Problem. A call must be decided at a time that the server's clock shows between the begin
// and the end of the call. A round that reads its item gets such a time with it. A round that
// does not read must compute one. The offset between the clocks is known only to within a
// round trip, so an estimate may be before the begin, where a window that has ended
// still counts, or after the end, where units count that have not refilled.
//
// Approach. The server reads its clock after the call was sent. So the time in an answer plus
// all the time since the call was sent is an upper bound on the time of the server, and
// no estimate. The round decides at this bound, which is not before its calls began. The swap
// carries the bound ([Swap.NotBefore]), and is refused if the clock of the server is not
// there yet. A swap that is made was thus decided at a time within the call. A refused round
// reads its item.
//
// Trade-off. The bound is ahead by the time that the call of the sample took to the server.
// The clock keeps the sample with the least bound, and a swap takes as long to the server as that
// call did, so few swaps are refused. A sample that a queue delayed is replaced by the next one.
//
// Bound. The bound grows by maxDrift with the age of its sample, because the clocks may
// run at different rates. If the clock of the server is set forward, or runs faster than
// that, decisions are behind by the difference until the next answer shows it, and for maxAge
// at most. If the clock is set back, the server refuses the swaps until the next answer. The node
// forgets the sample if its own clock is set or if it was suspended, which its wall
// clock and its monotonic clock then tell, and after a call that failed: the next answer
// may be that of another server.
type serverClock struct {
	mu     sync.Mutex
	none   bool   // guarded by mu: the server has no clock
	sample sample // guarded by mu: the one with the least bound
}

// sample is a time that the server told in an answer, and the local time at which the call
// was sent.
type sample struct {
	sent   time.Time // with the monotonic clock
	wall   time.Time // sent by the wall clock alone
	server time.Time
}

const (
	// maxAge is the greatest age of a sample. At this age maxDrift is as much as a call in a
	// data center varies; an older sample would be refused often.
	maxAge = 20 * time.Millisecond
	// maxDrift is the part of a sample's age by which its bound grows. The kernel
	// adjusts a clock by half of that at most when it follows a time service.
	maxDrift = 1000
	// maxStep is the difference between the wall clock and the monotonic clock, which are read one
	// after the other, from which the wall clock was set.
	maxStep = 10 * time.Microsecond
	// resolution is that of the times of a server, which are rounded down.
	resolution = time.Microsecond
)

// learn notes the time in an answer, or the zero time if the server has no clock.
func (c *serverClock) learn(sent, answered, server time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.none = server.IsZero(); c.none {
		return
	}
	s := sample{sent, sent.Round(0), server}
	bound, known := c.sample.bound(answered)
	stepped := bound.Before(server)
	if least, _ := s.bound(answered); !known || stepped || !least.After(bound) {
		c.sample = s
	}
}

// forget drops the sample.
func (c *serverClock) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sample = sample{}
}

// now returns an upper bound on the time of the server, or the zero time if it has no clock.
// It returns false if the last answer is too old.
func (c *serverClock) now() (server time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.none {
		return server, true
	}
	server, ok = c.sample.bound(time.Now())
	return server.Truncate(resolution), ok
}

// bound returns an upper bound on the time of the server. It returns false if the
// sample does not tell one.
func (s *sample) bound(now time.Time) (server time.Time, ok bool) {
	age := now.Sub(s.sent)
	set := now.Round(0).Sub(s.wall) - age // how far the wall clock was set
	ok = !s.server.IsZero() && age <= maxAge && set.Abs() <= maxStep
	return s.server.Add(resolution + age + age/maxDrift), ok
}
