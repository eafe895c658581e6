package stint

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/internal/clock"
)

// MemoryOptions configures a [Memory] store. The zero value is useful.
type MemoryOptions struct {
	// MaxKeys bounds how many keys (states of one limit and key) are held.
	// 0 or less means DefaultMaxKeys. A wide state (a log, a counter of many
	// buckets) counts as one key, and one more for every four words it keeps.
	//
	// When the store is full, it looks at some keys and evicts the one with
	// the most remaining. When all of them are exhausted, a new key is decided
	// as fresh and not stored.
	MaxKeys int

	// CallerKeys bounds the states of limits that callers bring
	// ([Spec.FromCaller]). These states have their own room and never take
	// that of others. 0 or less means half of MaxKeys, in addition to MaxKeys.
	// States count as under MaxKeys. Each limit beyond the first 1,000 counts
	// as 40 keys while any state uses it.
	//
	// When the room is full, the store looks at some keys and evicts the one
	// with the most remaining. When all of them are exhausted, the charge of a
	// new key is refused with CodeExhausted.
	CallerKeys int

	// OnceBytes bounds the memory for groups that may be repeated (see [Once]), in
	// bytes. A group takes 208 bytes and 96 for each claim. When the room is full,
	// the store refuses new groups with a Once, with CodeExhausted, until old ones
	// are 60 seconds old. 0 or less means DefaultOnceBytes.
	OnceBytes int

	// Clock returns the time of decisions, which the store rounds down to a
	// microsecond. It must be safe for concurrent use. Nil is the system's
	// clock, which the store reads at less cost than time.Now and never
	// backwards. Tests and replays set their own.
	Clock func() time.Time

	// ProcessorClock reads the time from the processor's own counter, which
	// takes a third of the time. It has an effect only where that is safe: on
	// amd64 under Linux, when the kernel itself keeps time by that counter,
	// and without a Clock. The store compares the counter with the system's
	// clocks once a second, and uses Go's clock from when they disagree.
	ProcessorClock bool

	// OnClockFallback is called, with the reason, when the store has given up
	// the processor's counter: at most once. It delays the claim that found
	// the reason, so it should be quick.
	OnClockFallback func(reason string)

	// KeepAll keeps every state, however idle, and ignores MaxKeys. It is for
	// replays, whose time may run back.
	KeepAll bool
}

// DefaultMaxKeys is the default of [MemoryOptions.MaxKeys].
const DefaultMaxKeys = 10_000_000

// MemoryStats are counts of a [Memory] store since it was made. Only Callers
// counts the limits that callers bring.
type MemoryStats struct {
	Keys      int    // held now, including idle ones that are not yet reclaimed
	Limits    int    // limits that have a state
	Evictions uint64 // states evicted although they were not idle
	Unstored  uint64 // charges not stored, because no state could be evicted
	Full      bool   // the bound has been reached at least once

	Callers CallerStats
	Once    OnceStats
}

// CallerStats are the counts of a [Memory] store for the limits that callers
// bring.
type CallerStats struct {
	Keys      int    // held now, including idle ones that are not yet reclaimed
	Limits    int    // limits that have a state
	Evictions uint64 // states evicted although they were not idle
	Refused   uint64 // charges refused, because no state could be evicted
	Full      bool   // the bound has been reached at least once
}

// OnceStats are the counts of a store for groups that may be repeated (see [Once]).
type OnceStats struct {
	Remembered int    // groups that are remembered now, including expired ones that are not yet reclaimed
	Bytes      int    // of memory that they take
	Refused    uint64 // groups refused, because there was no room to remember them
}

// Memory is a [Store] in the memory of this process. It is exact, and no other
// process shares it. Make one with [NewMemory]: a nil or zero Memory answers
// every claim with an error. Its calls wait for nothing but each other, so they
// ignore their context.
//
// Memory forgets the states of idle keys as new keys come. It runs no goroutine
// for that. It holds at most [MemoryOptions.MaxKeys] keys, at 43 to 46 bytes
// each for narrow states, outside the Go heap where the system allows it. A
// limit takes memory only while a state uses it, so a store may see any number
// of limits in its life.
type Memory struct {
	states  // for the limits of programs and rules
	clock   clock.Clock
	secrets secrets

	callers    atomic.Pointer[states] // for the limits of callers; nil until the first such claim
	opening    sync.Mutex             // held while callers is made
	callerKeys int
	keepAll    bool

	once onceTable
}

// NewMemory returns an empty store. All options are valid, so there is no error. A
// large store takes about half a megabyte
// for each processor at once, three at least, and more only as keys come.
func NewMemory(o MemoryOptions) *Memory {
	if o.MaxKeys <= 0 {
		o.MaxKeys = DefaultMaxKeys
	}
	if o.CallerKeys <= 0 {
		o.CallerKeys = max(1, o.MaxKeys/2)
	}
	if o.OnceBytes <= 0 {
		o.OnceBytes = DefaultOnceBytes
	}
	m := &Memory{secrets: newSecrets(), callerKeys: o.CallerKeys, keepAll: o.KeepAll}
	m.once.budget = o.OnceBytes
	m.clock.Init(clock.Options{Given: o.Clock, Processor: o.ProcessorClock, OnFallback: o.OnClockFallback})
	m.init(o.MaxKeys, o.KeepAll)
	return m
}

// Stats returns the counts of the store. It locks one part of the store after
// the other, each briefly.
func (m *Memory) Stats() MemoryStats {
	if !m.made() {
		return MemoryStats{}
	}
	t := m.table.Stats()
	s := MemoryStats{Keys: t.Keys, Limits: m.limits.size(), Evictions: t.Evictions, Unstored: t.Unstored, Full: t.Full, Once: m.once.stats()}
	if c := m.callers.Load(); c != nil {
		t = c.table.Stats()
		s.Callers = CallerStats{Keys: t.Keys, Limits: c.limits.size(), Evictions: t.Evictions, Refused: t.Unstored, Full: t.Full}
	}
	return s
}

// Close forgets every key and limit and returns the memory to the system at
// once. The store is then empty and can be used again. A store that is no
// longer used needs no Close: the garbage collector frees its memory. The error
// is nil.
func (m *Memory) Close() error {
	if !m.made() {
		return nil
	}
	m.table.Clear()
	m.once.clear()
	if c := m.callers.Load(); c != nil {
		c.table.Clear()
	}
	return nil
}

// made reports whether the store came from NewMemory, and so is neither nil nor
// a zero value.
func (m *Memory) made() bool { return m != nil && m.table != nil }

var errNoMemory = &Error{Problem: "the memory store is nil or a zero value", Mend: "make it with NewMemory"}
