package quorumstore

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/storekit"
)

// The data of a part begins with a byte that says what follows.
const (
	dataStates = 1 // the length of a head, the head of an item, and states of the item
	dataWhole  = 2 // a value that is not an item
)

// noHead is the head of a value that nobody is known to have written.
var noHead = []byte{0}

// divide returns the parts of a value, all of class upTo or lower. States that are in above,
// the data of higher classes, are left out: the value has them only for its reader.
//
// Each part has the head: a later write may replace those of lower classes alone, or be all that a
// reader finds.
func divide(value []byte, decided time.Time, upTo uint8, above []string) []part {
	head, packed, ok := cas.SplitItem(value)
	states, valid := storekit.SplitValue(packed)
	if !ok || !valid || decided.IsZero() {
		return []part{{class: upTo, data: append([]byte{dataWhole}, value...)}}
	}
	var classes [maxClass + 1][]storekit.StoredState
	for _, s := range states {
		if len(above) > 0 && slices.Contains(above, string(s.Bytes)) {
			continue
		}
		class := min(classOfLife(s.Expires.Sub(decided)), int(upTo))
		classes[class] = append(classes[class], s)
	}
	var parts []part
	for class := range upTo + 1 {
		if len(classes[class]) > 0 || class == upTo {
			parts = append(parts, part{class: class, data: partOf(head, classes[class])})
		}
	}
	return parts
}

func partOf(head []byte, states []storekit.StoredState) []byte {
	packed := storekit.JoinValue(states)
	data := make([]byte, 0, 1+binary.MaxVarintLen16+len(head)+len(packed))
	data = append(data, dataStates)
	data = binary.AppendUvarint(data, uint64(len(head)))
	return append(append(data, head...), packed...)
}

// contents are those of chosen parts.
type contents struct {
	whole  []byte    // a value that is not an item; nil: the parts are of an item
	parts  []content // the newest first
	writes []written // that the parts are of, the newest first
}

type content struct {
	part

	states []storekit.StoredState // without those that a newer part has: their limit has changed its class
}

type written struct {
	ballot ballot
	head   []byte
}

// contentsOf reads chosen parts. It returns false if they cannot be read.
func contentsOf(chosen []part) (c contents, ok bool) {
	sorted := slices.Clone(chosen)
	slices.SortStableFunc(sorted, func(a, b part) int { return b.ballot.compare(a.ballot) })
	for _, p := range sorted {
		if p.ballot == (ballot{}) {
			break // never written
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
		if p.data[0] != dataStates || size <= 0 || length > uint64(len(p.data)-1-size) {
			return contents{}, false
		}
		left := p.data[1+size:]
		if length > 0 {
			c.writes[len(c.writes)-1].head = left[:length]
		}
		states, valid := storekit.SplitValue(left[length:])
		if !valid {
			return contents{}, false
		}
		if len(c.writes) > 1 {
			states = slices.DeleteFunc(states, c.has)
		}
		c.parts = append(c.parts, content{p, states})
	}
	return c, true
}

// has reports whether a part has a state of the limit.
func (c *contents) has(s storekit.StoredState) bool {
	for i := range c.parts {
		if slices.ContainsFunc(c.parts[i].states, func(o storekit.StoredState) bool { return o.Scope == s.Scope }) {
			return true
		}
	}
	return false
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

// unite returns the value of the chosen parts, and the states in it of classes above upTo,
// which this reader may know in an old version.
func unite(chosen []part, upTo uint8) (value []byte, above []string, ok bool) {
	c, ok := contentsOf(chosen)
	if !ok || c.whole != nil {
		return c.whole, nil, ok
	}
	var states []storekit.StoredState
	for i := range c.parts {
		p := &c.parts[i]
		states = append(states, p.states...)
		for j := range p.states {
			if p.class > upTo {
				above = append(above, string(p.states[j].Bytes))
			}
		}
	}
	head := headOf(c.writes)
	if len(states) == 0 && len(head) == len(noHead) {
		return nil, nil, true
	}
	return cas.JoinItem(head, storekit.JoinValue(states)), above, true
}

// renew returns the chosen parts of classes up to upTo as those of one write.
func renew(chosen []part, upTo uint8) (parts []part) {
	c, ok := contentsOf(chosen)
	isItem := ok && c.whole == nil
	head := headOf(slices.DeleteFunc(c.writes, func(w written) bool {
		return !slices.ContainsFunc(chosen, func(p part) bool { return p.class <= upTo && p.ballot == w.ballot })
	}))
	for _, p := range chosen {
		if p.class > upTo {
			break
		}
		if isItem {
			var states []storekit.StoredState
			if at := slices.IndexFunc(c.parts, func(o content) bool { return o.class == p.class }); at >= 0 {
				states = c.parts[at].states
			}
			p.data = nil
			if len(states) > 0 || p.class == upTo && len(head) > len(noHead) {
				p.data = partOf(head, states)
			}
		}
		if len(p.data) > 0 || p.class == upTo {
			parts = append(parts, p)
		}
	}
	return parts
}
