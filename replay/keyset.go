package replay

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"slices"
)

// keySet remembers which keys were seen, by 60 bits of each: among ten million
// keys, the chance that two are taken for one is less than one in ten thousand.
//
// It is parts, chosen by 12 of the bits, that keep the other 48 in open
// addressing. Each part grows by itself and by an eighth, to the end of what
// the allocation gets, so that growth needs little memory beside what is kept:
// about 7 bytes a key. A part is so full that a new key is compared with some
// dozens of neighbours, which lie in few cache lines.
type keySet struct {
	seed  maphash.Seed
	parts [1 << partBits]keyPart
	count int // keys seen
}

const partBits = 12

// keyPart is places of six bytes each. A place that is zero is free.
type keyPart struct {
	places []byte
	count  uint32
	most   uint32 // keys; one more makes it grow
}

const (
	placeBits  = 48
	placeMask  = 1<<placeBits - 1
	placeSize  = placeBits / 8
	placePad   = 8 - placeSize // a place is read by eight bytes
	fewPlaces  = 8
	fullPlaces = 15 // of sixteen
)

func newKeySet() *keySet { return &keySet{seed: maphash.MakeSeed()} }

// add remembers a key.
func (s *keySet) add(key string) {
	hash := maphash.String(s.seed, key)
	if s.parts[hash>>(64-partBits)].add(max(1, hash&placeMask)) {
		s.count++
	}
}

// add reports whether the bits are new.
func (p *keyPart) add(kept uint64) bool {
	if p.count == p.most {
		p.grow()
	}
	if !p.put(kept) {
		return false
	}
	p.count++
	return true
}

// put reports whether the bits are new. At least one place is free.
func (p *keyPart) put(kept uint64) bool {
	size := p.size()
	for i, _ := bits.Mul64(kept<<(64-placeBits), size); ; {
		place := p.places[i*placeSize:]
		switch word := binary.LittleEndian.Uint64(place); word & placeMask {
		case kept:
			return false
		case 0:
			binary.LittleEndian.PutUint64(place, word|kept)
			return true
		}
		if i++; i == size {
			i = 0
		}
	}
}

func (p *keyPart) size() uint64 { return uint64(len(p.places) / placeSize) }

// grow makes room for an eighth more keys.
func (p *keyPart) grow() {
	old, size := p.places, max(fewPlaces, p.size()+p.size()/8+1)
	places := slices.Grow([]byte(nil), int(size)*placeSize+placePad)
	p.places = places[:(cap(places)-placePad)/placeSize*placeSize+placePad]
	clear(p.places)
	p.most = uint32(p.size() * fullPlaces / 16)
	for i := 0; i+placePad < len(old); i += placeSize {
		if kept := binary.LittleEndian.Uint64(old[i:]) & placeMask; kept != 0 {
			p.put(kept)
		}
	}
}
