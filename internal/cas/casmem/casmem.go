// Package casmem is a backend of package cas in memory, for tests. It has a clock, and
// injects the faults of a server and of a network: lost swaps, outcomes that are unknown,
// writes that a network delivers late, refusals and delays.
package casmem

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
)

// Server keeps the items. Several backends, such as those of several nodes, share it.
type Server struct {
	// Clock is the server's clock; nil if it has none that decisions use.
	Clock func() time.Time

	mu struct {
		sync.Mutex

		items  map[string]stored
		late   []cas.Swap // writes under way
		writes int
		loads  int
		locked map[string]bool
	}
	unlocked *sync.Cond
}

type stored struct {
	item    cas.Item
	expires time.Time
}

// NewServer returns an empty server.
func NewServer(clock func() time.Time) *Server {
	s := &Server{Clock: clock}
	s.mu.items, s.mu.locked = map[string]stored{}, map[string]bool{}
	s.unlocked = sync.NewCond(&s.mu)
	return s
}

// Faults are what befalls the calls of a [Backend]: the probability of each fault, from 0
// to 1. The faults of loads and swaps of one key are independent of those of the others.
type Faults struct {
	Seed uint64

	Lose         float64 // another process writes the same value first
	Hide         float64 // a lost swap does not say what is there now
	UnknownDone  float64 // a swap is made, and its answer is lost
	UnknownNever float64 // a swap is lost on its way
	UnknownLate  float64 // a swap is made later, before one of the next calls
	Fail         float64 // a load or a swap fails
	Throttle     float64 // a load or a swap is refused because there are too many

	Delay time.Duration // of each call
}

// Backend is a [cas.Backend] over a server. It is neither [cas.Atomic] nor [cas.Locker]; see
// [Atomic] and [Full].
type Backend struct {
	server *Server

	mu     sync.Mutex
	faults Faults     // guarded by mu
	random *rand.Rand // guarded by mu
}

// New returns a backend without faults.
func New(s *Server) *Backend {
	b := &Backend{server: s}
	b.Befall(Faults{})
	return b
}

// Befall replaces the faults.
func (b *Backend) Befall(f Faults) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults, b.random = f, rand.New(rand.NewPCG(f.Seed, 1))
}

// Atomic is a backend with transactions.
type Atomic struct{ *Backend }

// Full is a backend with transactions and locks.
type Full struct{ Atomic }

// Locking is a backend with locks, which has no transactions.
type Locking struct{ *Backend }

// Kinds are a backend of each kind over the server of a plain one.
var Kinds = map[string]func(*Backend) cas.Backend{
	"plain":   func(b *Backend) cas.Backend { return b },
	"locking": func(b *Backend) cas.Backend { return Locking{b} },
	"atomic":  func(b *Backend) cas.Backend { return Atomic{b} },
	"full":    func(b *Backend) cas.Backend { return Full{Atomic{b}} },
}

// Survivable are all faults that a store has to survive without an error.
var Survivable = Faults{Seed: 1, Lose: 0.1, Hide: 0.5, UnknownDone: 0.05, UnknownNever: 0.05, UnknownLate: 0.05, Throttle: 0.002}

// Load implements [cas.Backend].
func (b *Backend) Load(ctx context.Context, loads []cas.Load) (time.Time, error) {
	if err := b.wait(ctx); err != nil {
		return time.Time{}, err
	}
	s := b.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.loads++
	for i := range loads {
		if loads[i].Err = b.refusal(); loads[i].Err == nil {
			loads[i].Item = s.itemLocked(loads[i].Key)
		}
	}
	return s.nowLocked(), nil
}

// Swap implements [cas.Backend].
func (b *Backend) Swap(ctx context.Context, swaps []cas.Swap) (time.Time, error) {
	if err := b.wait(ctx); err != nil {
		return time.Time{}, err
	}
	s := b.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lateLocked()
	for i := range swaps {
		b.swapLocked(swaps[i : i+1])
	}
	return s.nowLocked(), nil
}

// SwapAll implements [cas.Atomic].
func (b Atomic) SwapAll(ctx context.Context, swaps []cas.Swap) (time.Time, error) {
	if err := b.wait(ctx); err != nil {
		return time.Time{}, err
	}
	s := b.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lateLocked()
	b.swapLocked(swaps)
	return s.nowLocked(), nil
}

// Locked implements [cas.Locker].
func (b Full) Locked(ctx context.Context, keys []string, decide func([]cas.Item, time.Time) []cas.Swap) ([]cas.Swap, error) {
	return b.locked(ctx, keys, decide)
}

// Locked implements [cas.Locker].
func (b Locking) Locked(ctx context.Context, keys []string, decide func([]cas.Item, time.Time) []cas.Swap) ([]cas.Swap, error) {
	return b.locked(ctx, keys, decide)
}

// locked keeps only those out that lock too, as a lock of Memcached does.
func (b *Backend) locked(ctx context.Context, keys []string, decide func([]cas.Item, time.Time) []cas.Swap) ([]cas.Swap, error) {
	if err := b.wait(ctx); err != nil {
		return nil, err
	}
	s := b.server
	s.mu.Lock()
	defer s.mu.Unlock()
	for slices.ContainsFunc(keys, func(k string) bool { return s.mu.locked[k] }) {
		s.unlocked.Wait()
	}
	for _, k := range keys {
		s.mu.locked[k] = true
	}
	defer func() {
		for _, k := range keys {
			delete(s.mu.locked, k)
		}
		s.unlocked.Broadcast()
	}()
	items := make([]cas.Item, len(keys))
	for i, k := range keys {
		items[i] = s.itemLocked(k)
	}
	now := s.nowLocked()
	s.mu.Unlock()
	swaps := decide(items, now)
	s.mu.Lock()
	s.lateLocked()
	b.swapLocked(swaps)
	return swaps, nil
}

// wait is the time that a call takes.
func (b *Backend) wait(ctx context.Context) error {
	b.mu.Lock()
	delay := b.faults.Delay
	b.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return cas.NoAnswer(ctx, "casmem", ctx.Err())
	}
	return nil
}

// befalls draws whether a fault of the given probability happens.
func (b *Backend) befalls(p func(*Faults) float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := p(&b.faults)
	return f > 0 && b.random.Float64() < f
}

func (b *Backend) refusal() error {
	switch {
	case b.befalls(func(f *Faults) float64 { return f.Fail }):
		return &stint.Error{Code: stint.CodeUnavailable, Kind: "connection", Problem: "no connection to casmem"}
	case b.befalls(func(f *Faults) float64 { return f.Throttle }):
		return cas.Throttled("casmem", "", nil)
	}
	return nil
}

// swapLocked makes all swaps or none.
func (b *Backend) swapLocked(swaps []cas.Swap) {
	s := b.server
	set := func(outcome cas.Outcome, err error) {
		for i := range swaps {
			swaps[i].Outcome, swaps[i].Err = outcome, err
		}
	}
	unanswered := &stint.Error{Code: stint.CodeTimeout, Kind: "connection", Problem: "the connection to casmem broke"}
	if err := b.refusal(); err != nil {
		set(cas.Failed, err)
		return
	}
	for i := range swaps {
		if old, ok := s.mu.items[swaps[i].Key]; ok && b.befalls(func(f *Faults) float64 { return f.Lose }) {
			old.item.Version = rand.Uint64() >> 1
			s.mu.items[swaps[i].Key] = old
		}
	}
	switch {
	case b.befalls(func(f *Faults) float64 { return f.UnknownNever }):
		set(cas.Unknown, unanswered)
		return
	case len(swaps) == 1 && b.befalls(func(f *Faults) float64 { return f.UnknownLate }):
		late := swaps[0]
		late.Value = slices.Clone(late.Value)
		s.mu.late = append(s.mu.late, late)
		set(cas.Unknown, unanswered)
		return
	}
	if now := s.nowLocked(); !now.IsZero() && now.Before(swaps[0].NotBefore) {
		set(cas.Lost, nil)
		return
	}
	if !s.freshLocked(swaps) {
		set(cas.Lost, nil)
		for i := range swaps {
			if swaps[i].Known = !b.befalls(func(f *Faults) float64 { return f.Hide }); swaps[i].Known {
				swaps[i].Current = s.itemLocked(swaps[i].Key)
			}
		}
		return
	}
	s.writeLocked(swaps)
	set(cas.Done, nil)
	for i := range swaps {
		swaps[i].Written = swaps[i].Version
	}
	if b.befalls(func(f *Faults) float64 { return f.UnknownDone }) {
		set(cas.Unknown, unanswered)
	}
}

// lateLocked makes the writes that were under way.
func (s *Server) lateLocked() {
	for i := range s.mu.late {
		if late := s.mu.late[i : i+1]; s.freshLocked(late) {
			s.writeLocked(late)
		}
	}
	s.mu.late = nil
}

// freshLocked reports whether the versions of all swaps are still those that were read.
func (s *Server) freshLocked(swaps []cas.Swap) bool {
	for i := range swaps {
		if s.itemLocked(swaps[i].Key).Version != swaps[i].Old {
			return false
		}
	}
	return true
}

func (s *Server) writeLocked(swaps []cas.Swap) {
	s.mu.writes++
	for i := range swaps {
		w := &swaps[i]
		s.mu.items[w.Key] = stored{cas.Item{Value: slices.Clone(w.Value), Version: w.Version}, s.expiryLocked(w.TTL)}
	}
}

func (s *Server) expiryLocked(ttl time.Duration) time.Time {
	if s.Clock == nil {
		return time.Now().Add(ttl)
	}
	return s.Clock().Add(ttl)
}

func (s *Server) itemLocked(key string) cas.Item {
	it := s.mu.items[key]
	if it.item.Version == 0 || s.expiryLocked(0).After(it.expires) {
		return cas.Item{}
	}
	return cas.Item{Value: slices.Clone(it.item.Value), Version: it.item.Version}
}

func (s *Server) nowLocked() time.Time {
	if s.Clock == nil {
		return time.Time{}
	}
	return s.Clock()
}

// Calls returns how many loads and how many writes the server has made.
func (s *Server) Calls() (loads, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.loads, s.mu.writes
}

// Set writes a value past all backends, such as one that is corrupt.
func (s *Server) Set(key string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.items[key] = stored{cas.Item{Value: value, Version: rand.Uint64() >> 1}, s.expiryLocked(time.Hour)}
}

// Items returns a copy of all values by key.
func (s *Server) Items() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string][]byte, len(s.mu.items))
	for k := range s.mu.items {
		if it := s.itemLocked(k); it.Version != 0 {
			all[k] = it.Value
		}
	}
	return all
}
