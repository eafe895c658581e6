package cas

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
)

// A backend that keeps the states of one item apart splits its value into a head, which has
// the stamps, and the states, and joins them again.

// SplitItem returns the head of a value and its states, which package storekit reads. It
// returns false for bytes that are not an item.
func SplitItem(value []byte) (head, states []byte, ok bool) {
	it, ok := decodeItem(value)
	if !ok || len(value) == 0 {
		return nil, nil, false
	}
	at := len(value) - len(it.states)
	return value[countAt:at:at], value[at:], true
}

// JoinItem returns the value of an item of a head and states.
func JoinItem(head, states []byte) []byte {
	value := make([]byte, countAt, countAt+len(head)+len(states))
	value[0] = itemVersion
	value = append(append(value, head...), states...)
	binary.BigEndian.PutUint32(value[sumAt:], crc32.Checksum(value[countAt:], castagnoli))
	return value
}

// MergeHeads returns the head of an item whose parts have several heads, the newest first.
// A writer whose stamps differ gets one that leaves open what became of its write: some
// parts may have it and others not.
func MergeHeads(heads [][]byte) []byte {
	var all item
	for i, head := range heads {
		it, ok := decodeItem(JoinItem(head, nil))
		if !ok {
			continue
		}
		if i == 0 {
			all.writers = it.writers
			continue
		}
		all.doubt(it.writers)
	}
	to := []byte{byte(len(all.writers))}
	for _, w := range all.writers {
		to = appendStamp(to, w)
	}
	return to
}

// doubt marks the writers whose stamps others lack or have differently.
func (it *item) doubt(others []stamp) {
	for i, w := range it.writers {
		if !slices.Contains(others, w) {
			it.writers[i].number = math.MaxUint64
		}
	}
	for _, w := range others {
		known := slices.ContainsFunc(it.writers, func(own stamp) bool { return own.writer == w.writer })
		if !known && len(it.writers) < maxWriters {
			it.writers = append(it.writers, stamp{w.writer, math.MaxUint64})
		}
	}
}
