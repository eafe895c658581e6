package httpapi

import "bytes"

// fewNames is how many names are compared one with the other.
const fewNames = 16

// names are the names of one object's members so far.
type names struct {
	few  [fewNames][]byte
	n    int
	many map[string]bool // those beyond the few
}

// add reports whether the name is new.
func (s *names) add(name []byte) bool {
	for _, other := range s.few[:s.n] {
		if bytes.Equal(name, other) {
			return false
		}
	}
	if s.n < fewNames {
		s.few[s.n] = name
		s.n++
		return true
	}
	return s.addFurther(string(name))
}

func (s *names) addFurther(name string) bool {
	if s.many == nil {
		s.many = map[string]bool{}
	}
	known := s.many[name]
	s.many[name] = true
	return !known
}
