package table

import "runtime"

// A table begins with few shards, and parts a shard in two when it has
// splitKeys, by the next bit of its identities, until there are as many as
// suit the bound (R. Fagin et al., "Extendible hashing", ACM TODS 4(3), 1979).
// So it stays dense while it is small, and takes few pages to look through.
const (
	splitKeys  = 625 // half of what suits a shard: a split is no longer than a rebuild
	earlySlots = 896 // their room at the load that growth leaves, in whole pages
)

// Owns reports whether a shard, which is locked, still holds what there is
// of an identity: it may have been parted since [Table.Shard] returned it.
func (s *Shard) Owns(id ID) bool { return id.tag()&s.mask == s.number }

// Relock unlocks a shard that does not own an identity and locks the one that
// does.
func (t *Table) Relock(s *Shard, id ID) *Shard {
	for !s.Owns(id) {
		s.Unlock()
		s = t.Shard(id)
		s.Lock()
	}
	return s
}

// Release unlocks a shard to which states may have been added, and parts it
// first when it has too many.
func (s *Shard) Release(now int64) {
	if s.count > splitKeys && !s.late() {
		s.split(now)
	}
	s.Unlock()
}

// late reports whether the shard is never parted again.
func (s *Shard) late() bool { return s.mask == s.table.mask }

// split moves half of the states to the shard that differs by one bit more.
func (s *Shard) split(now int64) {
	twin := &s.table.shards[s.number|(s.mask+1)]
	twin.Lock()
	defer twin.Unlock()
	scratch := s.table.borrow(int(s.count))
	defer s.table.scratch.Put(scratch)
	kept := s.collect((*scratch)[:0], now)
	old, size := s.windows(), s.len()
	s.mask, twin.mask = s.mask<<1|1, s.mask<<1|1
	own := 0
	for i := range kept {
		if kept[i].tag&s.mask == s.number {
			own++
		}
	}
	if s.windows() != old {
		old.release(int(s.number), 0, size)
		s.size.Store(0)
	}
	s.restart(wholePages(own), now)
	twin.restart(wholePages(len(kept)-own), now)
	for i := range kept {
		if slot := &kept[i]; slot.tag&s.mask == s.number {
			s.put(*slot)
		} else {
			twin.put(s.handOver(*slot, twin))
		}
	}
	s.table.lead(twin)
}

// restart makes the shard empty, of a size. It keeps its wide slices.
func (s *Shard) restart(size int, now int64) {
	s.resize(size)
	clear(s.all())
	s.count, s.sweep = 0, now+sweepEvery
}

// lead sends to a shard all identities that it owns.
func (t *Table) lead(s *Shard) {
	for n := int(s.number); n < len(t.lookup); n += int(s.mask) + 1 {
		t.lookup[n].Store(s.number)
	}
	for told := t.told.Load(); told < s.mask && !t.told.CompareAndSwap(told, s.mask); {
		told = t.told.Load()
	}
}

// outgrow does what a table in mapped memory needs on the way to a size.
func (t *Table) outgrow(held int64) {
	if !t.spread.Load() {
		t.spread.Store(true)
	}
	born := t.born.Load()
	if held*aheadDen < int64(born)*splitKeys*aheadNum || int(born)*2 > t.earlyShards || !t.born.CompareAndSwap(born, born*2) {
		return
	}
	go func() {
		t.arena.early.populate(int(born), int(born)*2)
		runtime.KeepAlive(t) // it frees the arena
	}()
}

// The windows of the next shards are made resident when those there are have
// three fifths of the keys at which they are parted, on the average.
const aheadNum, aheadDen = 3, 5
