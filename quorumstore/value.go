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

// divide returns the parts of a value, all of class upTo or lower. States that are in above,
// the data of higher classes, are left out: the value has them only for its reader.
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
	for class := range upTo {
		if len(classes[class]) > 0 {
			parts = append(parts, part{class: class, data: partOf(nil, classes[class])})
		}
	}
	return append(parts, part{class: upTo, data: partOf(head, classes[upTo])})
}

func partOf(head []byte, states []storekit.StoredState) []byte {
	packed := storekit.JoinValue(states)
	data := make([]byte, 0, 1+binary.MaxVarintLen16+len(head)+len(packed))
	data = append(data, dataStates)
	data = binary.AppendUvarint(data, uint64(len(head)))
	return append(append(data, head...), packed...)
}

// unite returns the value of the chosen parts, and the states in it of classes above upTo,
// which this reader may know in an old version. A state that several parts have is that
// of the newest one: its limit has changed its class.
func unite(chosen []part, upTo uint8) (value []byte, above []string, ok bool) {
	parts := slices.Clone(chosen)
	slices.SortStableFunc(parts, func(a, b part) int { return b.ballot.compare(a.ballot) })
	mixed := len(parts) > 0 && parts[0].ballot != parts[len(parts)-1].ballot
	var heads [][]byte
	var states []storekit.StoredState
	for _, p := range parts {
		if len(p.data) == 0 {
			continue
		}
		if p.data[0] == dataWhole {
			return p.data[1:], nil, true
		}
		length, size := binary.Uvarint(p.data[1:])
		if p.data[0] != dataStates || size <= 0 || length > uint64(len(p.data)-1-size) {
			return nil, nil, false
		}
		left := p.data[1+size:]
		if length > 0 {
			heads = append(heads, left[:length])
		}
		own, valid := storekit.SplitValue(left[length:])
		if !valid {
			return nil, nil, false
		}
		for _, s := range own {
			if mixed && slices.ContainsFunc(states, func(o storekit.StoredState) bool { return o.Scope == s.Scope }) {
				continue
			}
			states = append(states, s)
			if p.class > upTo {
				above = append(above, string(s.Bytes))
			}
		}
	}
	switch len(heads) {
	case 0:
		return nil, nil, true
	case 1:
		return cas.JoinItem(heads[0], storekit.JoinValue(states)), above, true
	}
	return cas.JoinItem(cas.MergeHeads(heads), storekit.JoinValue(states)), above, true
}
