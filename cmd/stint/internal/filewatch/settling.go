package filewatch

import "time"

// settling waits until a series of events ends. The zero value waits for nothing.
type settling struct {
	over  <-chan time.Time // fires when the folder is quiet; nil without events
	first time.Time        // time of the first event since then
}

// disturb restarts the wait for quietTime, within patience of the first event.
func (s *settling) disturb() {
	now := time.Now()
	if s.over == nil {
		s.first = now
	}
	s.over = time.After(min(quietTime, patience-now.Sub(s.first)))
}

// settled ends the wait.
func (s *settling) settled() { s.over = nil }
