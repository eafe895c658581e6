package stint

import (
	"context"

	"github.com/stintdev/stint/internal/table"
)

// MemoryOptions configures a [Memory] store. The zero value is useful.
type MemoryOptions struct {
	// MaxKeys bounds how many keys (states of one limit and key) are held.
	// Defaults to DefaultMaxKeys. A wide state (a log, a counter of many
	// buckets) counts as one and one more for every four words it keeps.
	// When full, the key with the most remaining among those looked at makes
	// room; when all of those are exhausted, a new key is decided as fresh
	// and not stored.
	MaxKeys int

	// Clock returns now in microseconds since the Unix epoch. Defaults to
	// the wall clock, read cheaply and never backwards. A test or a replay
	// brings its own.
	Clock func() int64

	// ProcessorClock reads the time from the processor's own counter, which
	// takes a third of the time. It is used where that is safe: on amd64
	// under Linux, when the kernel itself keeps time by that counter.
	// Elsewhere, or with a Clock, it does nothing.
	ProcessorClock bool

	// KeepAll never forgets a state, however idle, and ignores MaxKeys:
	// for replay, whose time may run back.
	KeepAll bool
}

// DefaultMaxKeys is the bound of a memory store that names none.
const DefaultMaxKeys = 10_000_000

// MemoryStats are counts of a [Memory] store since it was made.
type MemoryStats struct {
	Keys      int    // held now, idle ones that were not yet reclaimed included
	Evictions uint64 // states given up although they were not idle
	Unstored  uint64 // charges that were not stored, because nothing could go
	Full      bool   // the bound has been met at least once
}

// Memory is a [Store] in the memory of this process, exact and shared by
// nothing else. Make one with [NewMemory]. Its calls never wait for anything
// but each other, so they do not look at their context.
//
// It forgets the states of idle keys as new keys come, without a goroutine of
// its own, and holds at most [MemoryOptions.MaxKeys]: 43 to 46 bytes each for
// narrow states, outside the Go heap where the system allows.
type Memory struct {
	table   *table.Table
	limits  registry
	clock   clock
	secrets secrets
}

// NewMemory returns an empty store. A large one takes about half a megabyte for
// each processor at once, at least three, and more only as keys come.
func NewMemory(o MemoryOptions) *Memory {
	if o.MaxKeys <= 0 {
		o.MaxKeys = DefaultMaxKeys
	}
	m := &Memory{secrets: newSecrets()}
	m.limits.init()
	m.clock.init(o.Clock, o.ProcessorClock)
	m.table = table.New(table.Options{Bound: o.MaxKeys, KeepAll: o.KeepAll, Judge: &m.limits})
	return m
}

// Stats locks one part of the store after the other, briefly.
func (m *Memory) Stats() MemoryStats { return MemoryStats(m.table.Stats()) }

// Close forgets every key and gives the memory back at once. The store can be
// used again, empty. A store that is no longer used needs no Close: its memory
// goes with it. The error is nil.
func (m *Memory) Close() error {
	m.table.Clear()
	return nil
}

// Take decides one claim and charges it when allowed.
func (m *Memory) Take(_ context.Context, c Claim) (d Decision, err error) {
	n := c.Limit.n
	if !c.sound() || !n.isBucket() {
		return d, m.take(&c, &d)
	}
	// Nearly every check, and without a trip through memory.
	ref := m.limits.cached(n)
	if ref == 0 {
		if ref, err = m.limits.intern(n); err != nil {
			return d, err
		}
	}
	id := m.secrets.identify(c.Key, &n.salt)
	m.table.Touch(id)
	now := m.clock.now()
	shard := m.table.Shard(id)
	if !shard.TryLock() {
		shard.Wait(now)
	}
	if !shard.Owns(id) {
		shard = m.table.Relock(shard, id)
	}
	slot := shard.AtHome(id, ref)
	if slot == nil {
		if slot = shard.Find(id); slot == nil || slot.Ref() != ref {
			m.takeStep(shard, &query{n: n, id: id, ref: ref}, &c, now, false, &d)
			return d, nil
		}
	}
	next, after, allowed := n.takePlain(cell(slot.State), now, c.Cost)
	slot.State = table.State(next)
	shard.Unlock()
	n.tellPlain(&d, after, now, c.Cost, allowed)
	return d, nil
}

// take is Take for any claim.
func (m *Memory) take(c *Claim, d *Decision) error {
	var q query
	if err := m.prepare(&q, c); err != nil {
		return err
	}
	m.table.Touch(q.id)
	now := m.clock.now()
	shard := m.table.Shard(q.id)
	shard.LockAt(now)
	m.takeStep(m.table.Relock(shard, q.id), &q, c, now, false, d)
	return nil
}

// takeStep takes the step of one claim whose shard is locked, and unlocks it.
func (m *Memory) takeStep(shard *table.Shard, q *query, c *Claim, now int64, dry bool, d *Decision) {
	a := ask{dry: dry}
	var r result
	c.ask(&a, now)
	m.step(shard, q, &a, &r)
	shard.Release(now)
	q.n.decide(d, &r, &a)
}

// query is a claim's limit, and where its state is.
type query struct {
	n     *numbers
	id    table.ID
	ref   uint32
	shard *table.Shard // of a claim that is decided in a group
	next  cell         // its state, if the group is admitted
}

// prepare checks a claim and tells where its state is.
func (m *Memory) prepare(q *query, c *Claim) (err error) {
	q.n = c.Limit.n
	if q.ref, err = m.refer(c); err != nil {
		return err
	}
	q.id = m.secrets.identify(c.Key, &q.n.salt)
	return nil
}

// refer checks a claim and returns the reference of its limit.
func (m *Memory) refer(c *Claim) (ref uint32, err error) {
	if !c.sound() {
		if err := c.check(); err != nil {
			return 0, err
		}
	}
	if ref = m.limits.cached(c.Limit.n); ref != 0 {
		return ref, nil
	}
	return m.limits.intern(c.Limit.n)
}

// step takes the step of one claim on its state. Its shard is locked.
func (m *Memory) step(shard *table.Shard, q *query, a *ask, r *result) {
	if q.n.wide() {
		m.stepWide(shard, q, a, r)
		return
	}
	slot := shard.Find(q.id)
	if slot == nil {
		m.stepFresh(shard, q, a, r)
		return
	}
	from := q.n
	if ref := slot.Ref(); ref != q.ref {
		from = m.limits.at(ref)
	}
	c := q.n.step(cell(slot.State), from, a, r)
	if r.write {
		slot.State = table.State(c)
		slot.SetRef(q.ref)
	}
	if r.forget {
		shard.Delete(q.id)
	}
}

// stepFresh is step for a key without a state.
func (m *Memory) stepFresh(shard *table.Shard, q *query, a *ask, r *result) {
	c := q.n.step(cell{}, nil, a, r)
	if r.write && !r.forget {
		shard.Insert(q.id, q.ref, table.State(c), a.now)
	}
}
