package table

import "runtime"

// A table begins with few shards. It splits a shard in two when that has
// splitKeys, by the next bit of its identities, until the table has the number
// of shards that suits the bound (R. Fagin et al., "Extendible hashing", ACM
// TODS 4(3), 1979). A small table therefore stays dense and covers few pages.
const (
	splitKeys  = 625 // half of keysPerShard, so that a split takes no longer than a rebuild
	earlySlots = 896 // slots for splitKeys at the load after growth, in whole pages
)

// Release unlocks a shard to which states may have been added. It first splits
// the shard when it holds more than splitKeys.
func (s *Shard) Release(now int64) {
	if s.count > splitKeys && !s.late() {
		s.split(now)
	}
	s.Unlock()
}

// late reports whether the shard's mask has all bits of the table's, so that the
// shard is never split again.
func (s *Shard) late() bool { return s.mask == s.table.mask }

// split moves about half of the states to a new shard, whose number differs by
// the next bit.
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

// restart empties the shard and sets its size. It keeps the wide slices.
func (s *Shard) restart(size int, now int64) {
	s.resize(size)
	clear(s.all())
	s.count, s.sweep = 0, now+sweepEvery
}

// lead directs lookups of all identities that a shard owns to that shard.
func (t *Table) lead(s *Shard) {
	for n := int(s.number); n < len(t.lookup); n += int(s.mask) + 1 {
		t.lookup[n].Store(s.number)
	}
	for bits := t.tagBits.Load(); bits < s.mask && !t.tagBits.CompareAndSwap(bits, s.mask); {
		bits = t.tagBits.Load()
	}
}

// outgrow prepares a table in mapped memory for growth. It turns on prefetching,
// and makes the early windows of the next shards resident in the background.
func (t *Table) outgrow(held int64) {
	if !t.spread.Load() {
		t.spread.Store(true)
	}
	resident := t.resident.Load()
	if held*aheadDen < int64(resident)*splitKeys*aheadNum || int(resident)*2 > t.earlyShards || !t.resident.CompareAndSwap(resident, resident*2) {
		return
	}
	go func() {
		t.arena.early.populate(int(resident), int(resident)*2)
		runtime.KeepAlive(t) // the cleanup of t frees the arena
	}()
}

// The windows of the next shards are made resident when the present shards hold,
// on average, three fifths of splitKeys.
const aheadNum, aheadDen = 3, 5
