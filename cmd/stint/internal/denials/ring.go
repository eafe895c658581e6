package denials

import (
	"cmp"
	"sync"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/topkeys"
)

// ring holds the last denials of some keys of a rule.
type ring struct {
	mu      sync.Mutex
	entries []entry // guarded by mu; none: the share has no room, or has other rings now
	next    int     // guarded by mu; the place of the oldest entry
	written uint64  // guarded by mu; the entries so far
}

// entry is a denial. It has no pointers, so the garbage collector does not read the entries,
// and memory that was never written costs nothing.
type entry struct {
	turn                           uint64 // the number of reads before it, plus one; 0: no denial
	at                             int64  // by the clock of the store, in µs
	key                            uint64 // hash of the whole key, if the entry has only its beginning
	id                             uint64 // of the key and the rule, as in package topkeys; 0: that of the texts
	limit, remaining, cost         int64
	retry                          time.Duration
	spread                         uint32 // chooses the ring
	surface, list, penalty, states uint8

	lengths [partCount]uint8
	cut     uint8 // a bit for each part that is only the beginning of its text
	texts   [textSize]byte
}

// Parts of the texts of an entry, in order. The path comes last and takes what is left.
const (
	rulePart = iota
	limitPart
	keyPart
	apiKeyPart
	identityPart // of two other limits that apply to the request
	identityPart2
	pathPart

	partCount
)

// mostBytes bounds the parts. All but the path together leave 48 bytes for it.
var mostBytes = [partCount]int{64, 32, 80, 80, 48, 48, 128}

const textSize = 400

// The states of an entry.
const (
	hasNumbers = 1 << iota // a limit decided
	degraded
	hidePath // the request has more identities than an entry
	keyIsAPIKey
)

// takeLocked returns the place of the next entry, which was that of the oldest one. Its texts
// are those of the oldest one.
func (r *ring) takeLocked() *entry {
	e := &r.entries[r.next]
	r.written++
	if r.next++; r.next == len(r.entries) {
		r.next = 0
	}
	return e
}

// put copies a text into the entry, from the given offset on, and returns the offset behind it.
func (e *entry) put(part, from int, text string) int {
	n := copy(e.texts[from:min(from+mostBytes[part], textSize)], text)
	e.lengths[part] = uint8(n)
	if n < len(text) {
		e.cut |= 1 << part
	}
	return from + n
}

// putKey copies the key, and hashes one that the entry does not have room for.
func (e *entry) putKey(from int, key string) int {
	from = e.put(keyPart, from, key)
	if e.isCut(keyPart) {
		e.key = topkeys.Hash(key)
	}
	return from
}

// keyHash returns the hash of the key, which [topkeys.ID] combines.
func (e *entry) keyHash(parts *[partCount]string) uint64 {
	if e.isCut(keyPart) {
		return e.key
	}
	return topkeys.Hash(parts[keyPart])
}

// parts returns the texts of an entry.
func (e *entry) parts() (parts [partCount]string) {
	from := 0
	for i, n := range e.lengths {
		parts[i] = string(e.texts[from : from+int(n)])
		from += int(n)
	}
	return parts
}

func (e *entry) isCut(part int) bool { return e.cut&(1<<part) != 0 }

// drain empties the ring for good, and appends its entries, the oldest first.
func (r *ring) drain(all []entry) (list []entry, written uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.entries {
		if e := &r.entries[(r.next+i)%len(r.entries)]; e.turn > 0 {
			all = append(all, *e)
		}
	}
	r.entries = nil
	return all, r.written
}

// byTime orders the entries of several rings. Those of one ring are in order already, and stay so
// in a stable sort, unless the clock went back.
func byTime(a, b *entry) int { return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.at, b.at)) }
