package storekit

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stintdev/stint"
)

// item is the value of one key: its states.
//
// The encoding is the byte itemVersion, and then for each state the text of its scope,
// the time from which it is as if never used (microseconds since the epoch), and its
// encoding by [stint.Limit.AppendState]. Texts have their length before them. Lengths and
// times are uvarints. A state that is past its time, and a time for clocks that differ, is left
// out when the value is next written.
type item struct {
	states  []*state
	corrupt []byte // the value, if it is no item
	grown   bool   // it remembers one group more than the value
	latest  *state // of the last claim; nil: none yet
}

const itemVersion = 1

// decodeItem decodes a value. An empty value has no states.
func decodeItem(value []byte) *item {
	it := &item{}
	if len(value) == 0 {
		return it
	}
	r := reader{left: value[1:], ok: value[0] == itemVersion}
	for r.ok && len(r.left) > 0 {
		it.states = append(it.states, &state{scope: string(r.text()), expires: int64(r.number()), data: r.text()})
	}
	if !r.ok {
		return &item{corrupt: value}
	}
	return it
}

// encode returns the value without the states that ended before a time, and without the remembered
// groups that have ended now, when it expires, and whether it differs from the one that was decoded. It
// is nil if it has no states.
func (it *item) encode(now, ended int64) (value []byte, expires int64, changed bool) {
	changed = it.grown
	for _, s := range it.states {
		data, until, differs := s.encode()
		changed = changed || differs
		if len(data) == 0 || until <= ended || until <= now && strings.HasPrefix(s.scope, onceMark) {
			continue
		}
		if value == nil {
			value = []byte{itemVersion}
		}
		value = appendText(value, s.scope)
		value = binary.AppendUvarint(value, uint64(until))
		value = appendText(value, data)
		expires = max(expires, until)
	}
	return value, expires, changed
}

func appendText[T string | []byte](to []byte, text T) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// state returns the state of a claim.
func (it *item) state(c *stint.Claim) (*state, error) {
	if it.latest == nil || it.latest.limit != c.Limit { // claims on one limit come in runs
		it.latest = it.stateOf(c)
	}
	return it.latest, it.latest.load(c)
}

func (it *item) stateOf(c *stint.Claim) *state {
	scope := ScopeOf(c.Limit).String()
	if s := it.find(scope); s != nil {
		return s
	}
	s := &state{scope: scope}
	if it.corrupt != nil {
		s.data, s.err = it.corrupt, errCorrupt(len(it.corrupt))
	}
	it.states = append(it.states, s)
	return s
}

// find returns the state of a scope, or nil.
func (it *item) find(scope string) *state {
	for _, s := range it.states {
		if s.scope == scope {
			return s
		}
	}
	return nil
}

func errCorrupt(size int) error {
	return &stint.Error{Kind: stint.KindCorrupt, Problem: fmt.Sprintf("value: %d bytes are not the states of a key", size),
		Mend: "make sure that nothing else writes the values of the store, and reset the key"}
}

// state is the state of a key under the limits of one scope.
type state struct {
	scope   string
	data    []byte // as it was stored
	expires int64

	limit stint.Limit // of the last claim; invalid if the call has no claim on this state
	live  stint.State
	until int64 // when the state expires by its last write in this call
	wrote bool  // a claim of this call wrote the state
	err   error // why data is no state; nil once a Forget has dropped it
}

// load makes the state ready for a claim. It returns an error if what was stored is no
// state. A Forget drops that, so it gets no error.
func (s *state) load(c *stint.Claim) error {
	if !s.limit.Valid() && s.err == nil {
		if s.live, s.err = c.Limit.DecodeState(s.data); s.err != nil {
			s.live = stint.State{}
		}
	}
	s.limit = c.Limit
	if c.Cost == stint.Forget {
		return nil
	}
	return s.err
}

func (s *state) step(c *stint.Claim, now int64, dry bool) stint.Decision {
	refund := c.Cost < 0 && c.Cost != stint.Forget && !dry
	var before []byte
	if refund {
		before = c.Limit.AppendState(nil, &s.live)
	}
	d := c.Limit.Step(&s.live, now, c, dry)
	if dry {
		return d
	}
	s.err = nil
	until := now + d.ResetAfter.Microseconds()
	switch {
	case refund && slices.Equal(before, c.Limit.AppendState(nil, &s.live)):
		if d.ResetAfter == 0 || until <= s.ends() { // a refund of nothing brings no end forward
			return d
		}
	case !refund && (c.Cost == 0 || !d.Allowed) && d.Granted == 0:
		return d
	}
	s.wrote, s.until = true, until
	return d
}

// ends returns when the state expires.
func (s *state) ends() int64 {
	if s.wrote {
		return s.until
	}
	return s.expires
}

// encode returns the state to store, when it expires, and whether either differs from what
// was stored. A write may leave the bytes as they were, but for limits under which they count for
// longer. An end that is later than it need be is left.
func (s *state) encode() (data []byte, expires int64, changed bool) {
	if !s.wrote || s.err != nil {
		return s.data, s.expires, false
	}
	data = s.limit.AppendState(nil, &s.live)
	if slices.Equal(data, s.data) && (len(data) == 0 || s.until <= s.expires) {
		return s.data, s.expires, false
	}
	return data, s.until, true
}

// reader reads an item. Once ok is false, all that it returns is zero.
type reader struct {
	left []byte
	ok   bool
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.left)
	if r.ok = r.ok && size > 0; !r.ok {
		return 0
	}
	r.left = r.left[size:]
	return n
}

func (r *reader) text() []byte {
	n := r.number()
	if r.ok = r.ok && n <= uint64(len(r.left)); !r.ok {
		return nil
	}
	text := r.left[:n]
	r.left = r.left[n:]
	return text
}

// ExpiryOf returns the time from which a value is as if never stored: that of its state
// that lives longest. It returns the zero time for a value without states.
func ExpiryOf(value []byte) (at time.Time) {
	for _, s := range decodeItem(value).states {
		if expires := time.UnixMicro(s.expires); expires.After(at) {
			at = expires
		}
	}
	return at
}

// CountLimits returns how many limits have a state in a value, including states that have
// expired and will be left out when the value is next written. A store for limits that
// callers bring bounds that number. It returns 0 for bytes that are no value.
func CountLimits(value []byte) (n int) {
	for _, s := range decodeItem(value).states {
		if !strings.HasPrefix(s.scope, onceMark) {
			n++
		}
	}
	return n
}
