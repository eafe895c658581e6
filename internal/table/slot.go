package table

import "math/bits"

// ID is the identity of a state. 96 bits of it are stored and compared: Hash and
// the low half of Rest. The lowest bits of Rest choose the shard. An ID must come
// from a seeded hash, because the table cannot tell two equal identities apart,
// and an attacker who can choose identities can make probing slow.
type ID struct{ Hash, Rest uint64 }

func (id ID) tag() uint32 { return uint32(id.Rest) }

// Slot is one state.
type Slot struct {
	hash uint64
	tag  uint32
	ref  uint32 // 0: the slot is empty
	// State is the caller's, except in a wide slot.
	State State
}

// State is the 16 bytes that a slot stores. It is a struct and not an array,
// because Go passes structs in registers.
type State struct{ Hi, Lo uint64 }

// wideBit, in a slot's ref, marks a wide state: State.Hi is then the index of its
// slice beside the table.
const wideBit = 1 << 31

// MaxRef is the greatest reference of a slot.
const MaxRef = wideBit - 1

// Ref returns the reference that the state was stored with.
func (s *Slot) Ref() uint32 { return s.ref &^ wideBit }

// SetRef changes the reference; from 1 to MaxRef.
func (s *Slot) SetRef(ref uint32) { s.ref = s.ref&wideBit | ref }

func (s *Slot) wide() bool { return s.ref&wideBit != 0 }

func (s *Slot) is(id ID) bool { return s.hash == id.Hash && s.tag == id.tag() }

// home returns where probing for a hash begins in a shard of the given number of
// slots: the first of a pair that shares a cache line. It preserves the order of
// hashes, so a rebuild reads and writes the shard sequentially.
func home(hash uint64, slots int) int {
	pair, _ := bits.Mul64(hash, uint64(slots)/slotsPerLine)
	return int(pair) * slotsPerLine
}

const (
	slotSize     = 32
	slotsPerLine = 64 / slotSize
	slotsPerPage = 4096 / slotSize
	shardSize    = 64
)
