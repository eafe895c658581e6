// Package monotonic measures the time since a fixed moment, by the system's clock or by
// one that a caller gives.
package monotonic

import "time"

// Clock reads the time since it was made. The zero Clock has not been made.
type Clock struct {
	start   time.Time            // of the system's clock
	elapsed func() time.Duration // nil: the system's clock
}

// New returns a clock that reads now, or the system's clock if now is nil. The system's
// clock costs half as much to read as [time.Now], because its wall time is not read. The
// time is 0 while a given clock is before its first reading.
func New(now func() time.Time) Clock {
	if now == nil {
		return Clock{start: time.Now()}
	}
	start := now()
	return Of(func() time.Duration { return max(0, now().Sub(start)) })
}

// Of returns a clock that elapsed reads.
func Of(elapsed func() time.Duration) Clock { return Clock{elapsed: elapsed} }

// Made reports whether the clock is not the zero Clock.
func (c *Clock) Made() bool { return c.elapsed != nil || !c.start.IsZero() }

// Now returns the time since the clock was made.
func (c *Clock) Now() time.Duration {
	if c.elapsed == nil {
		return time.Since(c.start)
	}
	return c.elapsed()
}
