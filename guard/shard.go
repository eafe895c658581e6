package guard

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
)

// shard is one server of the store, as the guard sees it.
type shard struct {
	name    string
	breaker *breaker.Breaker
	opened  atomic.Uint64         // how often
	refused atomic.Uint64         // calls that were not made
	failure atomic.Pointer[error] // the last that counted
}

// begin asks the breaker for a call.
func (sh *shard) begin() (breaker.Call, bool) {
	call, ok := sh.breaker.Begin()
	if !ok && sh.refused.Add(1)%patience == 0 {
		runtime.Gosched()
	}
	return call, ok
}

// patience is how many calls are refused before one makes way for others.
// Callers in a loop, who wait for no store now, would else keep the processors
// from the probe that brings it back: with 64 of them it came a second late.
const patience = 8

// report tells the breaker how a call ended.
func (sh *shard) report(call breaker.Call, b blame, err error) {
	switch b {
	case blameStore:
		sh.noteFailure(err)
		call.Failure()
	case blameNone:
		call.Success()
	case blameImpatient:
		call.Cancel()
	}
}

// noteFailure stands apart so that only here an error moves to the heap.
func (sh *shard) noteFailure(err error) { sh.failure.Store(&err) }

// shards are those that the store has named so far.
type shards struct {
	guard   *Store
	sharded Sharded // nil: the store is one
	only    *shard  // of a store that is one
	breaker breaker.Options
	claims  sync.Pool // of *stint.Claim

	named   atomic.Pointer[map[string]*shard] // replaced under adding
	adding  sync.Mutex
	minders minders
}

func (s *shards) init(g *Store) error {
	s.guard, s.breaker = g, *g.options.Breaker
	s.breaker.ProbesApart = true
	s.breaker.Excuse = g.witness.excuses
	if s.breaker.SlowAfter == 0 { // how long a call takes must be known
		s.breaker.SlowAfter = g.options.Deadline
	}
	if _, err := breaker.New(s.breaker); err != nil {
		return fmt.Errorf("guard: Breaker: %w", err)
	}
	s.named.Store(&map[string]*shard{})
	s.minders.init()
	s.claims.New = func() any { return new(stint.Claim) }
	if s.sharded, _ = g.store.(Sharded); s.sharded == nil {
		s.only = s.add("")
	}
	return nil
}

// of returns the shard of a claim; an error when the claim is wrong.
func (s *shards) of(c stint.Claim) (*shard, error) {
	if s.only != nil {
		return s.only, nil
	}
	p, _ := s.claims.Get().(*stint.Claim)
	defer s.claims.Put(p)
	*p = c
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return s.ofValid(p), nil
}

// ofValid is of for a claim that is known to be valid.
func (s *shards) ofValid(c *stint.Claim) *shard {
	if s.only != nil {
		return s.only
	}
	name := s.sharded.ShardOf(c)
	if sh := (*s.named.Load())[name]; sh != nil {
		return sh
	}
	return s.add(name)
}

func (s *shards) add(name string) *shard {
	s.adding.Lock()
	defer s.adding.Unlock()
	if sh := (*s.named.Load())[name]; sh != nil {
		return sh
	}
	sh := &shard{name: name}
	o := s.breaker
	o.OnChange = func(c breaker.Change) { s.changed(sh, c) }
	sh.breaker, _ = breaker.New(o) // init has checked the options
	named := maps.Clone(*s.named.Load())
	named[name] = sh
	s.named.Store(&named)
	return sh
}

func (s *shards) forget(sh *shard) {
	s.adding.Lock()
	defer s.adding.Unlock()
	named := maps.Clone(*s.named.Load())
	delete(named, sh.name)
	s.named.Store(&named)
}

// sorted returns the shards by name.
func (s *shards) sorted() []*shard {
	named := *s.named.Load()
	all := make([]*shard, 0, len(named))
	for _, name := range slices.Sorted(maps.Keys(named)) {
		all = append(all, named[name])
	}
	return all
}

// changed hears of every change of state, under the lock of the breaker.
func (s *shards) changed(sh *shard, c breaker.Change) {
	if c.From == breaker.Closed && c.To == breaker.Open {
		sh.opened.Add(1)
		s.minders.run(func(ctx context.Context) { s.mind(ctx, sh, c.Reason) })
	}
	if s.breaker.OnChange != nil {
		s.breaker.OnChange(c)
	}
	if s.guard.options.OnChange != nil {
		s.guard.options.OnChange(sh.name, c)
	}
}
