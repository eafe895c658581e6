package guard

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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

	// replicas judges the calls to this server that wait for replicas. How
	// these are is no fault of the server's, and no reason to stop what does
	// not need them.
	replicas *shard
	server   *shard      // of a shard that is the replicas of another; else nil
	asked    atomic.Bool // for a call that waits for replicas
}

// begin asks the breaker for a call. Calls that wait for replicas need the
// server, too.
func (sh *shard) begin() (breaker.Call, bool) {
	if sh.server != nil && !sh.server.up() {
		sh.server.refuse()
		return breaker.Call{}, false
	}
	call, ok := sh.breaker.Begin()
	if !ok {
		sh.refuse()
	}
	return call, ok
}

// refuse counts a call that was not made.
func (sh *shard) refuse() {
	if sh.refused.Add(1)%patience == 0 {
		runtime.Gosched()
	}
}

// up reports whether the breaker lets calls through.
func (sh *shard) up() bool {
	state := sh.breaker.State()
	return state == breaker.Closed || state == breaker.Disabled
}

// place is the name that the store has for the server.
func (sh *shard) place() string {
	if sh.server != nil {
		return sh.server.name
	}
	return sh.name
}

// retryAfter is the time to the next probe; 0 while one is in flight.
func (sh *shard) retryAfter() time.Duration {
	wait := sh.breaker.RetryAfter()
	if sh.server != nil {
		wait = max(wait, sh.server.breaker.RetryAfter())
	}
	return wait
}

// patience is how many calls are refused before one makes way for others.
// Callers in a loop, who wait for no store now, would else keep the processors
// from the probe that brings it back: with 64 of them it came a second late.
const patience = 8

// report tells the breaker how a call ended.
func (sh *shard) report(call breaker.Call, b class, err error) {
	switch b {
	case classFailure:
		sh.noteFailure(err)
		call.Failure()
	case classAnswered:
		call.Success()
	case classCanceled:
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

	named      atomic.Pointer[map[string]*shard] // replaced under adding
	adding     sync.Mutex
	background background
}

func (s *shards) init(g *Store) error {
	s.guard, s.breaker = g, *g.options.Breaker
	s.breaker.ProbesApart = true
	s.breaker.Excuse = g.stalls.excuses
	if s.breaker.SlowAfter == 0 { // how long a call takes must be known
		s.breaker.SlowAfter = g.options.Deadline
	}
	if _, err := breaker.New(s.breaker); err != nil {
		return fmt.Errorf("guard: Breaker: %w", err)
	}
	s.named.Store(&map[string]*shard{})
	s.background.init()
	s.claims.New = func() any { return new(stint.Claim) }
	if s.sharded, _ = g.store.(Sharded); s.sharded == nil {
		s.only = s.add("")
	}
	return nil
}

// of returns the shard of a claim that stands alone; an error when the claim is
// wrong.
func (s *shards) of(c stint.Claim) (*shard, error) {
	if s.only != nil {
		return s.only.judging(waitsForReplicas(&c)), nil
	}
	p, _ := s.claims.Get().(*stint.Claim)
	defer s.claims.Put(p)
	*p = c
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return s.ofValid(p).judging(waitsForReplicas(p)), nil
}

// ofValid returns the server of a claim that is known to be valid.
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

// judging returns the shard that judges a call to a server: its replicas if it
// waits for them.
func (sh *shard) judging(waits bool) *shard {
	if !waits {
		return sh
	}
	if !sh.replicas.asked.Load() {
		sh.replicas.asked.Store(true)
	}
	return sh.replicas
}

// waitsForReplicas reports whether a store may wait for replicas before it
// answers a claim: only what charges something does.
func waitsForReplicas(c *stint.Claim) bool {
	return c.Policy.Replicas > 0 && (c.Cost > 0 || c.Cost == 0 && c.Extra > 0)
}

// groupWaits is waitsForReplicas for a group that is no shadow: those do not hold
// up what they observe.
func groupWaits(g *stint.Group) bool {
	for i := range g.Claims {
		if waitsForReplicas(&g.Claims[i]) {
			return true
		}
	}
	return false
}

func (s *shards) add(name string) *shard {
	s.adding.Lock()
	defer s.adding.Unlock()
	if sh := (*s.named.Load())[name]; sh != nil {
		return sh
	}
	sh := s.newShard(name, s.breaker)
	o := s.breaker
	o.SlowRatio = 0 // how long replicas take says nothing of the server
	sh.replicas = s.newShard(strings.TrimSpace(name+" replicas"), o)
	sh.replicas.server = sh
	named := maps.Clone(*s.named.Load())
	named[name] = sh
	s.named.Store(&named)
	return sh
}

func (s *shards) newShard(name string, o breaker.Options) *shard {
	sh := &shard{name: name}
	o.OnChange = func(c breaker.Change) { s.changed(sh, c) }
	sh.breaker, _ = breaker.New(o) // init has checked the options
	return sh
}

func (s *shards) forget(sh *shard) {
	s.adding.Lock()
	defer s.adding.Unlock()
	named := maps.Clone(*s.named.Load())
	delete(named, sh.name)
	s.named.Store(&named)
}

// forgot reports whether a server has been forgotten.
func (s *shards) forgot(sh *shard) bool { return (*s.named.Load())[sh.name] != sh }

// sorted returns the servers by name, each before its replicas.
func (s *shards) sorted() []*shard {
	named := *s.named.Load()
	all := make([]*shard, 0, 2*len(named))
	for _, name := range slices.Sorted(maps.Keys(named)) {
		all = append(all, named[name], named[name].replicas)
	}
	return all
}

// changed hears of every change of state, under the lock of the breaker.
func (s *shards) changed(sh *shard, c breaker.Change) {
	if c.From == breaker.Closed && c.To == breaker.Open {
		sh.opened.Add(1)
		s.background.run(func(ctx context.Context) { s.superviseRecovery(ctx, sh, c.Reason) })
	}
	if s.breaker.OnChange != nil {
		s.breaker.OnChange(c)
	}
	if s.guard.options.OnChange != nil {
		s.guard.options.OnChange(sh.name, c)
	}
}
