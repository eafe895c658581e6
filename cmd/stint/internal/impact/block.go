package impact

import (
	"iter"
	"slices"
	"strings"

	"github.com/stintdev/stint/rule"
)

// blocks are the events of a sample, in the order in which they were kept.
//
// The problem: a full sample with a few pieces of memory for each event has more pieces than
// all the rest of the server. The garbage collector visits every piece in each collection,
// and while it collects, requests wait longer. The approach: many events are one block. Its
// events and the text of their values have no pointers, so the collector does not read them.
// The cost: a block is released with the newest of its events, so at most one block stays
// longer than the sample needs it.
type blocks struct {
	list  []*block // the oldest first; each has events
	count int      // events
}

// block has events that were kept one after the other. Events of two rule sets take turns
// during a canary, so a block has events with several lists of names.
type block struct {
	names   [][]string // the lists of names of attributes that its events have
	entries []entry
	text    strings.Builder // of the values of all its events, each after its length
	dropped int             // entries at the beginning that are no longer in the sample
}

// entry is one decided request, but for its attributes. It has no pointers.
type entry struct {
	t       int64 // time of the event, in µs
	cost    int64
	hash    uint64
	mask    uint64 // the mask when the event was kept
	from    int    // where its values begin in the text of the block
	names   uint8  // the place of its names in the block
	allowed bool
}

const (
	maxEntries  = 256      // of a block; the names of each have a place
	maxText     = 16 << 10 // bytes of a block
	lengthBytes = 2        // of the length of a value, which is at most maxBytes
)

// add adds an event with the values that appendValues made. If there are maxEvents, it drops
// the oldest one.
func (s *blocks) add(names []string, values []byte, e entry) {
	if s.count == maxEvents {
		s.dropOldest()
	}
	var b *block
	if n := len(s.list); n > 0 {
		b = s.list[n-1]
	}
	if b == nil || !b.takes(len(values)) {
		b = &block{}
		s.list = append(s.list, b)
	}
	e.names, e.from = b.place(names), b.text.Len()
	b.text.Write(values)
	b.entries = append(b.entries, e)
	s.count++
}

func (s *blocks) dropOldest() {
	s.count--
	b := s.list[0]
	if b.dropped++; b.dropped == len(b.entries) {
		s.list[0] = nil
		s.list = s.list[1:]
	}
}

// takes reports whether an event with values of the given size can be added.
func (b *block) takes(size int) bool {
	return len(b.entries) < maxEntries && b.text.Len()+size <= maxText
}

// place returns the place of a list of names in the block.
func (b *block) place(names []string) uint8 {
	for i, list := range b.names {
		if slices.Equal(list, names) {
			return uint8(i)
		}
	}
	b.names = append(b.names, names)
	return uint8(len(b.names) - 1)
}

// oldest returns the oldest event. There is at least one.
func (s *blocks) oldest() *entry { return &s.list[0].entries[s.list[0].dropped] }

// hashes returns the hashes of the events.
func (s *blocks) hashes() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, b := range s.list {
			for i := b.dropped; i < len(b.entries); i++ {
				if !yield(b.entries[i].hash) {
					return
				}
			}
		}
	}
}

// view is what a block has at one moment. It stays as it is while the block gets further events,
// because those are added behind it.
type view struct {
	names   [][]string
	entries []entry
	text    string
}

// views returns what the blocks have, the oldest first. Requests wait for the sample meanwhile, so
// it copies no event.
func (s *blocks) views() views {
	all := make(views, len(s.list))
	for i, b := range s.list {
		all[i] = view{b.names, b.entries[b.dropped:], b.text.String()}
	}
	return all
}

type views []view

// all returns the events, the oldest first.
func (v views) all() iter.Seq2[*entry, *view] {
	return func(yield func(*entry, *view) bool) {
		for i := range v {
			for j := range v[i].entries {
				if !yield(&v[i].entries[j], &v[i]) {
					return
				}
			}
		}
	}
}

// appendValues appends the values of the attributes, as a block has them. An absent value is
// empty. It returns false if the values are longer than maxBytes.
func appendValues(to []byte, names []string, a rule.Attributes) (_ []byte, ok bool) {
	size := 0
	for _, name := range names {
		value, ok := a.Attribute(name)
		if !ok {
			value = ""
		}
		if size += len(value); size > maxBytes {
			return nil, false
		}
		to = append(to, byte(len(value)>>8), byte(len(value)))
		to = append(to, value...)
	}
	return to, true
}

// event is one decided request of a batch.
type event struct {
	t       int64 // time of the event, in µs
	cost    int64
	hash    uint64
	allowed bool
	names   []string // shared by all events of one set
	values  []string // an absent value is ""
}

// event returns an entry with its attributes. The values are parts of the text of the block.
func (v *view) event(e *entry) event {
	names := v.names[e.names]
	values := make([]string, len(names))
	text := v.text[e.from:]
	for i := range values {
		n := int(text[0])<<8 | int(text[1])
		text = text[lengthBytes:]
		values[i], text = text[:n], text[n:]
	}
	return event{e.t, e.cost, e.hash, e.allowed, names, values}
}

// Attribute implements [rule.Attributes].
func (e *event) Attribute(name string) (string, bool) {
	for i := range e.names {
		if e.names[i] == name {
			return e.values[i], e.values[i] != ""
		}
	}
	return "", false
}

// At implements [rule.Timed].
func (e *event) At() int64 { return e.t }
