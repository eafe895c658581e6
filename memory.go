package stint

import (
	"context"
	"sync"
	"sync/atomic"

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

	// CallerKeys bounds the states of limits that callers bring
	// ([Spec.FromCaller]). They are held apart from all others and never take
	// their room. Defaults to half of MaxKeys, beside MaxKeys. States count as
	// they do there; beyond 1,000 limits a limit counts as 40, for as long as
	// a state is of it. When full, the key with the most remaining among those
	// looked at makes room; when all of those are exhausted, the charge of a
	// new key is refused with CodeExhausted.
	CallerKeys int

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

// MemoryStats are counts of a [Memory] store since it was made. Those of limits
// that callers bring are in Callers alone.
type MemoryStats struct {
	Keys      int    // held now, idle ones that were not yet reclaimed included
	Limits    int    // that these are of
	Evictions uint64 // states given up although they were not idle
	Unstored  uint64 // charges that were not stored, because nothing could go
	Full      bool   // the bound has been met at least once

	Callers CallerStats
}

// CallerStats are counts of what a [Memory] store keeps of limits that callers
// bring.
type CallerStats struct {
	Keys      int    // held now, idle ones that were not yet reclaimed included
	Limits    int    // that these are of
	Evictions uint64 // states given up although they were not idle
	Refused   uint64 // charges that were refused, because nothing could go
	Full      bool   // the bound has been met at least once
}

// Memory is a [Store] in the memory of this process, exact and shared by
// nothing else. Make one with [NewMemory]: a nil or zero Memory answers every
// claim with an error. Its calls never wait for anything but each other, so
// they do not look at their context.
//
// It forgets the states of idle keys as new keys come, without a goroutine of
// its own, and holds at most [MemoryOptions.MaxKeys]: 43 to 46 bytes each for
// narrow states, outside the Go heap where the system allows. A limit costs
// memory while a state is of it, so there may be any number of limits in the
// life of a store.
type Memory struct {
	states  // of the limits of programs and rules
	clock   clock
	secrets secrets

	callers    atomic.Pointer[states] // of the limits of callers; nil until there is one
	opening    sync.Mutex             // held to make callers
	callerKeys int
	keepAll    bool
}

// NewMemory returns an empty store. A large one takes about half a megabyte for
// each processor at once, at least three, and more only as keys come.
func NewMemory(o MemoryOptions) *Memory {
	if o.MaxKeys <= 0 {
		o.MaxKeys = DefaultMaxKeys
	}
	if o.CallerKeys <= 0 {
		o.CallerKeys = max(1, o.MaxKeys/2)
	}
	m := &Memory{secrets: newSecrets(), callerKeys: o.CallerKeys, keepAll: o.KeepAll}
	m.clock.init(o.Clock, o.ProcessorClock)
	m.init(o.MaxKeys, o.KeepAll)
	return m
}

// Stats locks one part of the store after the other, briefly.
func (m *Memory) Stats() MemoryStats {
	if !m.made() {
		return MemoryStats{}
	}
	t := m.table.Stats()
	s := MemoryStats{Keys: t.Keys, Limits: m.limits.size(), Evictions: t.Evictions, Unstored: t.Unstored, Full: t.Full}
	if c := m.callers.Load(); c != nil {
		t = c.table.Stats()
		s.Callers = CallerStats{Keys: t.Keys, Limits: c.limits.size(), Evictions: t.Evictions, Refused: t.Unstored, Full: t.Full}
	}
	return s
}

// Close forgets every key and limit and gives the memory back at once. The store can be
// used again, empty. A store that is no longer used needs no Close: its memory
// goes with it. The error is nil.
func (m *Memory) Close() error {
	if !m.made() {
		return nil
	}
	m.table.Clear()
	if c := m.callers.Load(); c != nil {
		c.table.Clear()
	}
	return nil
}

// made reports whether NewMemory made the store: it is neither nil nor a zero
// value.
func (m *Memory) made() bool { return m != nil && m.table != nil }

var errNoMemory = &Error{Problem: "the memory store is nil or a zero value", Mend: "make it with NewMemory"}

// Take decides one claim and charges it when allowed.
func (m *Memory) Take(_ context.Context, c Claim) (d Decision, err error) {
	n := c.Limit.n
	if m == nil || !c.isPlain() || !n.isBucket() {
		return d, m.take(&c, &d)
	}
	// Nearly every check, and without a trip through memory.
	ref := m.limits.cached(n)
	if ref == 0 { // a limit without a state here, or of a caller
		return d, m.take(&c, &d)
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
			err = m.takeStep(shard, &query{n: n, states: &m.states, id: id}, &c, now, false, &d)
			return d, err
		}
	}
	next, after, allowed := n.takePlain(packed(slot.State), now, c.Cost)
	slot.State = table.State(next)
	shard.Unlock()
	n.reportPlain(&d, after, now, c.Cost, allowed)
	return d, nil
}

// take is Take for any claim.
func (m *Memory) take(c *Claim, d *Decision) error {
	if !m.made() {
		return errNoMemory
	}
	var q query
	if err := m.prepare(&q, c); err != nil {
		return err
	}
	q.states.table.Touch(q.id)
	now := m.clock.now()
	shard := q.states.table.Shard(q.id)
	shard.LockAt(now)
	return m.takeStep(q.states.table.Relock(shard, q.id), &q, c, now, false, d)
}

// takeStep takes the step of one claim whose shard is locked, and unlocks it.
func (m *Memory) takeStep(shard *table.Shard, q *query, c *Claim, now int64, dry bool, d *Decision) error {
	a := input{dry: dry}
	var r result
	c.asInput(&a, now)
	ok := q.states.step(shard, q, &a, &r)
	shard.Release(now)
	if !ok {
		return errNoRoom()
	}
	q.n.decide(d, &r, &a)
	return nil
}

// query is a claim's limit, and where its state is.
type query struct {
	n      *compiledLimit
	states *states
	id     table.ID

	// Of a claim that is decided in a group:
	shard    *table.Shard
	next     packed // its state, if the group is admitted
	done     bool   // it was charged when room was made
	reserved uint32 // the reference of its limit, held until the group is decided; 0: none
}

// prepare checks a claim and tells where its state is.
func (m *Memory) prepare(q *query, c *Claim) error {
	if !c.isPlain() {
		if err := c.check(); err != nil {
			return err
		}
	}
	*q = query{n: c.Limit.n, states: &m.states}
	if q.n.fromCaller {
		q.states = m.callerStates()
	}
	q.id = m.secrets.identify(c.Key, &q.n.salt)
	return nil
}
