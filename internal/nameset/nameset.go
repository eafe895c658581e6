// Package nameset bounds how many different names an exporter of metrics shows.
//
// A metric has a series for each value of its labels, and each series takes memory here
// and in every system that stores it. Names of limiters, stores and dependencies come
// from the program, which may make one for each of its users by mistake. A [Set] accepts
// a fixed number of names. The exporter shows [Other] in place of all further ones, so
// the totals stay right.
package nameset

import "sync"

// Other is shown in place of the names that a set does not accept. It is no valid name
// of a limiter.
const Other = "_other"

// Max is how many names a set accepts.
const Max = 1000

// Set is a set of names, or of arrays of names that occur together. The zero value is
// empty. It is safe for concurrent use.
type Set[K comparable] struct {
	mu    sync.RWMutex
	known map[K]struct{}
}

// Accepts reports whether a name is one of the first Max that the set was asked for.
func (s *Set[K]) Accepts(name K) bool {
	s.mu.RLock()
	_, ok := s.known[name]
	full := len(s.known) >= Max
	s.mu.RUnlock()
	if ok || full {
		return ok
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[K]struct{}{}
	}
	if _, ok = s.known[name]; !ok && len(s.known) >= Max {
		return false
	}
	s.known[name] = struct{}{}
	return true
}
