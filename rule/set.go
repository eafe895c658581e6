package rule

import (
	"sync"
)

// Set is a whole rule set. The zero value has no rules. It never changes and is safe for use by many
// goroutines at once.
type Set struct {
	rules     []*Rule
	tiers     tiers
	lists     lists
	rulesDeny bool // a rule has a deny list of its own
	ipv6Bits  int
	version   string
	warnings  Problems

	keepsPaths bool // see KeepPathEncoding

	slots    slots
	index    *index
	requests sync.Pool // of *request, for this set
}

// lists is who is not counted, and who is not let in.
type lists struct{ allow, deny list }

// tiers is the declared tiers of a set, in order of their files.
type tiers struct {
	names   []string
	byName  map[string]int32
	byKey   selector
	numbers []*numbers
}

// slots numbers the attributes that a set mentions.
type slots struct {
	names  []string
	byName map[string]slot
}

func newSlots() slots {
	s := slots{byName: make(map[string]slot)}
	for _, name := range wellKnownNames {
		s.of(name)
	}
	return s
}

// of returns the slot of an attribute, a new one for a new name.
func (s *slots) of(name string) slot {
	if i, ok := s.byName[name]; ok {
		return i
	}
	i := slot(len(s.names))
	s.names, s.byName[name] = append(s.names, name), i
	return i
}

// Rules returns the rules in file order. Do not change them.
func (s *Set) Rules() []*Rule { return s.rules }

// Tiers returns the names of the declared tiers in file order.
func (s *Set) Tiers() []string { return append([]string(nil), s.tiers.names...) }

// Version returns the version that the files say of the set; it may be empty.
func (s *Set) Version() string { return s.version }

// Warnings returns what is no mistake but may not be meant.
func (s *Set) Warnings() Problems { return s.warnings }

// KeepPathEncoding returns the same set for a server that takes "%2F" and ";"
// for a part of a path's segment. Without it, paths are matched and counted as
// servers see them that decode a path before they split it, and drop what
// follows a ";": "/v1%2Forders;a=1" is "/v1/orders". Either way a rule's path
// is read as a request's.
func (s *Set) KeepPathEncoding() *Set {
	return &Set{
		rules: s.rules, tiers: s.tiers, lists: s.lists, rulesDeny: s.rulesDeny, ipv6Bits: s.ipv6Bits, version: s.version, warnings: s.warnings,
		keepsPaths: true, slots: s.slots, index: s.index,
	}
}

// borrow returns a request to work with; giveBack takes it again. A request
// that is nil says nothing of itself.
func (s *Set) borrow(a Attributes, cost int64) *request {
	q, ok := s.requests.Get().(*request)
	if !ok {
		q = &request{set: s, values: make([]attribute, len(s.slots.names))}
	}
	if a == nil {
		a = Map(nil)
	}
	q.attributes, q.cost, q.now = a, cost, 0
	return q
}

// release forgets the request, so that nothing of it is kept alive.
func (s *Set) release(q *request) {
	clear(q.values)
	clear(q.parts)
	q.reset()
	q.attributes, q.list, q.err, q.tierKnown = nil, ListNone, nil, false
	s.requests.Put(q)
}

// Attributes returns the names of the attributes that the set may ask a request
// for, the well-known ones first. Do not change them.
func (s *Set) Attributes() []string { return s.slots.names }
