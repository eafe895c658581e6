package rule

import (
	"sync"
)

// Set is a complete rule set. A nil Set and the zero value have no rules. A Set is
// immutable and safe for concurrent use.
type Set struct {
	rules     []*Rule
	tiers     tiers
	lists     lists
	rulesDeny bool // whether any rule has its own deny list
	ipv6Bits  int
	version   string
	warnings  Problems
	shared    map[string]Problems // by store; see StrictSharedKeys

	pathEncoding PathEncoding

	stores []namedStore

	sources   []string   // of the API key; nil: the server's
	sourcesAt []position // where each is named

	files    []string // names for mentions
	mentions []mention

	slots    slots
	index    *index
	requests sync.Pool // holds *request values sized for this set
}

// orZero returns the zero Set in place of a nil one, so that both behave alike.
func (s *Set) orZero() *Set {
	if s == nil {
		return &Set{}
	}
	return s
}

// lists holds the allow list and the deny list.
type lists struct{ allow, deny selector }

// tiers holds the declared tiers of a set in file order.
type tiers struct {
	names   []string
	byName  map[string]int32
	byKey   selector
	numbers []*numbers
}

// slots assigns an index to every attribute that a set mentions.
type slots struct {
	names  []string
	byName map[string]slot
}

// mention is a place in the files at which a rule reads an attribute.
type mention struct {
	slot slot
	at   position
}

func newSlots() slots {
	s := slots{byName: make(map[string]slot)}
	for _, name := range wellKnownNames {
		s.of(name)
	}
	return s
}

// of returns the slot of an attribute and assigns a new slot to a new name.
func (s *slots) of(name string) slot {
	if i, ok := s.byName[name]; ok {
		return i
	}
	i := slot(len(s.names))
	s.names, s.byName[name] = append(s.names, name), i
	return i
}

// Rules returns the rules in file order. Callers must not modify the slice.
func (s *Set) Rules() []*Rule { return s.orZero().rules }

// Tiers returns the names of the declared tiers in file order.
func (s *Set) Tiers() []string { return append([]string(nil), s.orZero().tiers.names...) }

// Version returns the version that the files give the set. It may be empty.
func (s *Set) Version() string { return s.orZero().version }

// Warnings returns the findings that are valid but probably unintended.
func (s *Set) Warnings() Problems { return s.orZero().warnings }

// StrictSharedKeys returns a problem for each strict rule that a store counts and that does
// not tell callers apart: they all charge the same keys. Use it for a store that can make few
// writes of one key. An empty name is the default store. Rules in mode off are left out.
func (s *Set) StrictSharedKeys(store string) Problems { return s.orZero().shared[store] }

// borrow takes a request from the pool; release puts it back. A nil a stands
// for a request without attributes.
func (s *Set) borrow(a Attributes, cost int64) *request {
	s = s.orZero()
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

// release clears the request, so that the pool retains none of its data, and
// returns it to the pool.
func (*Set) release(q *request) {
	clear(q.values)
	clear(q.parts)
	q.reset()
	q.attributes, q.list, q.err, q.tierKnown = nil, ListNone, nil, false
	q.set.requests.Put(q)
}

// Only returns the set with just one of its rules, and the same lists and tiers. Use it
// to find what a rule does by itself. The Hits of its outcomes have the same r.
func (s *Set) Only(r *Rule) *Set {
	one := s.orZero().copy()
	one.rules = []*Rule{r}
	one.index = newIndex(one.rules, one.tiers.names)
	return one
}

// copy returns a set with the same content. It has requests of its own.
func (s *Set) copy() *Set {
	return &Set{
		rules: s.rules, tiers: s.tiers, lists: s.lists, rulesDeny: s.rulesDeny, ipv6Bits: s.ipv6Bits, version: s.version, warnings: s.warnings, shared: s.shared,
		pathEncoding: s.pathEncoding, files: s.files, mentions: s.mentions, slots: s.slots, index: s.index,
		sources: s.sources, sourcesAt: s.sourcesAt, stores: s.stores,
	}
}

// CheckAttributes calls check for the name of each attribute that rules count by,
// charge by, or compare, and returns the errors as problems at the places of the
// files where the attribute is named. A tier without a pattern reads "tier". Use it to
// refuse rules that a program cannot apply: a rule that reads an attribute that no
// request has is valid, but counts requests otherwise than its author meant, or not
// at all. Rules in mode off are not checked.
func (s *Set) CheckAttributes(check func(name string) error) (problems Problems) {
	s = s.orZero()
	errs := make([]error, len(s.slots.names))
	for i, name := range s.slots.names {
		errs[i] = check(name)
	}
	for _, m := range s.mentions {
		if err := errs[m.slot]; err != nil {
			problems = append(problems, Problem{File: s.files[m.at.file], Line: int(m.at.line), Column: int(m.at.column), What: err.Error()})
		}
	}
	return problems
}

// CheckIDs returns a problem with the place in the file for each rule whose id check refuses,
// such as an id that a program reserves.
func (s *Set) CheckIDs(check func(id string) error) (problems Problems) {
	s = s.orZero()
	for _, r := range s.rules {
		if err := check(r.ID); err != nil {
			problems = append(problems, Problem{File: s.files[r.at.file], Line: int(r.at.line), Column: int(r.at.column), What: err.Error()})
		}
	}
	return problems
}

// Attributes returns the names of the attributes that the set may read from a
// request, the well-known ones first. Callers must not modify the slice.
func (s *Set) Attributes() []string { return s.orZero().slots.names }
