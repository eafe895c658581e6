package filewatch

import "time"

// settling waits until disturbances end. The zero value is at rest.
type settling struct {
	over  <-chan time.Time // fires when quiet; nil at rest
	first time.Time        // of the disturbances since
}

// disturb starts the wait again, but for no longer than patience in all.
func (s *settling) disturb() {
	now := time.Now()
	if s.over == nil {
		s.first = now
	}
	s.over = time.After(min(quietTime, patience-now.Sub(s.first)))
}

// settled is at rest again.
func (s *settling) settled() { s.over = nil }
