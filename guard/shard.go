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
	"github.com/stintdev/stint/storekit"
)

// shard is one server of the store, or the replicas of one server.
type shard struct {
	name     string
	breaker  *breaker.Breaker
	opened   atomic.Uint64         // how often the breaker opened
	refused  atomic.Uint64         // calls that the breaker refused
	failure  atomic.Pointer[error] // the last error that counted as a failure
	slow     slowCalls
	degraded degradedCounts

	// replicas has the breaker for the calls to this server that wait for
	// replicas. Slow or missing replicas are no fault of the server, and must
	// not stop the calls that do not need them.
	replicas *shard
	server   *shard      // the server whose replicas this shard is; nil for a server
	used     atomic.Bool // whether a call has waited for these replicas
}

// begin asks the breaker to let a call through. A call that waits for replicas
// also needs the breaker of the server to be closed.
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

// refuse counts a refused call, and yields the processor after every yieldEvery of
// them.
func (sh *shard) refuse() {
	if sh.refused.Add(1)%yieldEvery == 0 {
		runtime.Gosched()
	}
}

// up reports whether the breaker lets calls through.
func (sh *shard) up() bool {
	state := sh.breaker.State()
	return state == breaker.Closed || state == breaker.Disabled
}

// serverName returns the name by which the store knows the server.
func (sh *shard) serverName() string {
	if sh.server != nil {
		return sh.server.name
	}
	return sh.name
}

// retryAfter returns the time to the next probe, and 0 while one is in flight.
func (sh *shard) retryAfter() time.Duration {
	wait := sh.breaker.RetryAfter()
	if sh.server != nil {
		wait = max(wait, sh.server.breaker.RetryAfter())
	}
	return wait
}

// yieldEvery is how many refused calls pass between two yields of the processor. A
// refused call waits for nothing, so callers that retry in a loop can occupy every
// processor and delay the probe that would close the breaker: without the yield, 64
// such callers delayed it by a second.
const yieldEvery = 8

// report reports the end of a call to the breaker. The classes that say nothing of
// the server are not reported.
func (sh *shard) report(call breaker.Call, b class, err error) {
	switch b {
	case classFailure:
		sh.noteFailure(err)
		call.Failure()
	case classAnswered:
		call.Success()
	case classCanceled:
		call.Ignore()
	}
}

// noteFailure stores the error of a failed call. It is a function of its own so
// that the error moves to the heap only here, not in every call of report.
func (sh *shard) noteFailure(err error) { sh.failure.Store(&err) }

// shards holds the shards that the store has named so far.
type shards struct {
	guard   *Store
	sharded storekit.Shards // nil if the store is not Sharded
	only    *shard          // the one shard of a store that is not Sharded; nil otherwise
	breaker breaker.Options
	claims  sync.Pool // a pool of *stint.Claim

	named      atomic.Pointer[map[string]*shard] // copied and replaced under adding
	adding     sync.Mutex
	background background
}

func (s *shards) init(g *Store) error {
	s.guard, s.breaker = g, *g.options.Breaker
	s.breaker.ProbesApart = true
	if s.breaker.SlowAfter == 0 { // the breaker times calls only if SlowAfter is set
		s.breaker.SlowAfter = g.options.Deadline
	}
	if _, err := breaker.New(s.breaker); err != nil {
		return fmt.Errorf("guard: Breaker: %w", err)
	}
	s.named.Store(&map[string]*shard{})
	s.background.init()
	s.claims.New = func() any { return new(stint.Claim) }
	if store, ok := g.store.(storekit.Sharded); ok {
		s.sharded = store.Shards()
	} else {
		s.only = s.add("")
	}
	return nil
}

// of returns the shard of a single claim. It returns an error if the claim is
// invalid, which only a Sharded store needs to know before the call.
func (s *shards) of(c stint.Claim) (*shard, error) {
	if s.only != nil {
		return s.only.target(waitsForReplicas(&c)), nil
	}
	p, _ := s.claims.Get().(*stint.Claim)
	defer s.claims.Put(p)
	*p = c
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return s.ofValid(p).target(waitsForReplicas(p)), nil
}

// ofValid returns the server of a claim that is known to be valid.
func (s *shards) ofValid(c *stint.Claim) *shard {
	if s.only != nil {
		return s.only
	}
	name := s.sharded.Of(c)
	if sh := (*s.named.Load())[name]; sh != nil {
		return sh
	}
	return s.add(name)
}

// target returns the shard whose breaker counts a call to a server: the server's
// replicas if the call waits for them, and the server itself if it does not.
func (sh *shard) target(waits bool) *shard {
	if !waits {
		return sh
	}
	if !sh.replicas.used.Load() {
		sh.replicas.used.Store(true)
	}
	return sh.replicas
}

// waitsForReplicas reports whether a store may wait for replicas before it answers
// a claim. Only a claim that can charge something waits.
func waitsForReplicas(c *stint.Claim) bool {
	return c.Policy.Replicas > 0 && (c.Cost > 0 || c.Cost == 0 && c.Extra > 0)
}

// groupWaits reports whether a claim of a group waits for replicas. The caller does not
// pass shadows: a shadow never delays the group that it observes.
func groupWaits(claims []stint.Claim) bool {
	for i := range claims {
		if waitsForReplicas(&claims[i]) {
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
	o.SlowRatio = 0 // the time that replicas take says nothing of the server
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
	o.Excuse = func(took time.Duration) bool {
		excused := s.guard.stalls.excuses(took)
		if !excused {
			sh.slow.add(took)
		}
		return excused
	}
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

// isForgotten reports whether [shards.forget] has removed a server.
func (s *shards) isForgotten(sh *shard) bool { return (*s.named.Load())[sh.name] != sh }

// sorted returns the servers by name, each before its replicas.
func (s *shards) sorted() []*shard {
	named := *s.named.Load()
	all := make([]*shard, 0, 2*len(named))
	for _, name := range slices.Sorted(maps.Keys(named)) {
		all = append(all, named[name], named[name].replicas)
	}
	return all
}

// changed handles a change of state of a breaker, whose lock is held.
func (s *shards) changed(sh *shard, c breaker.Change) {
	if c.From == breaker.Closed && c.To == breaker.Open {
		sh.opened.Add(1)
		why := s.explain(sh, c)
		s.background.run(func(ctx context.Context) { s.superviseRecovery(ctx, sh, why) })
	}
	if s.breaker.OnChange != nil {
		s.breaker.OnChange(c)
	}
	if o := s.guard.options.Observer; o != nil {
		o.Observe(context.Background(), stint.Event{
			Kind: stint.EventBreaker, Name: layer, Shard: sh.name, From: snakeCase(c.From), Result: snakeCase(c.To), Reason: snakeCase(c.Reason),
		})
	}
}

// snakeCase returns the text of a state or a reason in snake case, such as "half_open".
func snakeCase(s fmt.Stringer) string {
	return strings.NewReplacer("-", "_", " ", "_").Replace(s.String())
}
