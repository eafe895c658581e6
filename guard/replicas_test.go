package guard_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
)

// waiting is a claim that waits for replicas of shard a.
func waiting(tb testing.TB) stint.Claim {
	c := claim(tb, "a/replicas", stint.FailOpen)
	c.Limit, c.Policy.Replicas = mustLimit(tb, "1000000/s"), 1
	return c
}

// beside is a claim on the same server that needs no replica.
func beside(tb testing.TB) stint.Claim {
	c := waiting(tb)
	c.Key, c.Policy.Replicas = "a/beside", 0
	return c
}

// onKey has a fault befall one key alone.
func onKey(key string, f fault) fault {
	return func(ctx context.Context, k string) error {
		if k != key {
			return nil
		}
		return f(ctx, k)
	}
}

// onReplicas has a fault befall what waits for replicas alone.
func onReplicas(tb testing.TB, f fault) fault { return onKey(waiting(tb).Key, f) }

// ways are those in which a guard takes a claim alone, in a group, and among others.
var ways = map[string]func(g *guard.Store, c stint.Claim) (stint.Decision, error){
	"alone": func(g *guard.Store, c stint.Claim) (stint.Decision, error) { return g.Take(context.Background(), c) },
	"in a group": func(g *guard.Store, c stint.Claim) (stint.Decision, error) {
		second := c
		second.Key += "/2"
		out := make([]stint.Decision, 2)
		err := g.TakeGroups(context.Background(), []stint.Group{{Claims: []stint.Claim{second, c}}}, out)
		return out[1], err
	},
	"observed by a shadow": func(g *guard.Store, c stint.Claim) (stint.Decision, error) {
		out := make([]stint.Decision, 2)
		err := g.TakeGroups(context.Background(), []stint.Group{{Claims: []stint.Claim{c}, Shadows: [][]stint.Claim{{c}}}}, out)
		return out[0], err
	},
}

// A replica that is 12 ms away makes its calls slow, and none of the others. The
// others are asked of the store all the time.
func TestSlowReplicasLeaveTheStoreToOthers(t *testing.T) {
	for name, take := range ways {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newShardedFaulty()
				store.befall(onReplicas(t, slows(12*time.Millisecond)))
				g := mustNew(t, store, guard.Options{})
				for start := time.Now(); time.Since(start) < 10*time.Second; {
					for _, c := range []stint.Claim{waiting(t), beside(t)} {
						if d, err := take(g, c); err != nil || !d.Allowed || d.Degraded {
							t.Fatalf("after %v: %s: %+v, %v", time.Since(start), c.Key, d, err)
						}
					}
				}
				for _, s := range g.Stats().Shards {
					if s.Opened > 0 {
						t.Errorf("the breaker of %q opened", s.Name)
					}
				}
			})
		})
	}
}

// Replicas that do not answer open a circuit of their own, until the server can be
// probed again. The connections, which others use, stay open.
func TestFrozenReplicasLeaveTheStoreToOthers(t *testing.T) {
	for name, take := range ways {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				var changing sync.Mutex
				var changed []string // guarded by changing
				store := newShardedFaulty()
				g := mustNew(t, store, guard.Options{
					Logger: slog.New(slog.NewTextHandler(&log, nil)),
					Observer: observer(func(e stint.Event) {
						if e.Kind == stint.EventBreaker {
							changing.Lock()
							defer changing.Unlock()
							changed = append(changed, e.Shard+" "+e.Result)
						}
					}),
				})
				store.befall(onReplicas(t, freezes))
				for range 100 {
					if d, err := take(g, waiting(t)); err != nil || !d.Allowed || !d.Degraded {
						t.Fatalf("waiting: %+v, %v", d, err)
					}
					if d, err := take(g, beside(t)); err != nil || !d.Allowed || d.Degraded {
						t.Fatalf("beside: %+v, %v", d, err)
					}
				}
				changing.Lock()
				if !g.Up() || len(changed) == 0 || strings.Contains(strings.Join(changed, ","), "a open") || changed[0] != "a replicas open" {
					t.Errorf("up %v, and changes were %v", g.Up(), changed)
				}
				changing.Unlock()
				shards := g.Stats().Shards
				if len(shards) != 2 || shards[0].Opened != 0 || shards[0].Replicas || shards[1].Opened == 0 || !shards[1].Replicas || shards[1].Refused == 0 {
					t.Errorf("%+v", shards)
				}
				if len(store.events) > 0 {
					t.Errorf("connections were closed: %v", store.events)
				}
				store.heal()
				time.Sleep(time.Second)
				if d, err := take(g, waiting(t)); err != nil || d.Degraded {
					t.Errorf("healed: %+v, %v", d, err)
				}
				if err := g.Close(); err != nil { // nobody writes to the log any more
					t.Fatal(err)
				}
				if !strings.Contains(log.String(), "replicas unavailable") || strings.Contains(log.String(), "store unavailable") {
					t.Errorf("log:\n%s", &log)
				}
			})
		})
	}
}

// Too few replicas are an answer of the store: the policy decides, and the next
// claim is asked again.
func TestTooFewReplicasOpenNoBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShardedFaulty()
		store.befall(onReplicas(t, fails(errReplicas)))
		g := mustNew(t, store, guard.Options{})
		for range 1000 {
			if d, err := g.Take(t.Context(), waiting(t)); err != nil || !d.Degraded {
				t.Fatal(d, err)
			}
		}
		if n := store.calls.Load(); n != 1000 {
			t.Errorf("%d of 1000 claims reached the store", n)
		}
	})
}

// The first charge that is not confirmed is logged at once, and the next ones once a minute
// with their number, until a minute passes without any.
func TestUnconfirmedChargesAreLoggedOnceAMinute(t *testing.T) {
	for _, name := range []string{"alone", "in a group"} {
		take := ways[name]
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log lockedLog
				store := newShardedFaulty()
				store.befall(onReplicas(t, fails(errReplicas)))
				g := mustNew(t, store, guard.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				for _, step := range []struct {
					charges int
					after   time.Duration
					want    string
				}{
					{1, time.Second, " 1"},
					{9, 30 * time.Second, " 1"},
					{3, 30 * time.Second, " 1 12"},
					{0, 3 * time.Minute, " 1 12"},
					{2, time.Second, " 1 12 1"},
					{0, time.Minute, " 1 12 1 1"},
				} {
					for range step.charges {
						if d, err := take(g, waiting(t)); err != nil || !d.Degraded {
							t.Fatal(d, err)
						}
						synctest.Wait()
					}
					time.Sleep(step.after)
					synctest.Wait()
					got := ""
					for line := range strings.Lines(log.String()) {
						_, count, _ := strings.Cut(strings.TrimSpace(line), "count=")
						got += " " + count
					}
					if got != step.want {
						t.Fatalf("after %d more: lines with the counts%s, want%s:\n%s", step.charges, got, step.want, log.String())
					}
				}
			})
		})
	}
}

// lockedLog holds the text of a log that a goroutine of the guard writes.
type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// What waits for replicas is not sent to a server that fails.
func TestServerThatFailsGetsNoCallsThatWaitForReplicas(t *testing.T) {
	for name, take := range ways {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newShardedFaulty()
				g := mustNew(t, store, guard.Options{})
				opened(t, g, store.faulty, freezes, "a/1")
				calls := store.calls.Load()
				c := waiting(t)
				c.Policy.OnFailure = stint.FailClosed
				d, err := take(g, c)
				if err != nil || d.Allowed || !d.Degraded || d.RetryAfter <= 0 || d.RetryAfter > guard.DefaultDeadline {
					t.Errorf("%+v, %v; want a denial until the next probe", d, err)
				}
				if n := store.calls.Load() - calls; n != 0 {
					t.Errorf("%d calls reached the store", n)
				}
				store.heal()
				time.Sleep(time.Second)
				if d, err := take(g, c); err != nil || d.Degraded {
					t.Errorf("healed: %+v, %v", d, err)
				}
			})
		})
	}
}

// A frozen server opens its circuit even if all calls to it wait for replicas.
func TestFrozenServerOpensTheCircuitOfCallsForReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShardedFaulty()
		store.befall(freezes)
		g := mustNew(t, store, guard.Options{})
		for range 1000 {
			if d, err := g.Take(t.Context(), waiting(t)); err != nil || !d.Degraded {
				t.Fatal(d, err)
			}
		}
		if n := store.calls.Load(); n != int64(guard.DefaultBreaker().ConsecutiveFailures) {
			t.Errorf("%d calls reached the store", n)
		}
	})
}

// Peeks and refunds do not wait for replicas, so the main breaker of the server counts them.
func TestClaimsThatChargeNothingShareTheMainBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShardedFaulty()
		store.befall(freezes)
		g := mustNew(t, store, guard.Options{})
		c := waiting(t)
		c.Cost = 0
		for range guard.DefaultBreaker().ConsecutiveFailures {
			_, _ = g.Take(t.Context(), c)
		}
		if g.Up() {
			t.Error("the breaker of the server is closed")
		}
	})
}
