package lease

import (
	"hash/maphash"
	"sync"

	"github.com/stintdev/stint"
)

// shard is a part of the hot keys, with its own lock.
type shard struct {
	sync.Mutex

	entries map[entryKey]*entry
	list    []*entry // all entries, in a list that can be walked in parts
	rules   tracker
	callers tracker // limits that callers bring: a flood of them cannot displace the rules' keys
	count   counts
	_       [64]byte // pads to a cache line of its own
}

// tracker records which keys of one kind of limit may become hot, and counts the hot
// ones.
type tracker struct {
	marks     []mark // by the low bits of their hash
	hot, most int
}

func newTracker(most int) tracker { return tracker{marks: make([]mark, ceilPower(2*most)), most: most} }

// tracker returns the tracker for keys under a limit.
func (sh *shard) tracker(l stint.Limit) *tracker {
	if l.FromCaller() {
		return &sh.callers
	}
	return &sh.rules
}

// entryKey is the map key of an entry. It includes the mode, because leased and partitioned
// tokens have different lifetimes and come from different limits.
type entryKey struct {
	limit stint.Limit
	key   string
	mode  stint.Consistency
}

func keyOf(c *stint.Claim) entryKey { return entryKey{c.Limit, c.Key, c.Policy.Consistency} }

// mark records a request for a key.
type mark struct {
	hash uint32
	when uint32 // in units of the lease time
}

// shardCount is a power of two.
const shardCount = 64

func (s *Store) newShards(keys int) {
	s.seed = maphash.MakeSeed()
	s.shards = make([]shard, shardCount)
	for i := range s.shards {
		sh := &s.shards[i]
		sh.entries = map[entryKey]*entry{}
		sh.rules, sh.callers = newTracker(max(1, keys/shardCount)), newTracker(max(1, keys/2/shardCount))
	}
}

func ceilPower(n int) int {
	p := 1
	for p < n {
		p *= 2
	}
	return p
}

// locate returns the shard of a claim, and a hash of its key.
func (s *Store) locate(c *stint.Claim) (*shard, uint64) {
	hash := maphash.String(s.seed, c.Key)
	return &s.shards[hash%shardCount], hash
}

// find returns the entry of a claim that the shard has, or nil.
func (sh *shard) find(c *stint.Claim) *entry { return sh.entries[keyOf(c)] }

// seenAgain records a request for a key under a limit, and reports whether the key was
// already requested in this lease time or the last one.
func (t *tracker) seenAgain(hash uint64, now, time int64) bool {
	m, when := &t.marks[hash/shardCount%uint64(len(t.marks))], uint32(now/time)
	again := m.hash == uint32(hash>>32) && when-m.when <= 1
	*m = mark{uint32(hash >> 32), when}
	return again
}

// add makes an entry for the key of a claim.
func (sh *shard) add(c *stint.Claim, size *size, now int64) *entry {
	e := &entry{claim: *c, size: size, demand: demand{since: now}, place: len(sh.list)}
	e.claim.Cost = 0
	sh.entries[keyOf(c)] = e
	sh.list = append(sh.list, e)
	sh.tracker(c.Limit).hot++
	return e
}

// drop removes an entry.
func (sh *shard) drop(e *entry) {
	delete(sh.entries, keyOf(&e.claim))
	sh.tracker(e.claim.Limit).hot--
	last := len(sh.list) - 1
	sh.list[e.place] = sh.list[last]
	sh.list[e.place].place = e.place
	sh.list[last] = nil
	sh.list = sh.list[:last]
	e.place = removed
}
