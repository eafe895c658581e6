package replay

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"slices"
)

// keySet counts distinct keys by 60 bits of their hash. Among ten million keys,
// the chance that two keys collide is less than one in ten thousand.
//
// 12 of the bits select a part, which stores the other 48 bits in a hash table
// with open addressing. Each part grows on its own by an eighth, and uses the
// full size of the allocation, so growth needs little memory beyond the stored
// keys: about 7 bytes a key in all. In exchange, a part is so full that a new
// key is compared with some dozens of neighbours, which lie in few cache lines.
type keySet struct {
	seed  maphash.Seed
	parts [1 << partBits]keyPart
	count int // number of distinct keys
}

const partBits = 12

// keyPart is a hash table of six-byte places. A zero place is free.
type keyPart struct {
	places []byte
	count  uint32
	most   uint32 // number of keys beyond which the table grows
}

const (
	placeBits  = 48
	placeMask  = 1<<placeBits - 1
	placeSize  = placeBits / 8
	placePad   = 8 - placeSize // places are read eight bytes at a time
	fewPlaces  = 8
	fullPlaces = 15 // of sixteen places in use when the table grows
)

func newKeySet() *keySet { return &keySet{seed: maphash.MakeSeed()} }

// add adds a key.
func (s *keySet) add(key string) { s.addHash(maphash.String(s.seed, key)) }

// addHash adds the key with this hash.
func (s *keySet) addHash(hash uint64) {
	if s.parts[hash>>(64-partBits)].add(max(1, hash&placeMask)) {
		s.count++
	}
}

// add adds the bits and reports whether they are new.
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

// put stores the bits and reports whether they are new. At least one place must
// be free.
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
