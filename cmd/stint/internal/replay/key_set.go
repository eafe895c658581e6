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

func newKeySet() *keySet { return &keySet{seed: maphash.MakeSeed()} }

// add adds a key.
func (s *keySet) add(key string) { s.addHash(maphash.String(s.seed, key)) }

// touchAhead is the number of places that are touched before the first of them is used. The
// processor then waits for the memory of all of them at once.
const touchAhead = 16

// addHashes adds the keys with these hashes.
func (s *keySet) addHashes(hashes []uint64) {
	for few := range slices.Chunk(hashes, touchAhead) {
		touched := byte(0)
		for _, hash := range few {
			touched |= s.parts[hash>>(64-partBits)].touch(max(1, hash&(1<<keyBits-1)), keyBits)
		}
		touchedPlaces(touched)
		for _, hash := range few {
			s.addHash(hash)
		}
	}
}

// addHash adds the key with this hash.
func (s *keySet) addHash(hash uint64) {
	if _, fresh := s.parts[hash>>(64-partBits)].add(max(1, hash&(1<<keyBits-1)), keyBits); fresh {
		s.count++
	}
}

// keyCounts counts the additions of each key. It is a keySet whose places also hold a count,
// in seven bytes: 52 bits of the hash tell keys apart. Among ten million keys, the chance that
// two collide is about one in a hundred.
type keyCounts struct {
	parts [1 << partBits]keyPart
	count int               // number of distinct keys
	large map[uint64]uint64 // counts of the few keys whose place is too small for them
}

// placeCount is the greatest number in a place. It stands for a count in keyCounts.large.
const placeCount = 1<<(8*countedSize-countedBits) - 1

// countOf returns the number in a place.
func countOf(word uint64) uint64 { return word >> countedBits & placeCount }

// addAll adds the keys with these hashes.
func (c *keyCounts) addAll(hashes []uint64) {
	for few := range slices.Chunk(hashes, touchAhead) {
		touched := byte(0)
		for _, hash := range few {
			touched |= c.parts[hash>>(64-partBits)].touch(countedKey(hash), countedBits)
		}
		touchedPlaces(touched)
		for _, hash := range few {
			c.add(hash)
		}
	}
}

// add adds the key with this hash, and returns how often it was added.
func (c *keyCounts) add(hash uint64) uint64 {
	place, fresh := c.parts[hash>>(64-partBits)].add(countedKey(hash), countedBits)
	if fresh {
		c.count++
	}
	word := binary.LittleEndian.Uint64(place)
	if times := countOf(word) + 1; times < placeCount {
		binary.LittleEndian.PutUint64(place, word+1<<countedBits)
		return times
	}
	return c.addLarge(hash, place, word)
}

func (c *keyCounts) addLarge(hash uint64, place []byte, word uint64) uint64 {
	if c.large == nil {
		c.large = map[uint64]uint64{}
	}
	key := largeKey(hash)
	c.large[key] = max(c.large[key], placeCount-1) + 1
	binary.LittleEndian.PutUint64(place, word|placeCount<<countedBits)
	return c.large[key]
}

// of returns how often the key with this hash was added.
func (c *keyCounts) of(hash uint64) uint64 {
	part := &c.parts[hash>>(64-partBits)]
	if part.count == 0 {
		return 0
	}
	place, found := part.find(countedKey(hash), countedBits)
	if !found {
		return 0
	}
	if times := countOf(binary.LittleEndian.Uint64(place)); times < placeCount {
		return times
	}
	return c.large[largeKey(hash)]
}

func countedKey(hash uint64) uint64 { return max(1, hash&(1<<countedBits-1)) }

// largeKey returns the bits of the hash that tell keys apart.
func largeKey(hash uint64) uint64 { return hash&^(1<<(64-partBits)-1) | countedKey(hash) }

const partBits = 12

// keyPart is a hash table with places for keys of some bits, which is the same for all calls.
// A place begins with the bits of a key. It is free if they are zero.
type keyPart struct {
	places []byte
	count  uint32
	most   uint32 // number of keys beyond which the table grows
}

// The number of bits of a key, and of bytes of a place, in a keySet and in keyCounts.
const (
	keyBits     = 48
	keySize     = 6
	countedBits = 40
	countedSize = 7
)

const (
	placePad   = 2 // places are read eight bytes at a time
	fewPlaces  = 8
	fullPlaces = 15 // of sixteen places in use when the table grows
)

// placeSize returns the size of a place in bytes.
func placeSize(keyBits int) int {
	if keyBits == countedBits {
		return countedSize
	}
	return keySize
}

// size returns the number of places. Division by constants is much faster than by a variable.
func (p *keyPart) size(keyBits int) int {
	if keyBits == countedBits {
		return len(p.places) / countedSize
	}
	return len(p.places) / keySize
}

// add returns the place of a key, and reports whether the key is new.
func (p *keyPart) add(key uint64, keyBits int) (place []byte, fresh bool) {
	if p.count == p.most {
		p.grow(keyBits)
	}
	place, found := p.find(key, keyBits)
	if found {
		return place, false
	}
	binary.LittleEndian.PutUint64(place, binary.LittleEndian.Uint64(place)|key)
	p.count++
	return place, true
}

// touch reads a byte of the place where find begins.
func (p *keyPart) touch(key uint64, keyBits int) byte {
	if len(p.places) == 0 {
		return 0
	}
	i, _ := bits.Mul64(key<<(64-keyBits), uint64(p.size(keyBits)))
	return p.places[int(i)*placeSize(keyBits)]
}

// touchedPlaces uses the bytes that were read, so that the compiler keeps the reads.
//
//go:noinline
func touchedPlaces(byte) {}

// find returns the place of a key, or the free place for it. At least one place must be
// free.
func (p *keyPart) find(key uint64, keyBits int) (place []byte, found bool) {
	size := placeSize(keyBits)
	places := uint64(p.size(keyBits))
	mask := uint64(1)<<keyBits - 1
	for i, _ := bits.Mul64(key<<(64-keyBits), places); ; {
		place := p.places[int(i)*size:]
		switch binary.LittleEndian.Uint64(place) & mask {
		case key:
			return place, true
		case 0:
			return place, false
		}
		if i++; i == places {
			i = 0
		}
	}
}

// grow makes room for an eighth more keys.
func (p *keyPart) grow(keyBits int) {
	size := placeSize(keyBits)
	old, places := p.places, p.size(keyBits)
	room := slices.Grow([]byte(nil), max(fewPlaces, places+places/8+1)*size+placePad)
	p.places = room[:(cap(room)-placePad)/size*size+placePad]
	clear(p.places)
	p.most = uint32(p.size(keyBits) * fullPlaces / 16)
	for i := 0; i+size <= len(old); i += size {
		if key := binary.LittleEndian.Uint64(old[i:]) & (1<<keyBits - 1); key != 0 {
			place, _ := p.find(key, keyBits)
			copy(place[:size], old[i:i+size])
		}
	}
}
