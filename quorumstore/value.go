package quorumstore

import (
	"bytes"
	"encoding/binary"
	"slices"
	"time"

	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/storekit"
)

// The data of a part begins with a byte that says what follows.
const (
	dataStates  = 1 // the length of a head, the head of an item, and states of the item
	dataWhole   = 2 // a value that is not an item
	dataRecords = 3 // as dataStates, with records between the head and the states
)

// noHead is the head of a value that nobody is known to have written.
var noHead = []byte{0}

// place is where a state is: in the part of a class, and maybe once more in that of a lower class.
type place struct {
	scope string
	class uint8
	low   uint8 // the lowest class that has the same state; class: no lower one has it

	charges uint64 // of a record; its class and low are 0
}

// division is a value that is to be divided into parts.
type division struct {
	value   []byte
	decided time.Time
	slack   time.Duration
	upTo    uint8
	// read is the value that the new one was made from, and places are those of its states.
	read   []byte
	places []place
	// lives has the longest life of a state for the scope of each limit of the calls.
	lives map[string]time.Duration
}

// divide returns the parts of a value, all of class upTo or lower, and the places of its states in
// them.
//
// A state is in the class of its limit, whatever its remaining life is. If it moved to a lower class as
// its life becomes shorter, the write would leave its old class empty. A server that alone has that write
// would show this to all readers later, while another write of the lower classes may have replaced the
// state.
//
// Where its limit has got other numbers, the state moves: the calls learn of the classes of their limits
// alone whether their write was made. It also stays in the old class, for the same reason. In a higher one
// it is as it was read, because these calls do not learn whether it was written there. In a lower one it
// is as it is written. The next write of both classes leaves it out there: the state is then known to a
// majority in its new class.
//
// A state of a class above upTo is left out unless it has changed: the value has it only for its reader.
//
// Each part has the head: a later write may replace those of lower classes alone, or be all that a
// reader finds.
func (d *division) divide() (parts []part, places []place) {
	head, packed, ok := cas.SplitItem(d.value)
	states, valid := storekit.SplitValue(packed)
	if !ok || !valid || d.decided.IsZero() {
		return []part{{class: d.upTo, data: append([]byte{dataWhole}, d.value...)}}, nil
	}
	var classes [maxClass + 1][]storekit.StoredState
	places = make([]place, 0, len(states))
	for _, s := range states {
		if s.Remembers() {
			continue
		}
		old, known := placeOf(d.places, s.Scope)
		now := place{scope: s.Scope, class: d.classOf(&s, &old, known)}
		now.low = now.class
		if known && old.class > now.class {
			before := d.before(s.Scope)
			switch {
			case old.class <= d.upTo:
				classes[old.class] = append(classes[old.class], before)
			case bytes.Equal(before.Bytes, s.Bytes):
				places = append(places, old)
				continue
			}
		}
		if known && old.class != now.class && old.low < now.class {
			now.low = old.low
			classes[now.low] = append(classes[now.low], s)
		}
		classes[now.class] = append(classes[now.class], s)
		places = append(places, now)
	}
	records := d.records(states, places)
	for i := range records {
		places = append(places, place{scope: records[i].Scope, charges: records[i].charges})
	}
	for class := range d.upTo + 1 {
		if in := recordsIn(class, records); len(classes[class]) > 0 || len(in) > 0 || class == d.upTo {
			parts = append(parts, part{class: class, data: partOf(head, in, classes[class])})
		}
	}
	return parts, places
}

// copiedAbove returns the highest class above upTo of a state that has a copy in a class up to that, or 0.
// Readers that are not old enough for the state must not write its copy: it would be newer than the
// state that others have written meanwhile.
func copiedAbove(places []place, upTo uint8) (class uint8) {
	for _, p := range places {
		if p.low <= upTo && upTo < p.class {
			class = max(class, p.class)
		}
	}
	return class
}

// classOf returns the class that a state gets, which was at a place before if that is known. No state is
// in a class whose readers may take it for ended although it has not: one that the calls have not
// changed, and one that an undone write brings back, may live for longer than their limits.
func (d *division) classOf(s *storekit.StoredState, before *place, known bool) uint8 {
	left := s.Expires.Sub(d.decided)
	life, claimed := d.lives[s.Scope]
	switch of := classOfLife(life); {
	case claimed && known && of < before.class && bytes.Equal(d.before(s.Scope).Bytes, s.Bytes):
		return min(before.class, d.upTo)
	case claimed:
		return min(max(of, classOfLife(left-d.slack)), d.upTo) // the slack is for clocks
	case known:
		return min(before.class, d.upTo)
	}
	return min(classOfLife(left), d.upTo)
}

// before returns a state of the value that was read.
func (d *division) before(scope string) (s storekit.StoredState) {
	s, _ = stateOf(d.statesBefore(), scope)
	return s
}

// statesBefore returns the states of the value that was read.
func (d *division) statesBefore() []storekit.StoredState {
	_, packed, _ := cas.SplitItem(d.read)
	states, _ := storekit.SplitValue(packed)
	return states
}

// stateOf returns the state of a scope.
func stateOf(states []storekit.StoredState, scope string) (s storekit.StoredState, known bool) {
	for i := range states {
		if states[i].Scope == scope {
			return states[i], true
		}
	}
	return s, false
}

// placeOf returns the place of a scope.
func placeOf(places []place, scope string) (p place, known bool) {
	for i := range places {
		if places[i].scope == scope {
			return places[i], true
		}
	}
	return p, false
}

func partOf(head []byte, records []record, states []storekit.StoredState) []byte {
	packed := storekit.JoinValue(states)
	data := make([]byte, 0, 1+binary.MaxVarintLen16+len(head)+len(packed))
	data = append(data, dataStates)
	data = binary.AppendUvarint(data, uint64(len(head)))
	data = append(data, head...)
	if len(records) > 0 {
		data[0] = dataRecords
		data = appendRecords(data, records)
	}
	return append(data, packed...)
}

// contents are those of chosen parts.
type contents struct {
	row    row       // the parts, as they were chosen
	whole  []byte    // a value that is not an item; nil: the parts are of an item
	parts  []content // the newest first, and of one write those of lower classes first
	writes []written // that the parts are of, the newest first; the last one is none if a part was never written
}

type content struct {
	part

	states []storekit.StoredState // without those that an earlier part has
	copied []storekit.StoredState // those

	records []record
}

type written struct {
	ballot ballot
	head   []byte
}

// contentsOf reads chosen parts. It returns false if they cannot be read.
func contentsOf(chosen []part, now time.Time) (c contents, ok bool) {
	c.row.parts = chosen
	sorted := slices.Clone(chosen)
	slices.SortStableFunc(sorted, func(a, b part) int { return b.ballot.compare(a.ballot) })
	for _, p := range sorted {
		if p.ballot == (ballot{}) { // never written
			if len(c.writes) > 0 {
				c.writes = append(c.writes, written{p.ballot, noHead})
			}
			break
		}
		if len(c.writes) == 0 || c.writes[len(c.writes)-1].ballot != p.ballot {
			c.writes = append(c.writes, written{p.ballot, noHead})
		}
		if len(p.data) == 0 {
			continue
		}
		if p.data[0] == dataWhole {
			return contents{whole: p.data[1:]}, true
		}
		length, size := binary.Uvarint(p.data[1:])
		if p.data[0] != dataStates && p.data[0] != dataRecords || size <= 0 || length > uint64(len(p.data)-1-size) {
			return contents{}, false
		}
		left := p.data[1+size:]
		if length > 0 {
			c.writes[len(c.writes)-1].head = left[:length]
		}
		here, left := content{part: p}, left[length:]
		if p.data[0] == dataRecords {
			if here.records, left, ok = splitRecords(left); !ok {
				return contents{}, false
			}
		}
		states, valid := storekit.SplitValue(left)
		if !valid {
			return contents{}, false
		}
		for _, s := range states {
			switch newer, in, known := c.find(s.Scope); {
			case !known:
				here.states = append(here.states, s)
			case in.class < p.class && in.ballot != p.ballot && !newer.Expires.After(now.Add(-maxSkew)) && s.Expires.After(newer.Expires):
				// It has ended by all clocks. It may be the older one, confirmed by readers who were too
				// young for the other class.
				c.drop(s.Scope)
				here.states = append(here.states, s)
			case in.class < p.class:
				here.copied = append(here.copied, s)
			}
		}
		c.parts = append(c.parts, here)
	}
	return c, true
}

// drop removes the state of a scope.
func (c *contents) drop(scope string) {
	for i := range c.parts {
		c.parts[i].states = slices.DeleteFunc(c.parts[i].states, func(s storekit.StoredState) bool { return s.Scope == scope })
	}
}

// find returns the newest state of a scope, and the part that it is in.
func (c *contents) find(scope string) (s storekit.StoredState, in part, known bool) {
	for i := range c.parts {
		if s, known = stateOf(c.parts[i].states, scope); known {
			return s, c.parts[i].part, true
		}
	}
	return s, in, false
}

// highest returns the highest class that has the same state as a part of a class.
func (c *contents) highest(s *storekit.StoredState, class uint8) uint8 {
	for i := range c.parts {
		for j := range c.parts[i].copied {
			if same := &c.parts[i].copied[j]; same.Scope == s.Scope && bytes.Equal(same.Bytes, s.Bytes) {
				class = max(class, c.parts[i].class)
			}
		}
	}
	return class
}

// headOf returns the head of a value that has the parts of these writes, the newest first. What one
// of them knows and another does not is left open: a write of several parts may have been made in
// some of them.
func headOf(writes []written) []byte {
	switch len(writes) {
	case 0:
		return noHead
	case 1:
		return writes[0].head
	}
	heads := make([][]byte, len(writes))
	for i := range writes {
		heads[i] = writes[i].head
	}
	return cas.MergeHeads(heads)
}

// unite returns the value of the chosen parts for readers of a class, and the places of its states.
func unite(chosen []part, upTo uint8, now time.Time) (value []byte, places []place, ok bool) {
	c, ok := contentsOf(chosen, now)
	if !ok || c.whole != nil {
		return c.whole, nil, ok
	}
	var states []storekit.StoredState
	for i := range c.parts {
		p := &c.parts[i]
		states = append(states, p.states...)
		for j := range p.states {
			s := &p.states[j]
			places = append(places, place{scope: s.Scope, class: c.highest(s, p.class), low: p.class})
		}
	}
	for _, r := range c.records(upTo, now) {
		states = append(states, r.StoredState)
		places = append(places, place{scope: r.Scope, charges: r.charges})
	}
	head := headOf(c.writes)
	if len(states) == 0 && len(head) == len(noHead) {
		return nil, nil, true
	}
	return cas.JoinItem(head, storekit.JoinValue(states)), places, true
}

// renew returns the chosen parts of classes up to upTo as those of one write, without the records that are not
// believed: nobody may believe them later, once the charges that were lost have ended.
func renew(chosen []part, upTo uint8, now time.Time) (parts []part) {
	c, ok := contentsOf(chosen, now)
	isItem := ok && c.whole == nil
	head := headOf(slices.DeleteFunc(c.writes, func(w written) bool {
		return !slices.ContainsFunc(chosen, func(p part) bool { return p.class <= upTo && p.ballot == w.ballot })
	}))
	var believed []record
	if isItem {
		believed = c.records(upTo, now)
	}
	for _, p := range chosen {
		if p.class > upTo {
			break
		}
		if isItem {
			var here content
			if at := slices.IndexFunc(c.parts, func(o content) bool { return o.class == p.class }); at >= 0 {
				here = c.parts[at]
			}
			states, records := slices.Concat(here.states, here.copied), allOf(believed, here.records)
			p.data = nil
			if len(states) > 0 || len(records) > 0 || p.class == upTo && len(head) > len(noHead) {
				p.data = partOf(head, records, states)
			}
		}
		if len(p.data) > 0 || p.class == upTo {
			parts = append(parts, p)
		}
	}
	return parts
}
