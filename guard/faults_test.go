package guard_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/storekit"
)

var (
	errUnavailable = &stint.Error{Code: stint.CodeUnavailable, Kind: "connection", Problem: "no connection"}
	errInvalid     = &stint.Error{Code: stint.CodeInvalid, Problem: "wrong"}
	errCorrupt     = &stint.Error{Code: stint.CodeInternal, Kind: "corrupt", Problem: "state cannot be read"}
	errReplicas    = &stint.Error{Code: stint.CodeUnavailable, Kind: "replicas", Problem: "too few replicas"}
)

func mustNew(tb testing.TB, store stint.Store, o guard.Options) *guard.Store {
	tb.Helper()
	s, err := guard.New(store, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func mustLimit(tb testing.TB, text string) stint.Limit {
	tb.Helper()
	l, err := stint.ParseLimit(text)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// fault is what happens to a call for a key before it reaches the store; nil
// lets it through.
type fault func(ctx context.Context, key string) error

// fails answers at once with an error.
func fails(err error) fault { return func(context.Context, string) error { return err } }

// freezes never answers.
func freezes(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ended(ctx)
}

// slows answers after a while.
func slows(d time.Duration) fault {
	return func(ctx context.Context, _ string) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ended(ctx)
		}
	}
}

// on has the fault befall one shard alone.
func on(shard string, f fault) fault {
	return func(ctx context.Context, key string) error {
		if !strings.HasPrefix(key, shard+"/") {
			return nil
		}
		return f(ctx, key)
	}
}

// ended is what a store says when the context of a call has ended.
func ended(ctx context.Context) error {
	e := &stint.Error{Code: stint.CodeTimeout, Kind: "timeout", Problem: "no answer", Err: ctx.Err()}
	if errors.Is(ctx.Err(), context.Canceled) {
		e.Code, e.Kind = stint.CodeCanceled, "canceled"
	}
	return e
}

// faulty is a store that a fault can be put before.
type faulty struct {
	stint.Store

	fault atomic.Pointer[fault] // nil: no fault
	calls atomic.Int64          // that came, whatever became of them; of these
	peeks atomic.Int64          // calls that charge nothing
}

func newFaulty() *faulty { return &faulty{Store: stint.NewMemory(stint.MemoryOptions{})} }

func (s *faulty) befall(f fault) { s.fault.Store(&f) }
func (s *faulty) heal()          { s.fault.Store(nil) }

func (s *faulty) suffer(ctx context.Context, key string) error {
	if f := s.fault.Load(); f != nil {
		return (*f)(ctx, key)
	}
	return nil
}

func (s *faulty) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	s.calls.Add(1)
	if c.Cost == 0 {
		s.peeks.Add(1)
	}
	if err := s.suffer(ctx, c.Key); err != nil {
		return stint.Decision{}, err
	}
	return s.Store.Take(ctx, c)
}

// TakeGroups loses the parts of groups of which a key suffers.
func (s *faulty) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	s.calls.Add(1)
	at, failed := 0, storekit.Errors{}
	for _, g := range groups {
		kept, places, from := stint.Group{Dry: g.Dry, Once: g.Once}, []int{0}, at
		for part := range g.Parts() {
			var err error
			for _, c := range g.Part(part) {
				err = errors.Join(err, s.suffer(ctx, c.Key))
			}
			failed.Set(from+part, groups, err)
			switch {
			case part == 0 && err != nil:
				kept.Dry = true
			case part == 0:
				kept.Claims = g.Claims
			case err == nil:
				kept.Shadows, places = append(kept.Shadows, g.Part(part)), append(places, part)
			}
		}
		claims, _ := stint.Sizes([]stint.Group{kept})
		decisions := make([]stint.Decision, claims)
		errs, whole := storekit.PartErrors(s.Store.TakeGroups(ctx, []stint.Group{kept}, decisions), kept.Parts())
		if whole != nil {
			return whole
		}
		for part := range g.Parts() {
			if i := slices.Index(places, part); i >= 0 {
				decisions = decisions[copy(out, decisions[:len(kept.Part(i))]):]
				if errs != nil {
					failed.Set(at, groups, errs[i])
				}
			}
			out, at = out[len(g.Part(part)):], at+1
		}
	}
	return failed.Err()
}

// shardedFaulty is a faulty store of several shards: what stands before the slash in
// a key names its own.
type shardedFaulty struct {
	*faulty

	mu      sync.Mutex
	probes  map[string]int
	stopped map[string]bool
	events  []string // "stop a", "start a"
}

func newShardedFaulty() *shardedFaulty {
	return &shardedFaulty{faulty: newFaulty(), probes: map[string]int{}, stopped: map[string]bool{}}
}

func (s *shardedFaulty) Shards() storekit.Shards { return s }

func (s *shardedFaulty) Of(c *stint.Claim) string {
	shard, _, _ := strings.Cut(c.Key, "/")
	return shard
}

func (s *shardedFaulty) Probe(ctx context.Context, shard string) error {
	s.mu.Lock()
	s.probes[shard]++
	s.mu.Unlock()
	return s.suffer(ctx, shard+"/")
}

func (s *shardedFaulty) Stop(shard string)  { s.note("stop "+shard, shard, true) }
func (s *shardedFaulty) Start(shard string) { s.note("start "+shard, shard, false) }

func (s *shardedFaulty) note(event, shard string, stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, event)
	s.stopped[shard] = stopped
}

// Take fails where the shard is stopped, as a store without connections does.
func (s *shardedFaulty) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	if s.isStopped(s.Of(&c)) {
		return stint.Decision{}, errUnavailable
	}
	return s.faulty.Take(ctx, c)
}

func (s *shardedFaulty) isStopped(shard string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped[shard]
}

// opened makes the breaker of every shard that the keys are of open, by
// failures that answer at once, and leaves the fault in place.
func opened(tb testing.TB, g *guard.Store, s *faulty, f fault, keys ...string) {
	tb.Helper()
	s.befall(f)
	for _, key := range keys {
		for range guard.DefaultBreaker().ConsecutiveFailures {
			_, _ = g.Take(tb.Context(), stint.Claim{Key: key, Limit: mustLimit(tb, "1/s"), Cost: 1})
		}
	}
	if g.Up() {
		tb.Fatalf("the guard did not open: %+v", g.Stats())
	}
}
