package table

import "math/bits"

// ID is the identity of a state: 96 bits, Hash and the low half of Rest, that
// are stored and compared. The lowest choose the shard. They must come from a
// seeded hash: nothing here can tell two equal identities apart, and who can
// choose identities can make probing slow.
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

// State is what a slot is for. It is a struct and not an array so that it
// travels in registers.
type State struct{ Hi, Lo uint64 }

// wideBit marks, in a slot's ref, that State.Hi is the place of a slice
// beside the table.
const wideBit = 1 << 31

// MaxRef is the greatest reference of a slot.
const MaxRef = wideBit - 1

// Ref returns the reference that the state was stored with.
func (s *Slot) Ref() uint32 { return s.ref &^ wideBit }

// SetRef changes the reference; from 1 to MaxRef.
func (s *Slot) SetRef(ref uint32) { s.ref = s.ref&wideBit | ref }

func (s *Slot) wide() bool { return s.ref&wideBit != 0 }

func (s *Slot) is(id ID) bool { return s.hash == id.Hash && s.tag == id.tag() }

// home is where probing for a hash begins among so many slots: a pair that
// shares a cache line. It keeps the order of hashes, so a rebuild reads and
// writes the shard from end to end.
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
