package cas

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
)

// An item is what the store keeps under a key: the states of all limits of one identity,
// as [storekit.Decide] encodes them, and before them a header:
//
//	version    1 byte
//	checksum   4 bytes, CRC-32C of all that follows
//	writers    1 byte, their number
//	           for each writer its id (8 bytes) and its stamp (uvarint), latest first
//	states
//
// A writer is one source of writes in a process, which has at most one write of a key in
// flight. Its stamps grow. So one stamp for each writer is enough to find out what became
// of a write whose answer was lost: see fateOf. An item of one process, which is nearly
// every item, has about ten bytes for that.
type item struct {
	writers []stamp
	states  []byte
}

// stamp marks a write: the writer, and a number that grows with each of its writes.
type stamp struct{ writer, number uint64 }

const (
	itemVersion = 1
	sumAt       = 1
	countAt     = sumAt + 4
	itemHead    = countAt + 1
	// maxWriters is how many writers an item remembers.
	maxWriters = 16
	// maxHead is the greatest length of a header.
	maxHead = itemHead + maxWriters*(8+binary.MaxVarintLen64)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// decodeItem decodes a value. It reports false for a value that encode did not return.
func decodeItem(value []byte) (it item, ok bool) {
	if len(value) == 0 {
		return it, true
	}
	if len(value) < itemHead || value[0] != itemVersion || value[countAt] > maxWriters ||
		binary.BigEndian.Uint32(value[sumAt:]) != crc32.Checksum(value[countAt:], castagnoli) {
		return it, false
	}
	left := value[itemHead:]
	it.writers = make([]stamp, value[countAt])
	for i := range it.writers {
		if len(left) < 8 {
			return item{}, false
		}
		number, size := binary.Uvarint(left[8:])
		if size <= 0 {
			return item{}, false
		}
		it.writers[i] = stamp{binary.BigEndian.Uint64(left), number}
		left = left[8+size:]
	}
	it.states = left
	return it, true
}

// encode returns the value of the item after a write with the given stamp and states.
func (it *item) encode(by stamp, states []byte) []byte {
	value := make([]byte, itemHead, itemHead+(1+len(it.writers))*(8+binary.MaxVarintLen64)+len(states))
	value[0] = itemVersion
	value = appendStamp(value, by)
	count := byte(1)
	for _, w := range it.writers {
		if w.writer != by.writer && count < maxWriters {
			value = appendStamp(value, w)
			count++
		}
	}
	value[countAt] = count
	value = append(value, states...)
	binary.BigEndian.PutUint32(value[sumAt:], crc32.Checksum(value[countAt:], castagnoli))
	return value
}

// lastWriter returns the id of the writer of the last write, or 0 if there was none.
func (it *item) lastWriter() uint64 {
	if len(it.writers) == 0 {
		return 0
	}
	return it.writers[0].writer
}

func appendStamp(to []byte, s stamp) []byte {
	return binary.AppendUvarint(binary.BigEndian.AppendUint64(to, s.writer), s.number)
}

// fate is what an item says of a write whose answer was lost.
type fate uint8

const (
	unclear  fate = iota // too many others have written since
	made                 // the item has it
	notMade              // it can never be made any more
	stillDue             // it has not been made, and may still be
)

// fateOf says what became of the write by, which asked for the version old. it is the item
// that is there now, with its version.
//
// While the version is still old, the write may be under way. Only another write of the
// same version settles that: whichever comes first, the other is lost. Once the version is
// another one, the write was either made before, and left its stamp, or is lost. A backend that
// writes in parts makes sure of that: see [Load.Settle]. The stamp
// is missing if 16 other writers have written since; the item is then full of their
// stamps. If the item was lost and created again, it lacks the stamp too, and the charge
// is gone with the item.
func (it *item) fateOf(by stamp, old, version uint64) fate {
	at := slices.IndexFunc(it.writers, func(s stamp) bool { return s.writer == by.writer })
	switch {
	case at >= 0 && it.writers[at].number == by.number:
		return made
	case at >= 0 && it.writers[at].number > by.number:
		return unclear
	case version == old:
		return stillDue
	case at < 0 && len(it.writers) == maxWriters:
		return unclear
	}
	return notMade
}
