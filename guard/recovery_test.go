package guard_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
)

func TestLeftAloneStoreGetsNoChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		g := mustNew(t, store, guard.Options{})
		opened(t, g, store, freezes, "user:1")
		calls, start := store.calls.Load(), time.Now()
		for range 10_000 {
			if d, err := g.Take(t.Context(), claim(t, "user:1", stint.FailOpen)); err != nil || !d.Allowed || !d.Degraded {
				t.Fatal(d, err)
			}
		}
		if n := store.calls.Load() - calls; n != 0 {
			t.Errorf("%d checks reached the store", n)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("checks waited %v", took)
		}
	})
}

// The calls of one deadline reach a store that freezes, and those of the few
// who ask again before as many have failed as it takes.
func TestFrozenStoreIsLeftAloneAfterOneDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.befall(freezes)
		g := mustNew(t, store, guard.Options{})
		var wg sync.WaitGroup
		start := time.Now()
		for range 256 {
			wg.Go(func() {
				for range 100 {
					_, _ = g.Take(t.Context(), claim(t, "user:1", stint.FailOpen))
				}
			})
		}
		wg.Wait()
		if n := store.calls.Load() - store.peeks.Load(); n < 256 || n >= 256+20 {
			t.Errorf("%d checks were sent, want the first 256 and at most 19 more", n)
		}
		if took := time.Since(start); took > 2*guard.DefaultDeadline {
			t.Errorf("25,600 checks took %v", took)
		}
	})
}

func TestSlowStoreIsLeftAlone(t *testing.T) {
	for _, c := range []struct {
		name string
		slow time.Duration
		open bool
	}{
		{"tenMillisecondsAreSlow", 10 * time.Millisecond, true},
		{"nineAreNot", 9 * time.Millisecond, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				g := mustNew(t, store, guard.Options{})
				for start := time.Now(); time.Since(start) < 3500*time.Millisecond; {
					if g.Stats().Shards[0].Opened > 0 && time.Since(start) < 3*time.Second {
						t.Fatalf("opened after %v", time.Since(start))
					}
					for i := range 50 {
						store.heal()
						if i == 0 { // every fiftieth call
							store.befall(slows(c.slow))
						}
						_, _ = g.Take(t.Context(), claim(t, "user:1", stint.FailOpen))
						time.Sleep(time.Millisecond)
					}
				}
				if s := g.Stats().Shards[0]; (s.Opened > 0) != c.open {
					t.Errorf("got %+v", s)
				}
			})
		})
	}
}

// slowCallsOpen calls a store at a rate for some seconds. Every nth call takes the given
// time. It returns the log and how often the circuit opened.
func slowCallsOpen(t *testing.T, rate, nth int, took time.Duration, seconds int) (log string, opened uint64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		store := newFaulty()
		g := mustNew(t, store, guard.Options{Logger: slog.New(slog.NewTextHandler(&text, nil))})
		for i := range rate * seconds {
			store.heal()
			if i%nth == nth-1 {
				store.befall(slows(took))
			}
			began := time.Now()
			_, _ = g.Take(t.Context(), claim(t, "user:1", stint.FailOpen))
			time.Sleep(time.Second/time.Duration(rate) - time.Since(began))
		}
		synctest.Wait()
		log, opened = text.String(), g.Stats().Shards[0].Opened
	})
	return log, opened
}

// The breaker judges slowness by 1 % of the calls and by 3 slow calls in 3 s, whichever is
// more, from 20 calls in 3 s on.
func TestSlownessIsJudgedAtEveryRate(t *testing.T) {
	for _, c := range []struct {
		name      string
		rate, nth int
		open      bool
	}{
		{"twentyASecondOneInTen", 20, 10, true},
		{"twentyASecondOneInTwenty", 20, 20, true},
		{"twentyASecondOneInFifty", 20, 50, false},
		{"sevenASecondOneInSeven", 7, 7, true},
		{"sixASecondAllSlow", 6, 1, false},
		{"hundredASecondOneInEighty", 100, 80, true},
		{"hundredASecondOneInTwoHundred", 100, 200, false},
		{"fiveHundredASecondOneInNinety", 500, 90, true},
		{"fiveHundredASecondOneInHundredTwenty", 500, 120, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, opened := slowCallsOpen(t, c.rate, c.nth, 31*time.Millisecond, 9); (opened > 0) != c.open {
				t.Errorf("opened %d times", opened)
			}
		})
	}
}

func TestTheLogSaysInNumbersWhyTheCircuitOpened(t *testing.T) {
	log, _ := slowCallsOpen(t, 20, 10, 31*time.Millisecond, 5)
	if want := `why="p99 31 ms over 58 calls, threshold 10 ms"`; !strings.Contains(log, want) {
		t.Errorf("%s\nwant %s", log, want)
	}
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		store := newFaulty()
		g := mustNew(t, store, guard.Options{Logger: slog.New(slog.NewTextHandler(&text, nil))})
		opened(t, g, store, fails(errUnavailable), "user:1")
		synctest.Wait()
		if want := `why="20 failures in a row"`; !strings.Contains(text.String(), want) {
			t.Errorf("%s\nwant %s", &text, want)
		}
	})
}

// Probes come after growing times, each counted from the end of the last.
func TestProbesComeMoreAndMoreSlowly(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault fault
		takes time.Duration // duration of a probe
	}{
		{"refused", fails(errUnavailable), 0},
		{"frozen", freezes, 2 * guard.DefaultDeadline}, // time to connect
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				g := mustNew(t, store, guard.Options{})
				opened(t, g, store, fails(errUnavailable), "user:1")
				start := time.Now()
				var at []time.Duration
				var mu sync.Mutex
				store.befall(func(ctx context.Context, key string) error {
					mu.Lock()
					at = append(at, time.Since(start))
					mu.Unlock()
					return c.fault(ctx, key)
				})
				time.Sleep(2 * time.Second)
				mu.Lock()
				defer mu.Unlock()
				var want time.Duration
				for i, pause := range []int{20, 40, 80, 160, 250, 250} {
					want += time.Duration(pause) * time.Millisecond
					if at[i] != want {
						t.Fatalf("probe %d came after %v, want %v (all: %v)", i, at[i], want, at)
					}
					want += c.takes
				}
			})
		})
	}
}

func TestStoreIsAskedAgainWithinAQuarterOfASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		g := mustNew(t, store, guard.Options{})
		opened(t, g, store, fails(errUnavailable), "user:1")
		time.Sleep(time.Minute)
		store.heal()
		start := time.Now()
		for !g.Up() {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(start); took > 251*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		d, err := g.Take(t.Context(), claim(t, "user:1", stint.FailClosed))
		if err != nil || d.Degraded || !d.Allowed {
			t.Errorf("got %+v, %v", d, err)
		}
	})
}

// A denial says when the next probe is, and that is when the store is back.
func TestClosedClaimsSayWhenTheNextProbeIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		g := mustNew(t, store, guard.Options{})
		opened(t, g, store, fails(errUnavailable), "user:1")
		time.Sleep(35 * time.Millisecond) // a probe was at 20, the next is at 60
		store.heal()
		d, _ := g.Take(t.Context(), claim(t, "user:1", stint.FailClosed))
		if want := 25*time.Millisecond + time.Microsecond; d.Allowed || d.RetryAfter != want {
			t.Fatalf("got %+v, want a retry after %v", d, want)
		}
		time.Sleep(d.RetryAfter)
		if d, err := g.Take(t.Context(), claim(t, "user:1", stint.FailClosed)); err != nil || !d.Allowed || d.Degraded {
			t.Errorf("got %+v, %v", d, err)
		}
	})
}

// When a store for which a thousand callers wait recovers, it gets one probe, and then all
// calls.
func TestARecoveringStoreIsNotOverloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		g := mustNew(t, store, guard.Options{})
		opened(t, g, store, fails(errUnavailable), "user:1")
		store.befall(slows(5 * time.Millisecond))
		sent := store.calls.Load()
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
						_, _ = g.Take(t.Context(), claim(t, "user:1", stint.FailOpen))
					}
				}
			})
		}
		time.Sleep(24*time.Millisecond + time.Microsecond) // the probe is on its way
		if n := store.calls.Load() - sent; n != 1 || store.peeks.Load() != 1 {
			t.Errorf("%d calls reached the store before it was found well, want the probe alone", n)
		}
		time.Sleep(10 * time.Millisecond)
		if n := store.calls.Load() - sent; n < 1000 {
			t.Errorf("%d calls reached the store since, want all", n)
		}
		close(stop)
		wg.Wait()
	})
}

func TestProcessStartsWithoutItsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.befall(freezes)
		g := mustNew(t, store, guard.Options{})
		for range 100 {
			if d, err := g.Take(t.Context(), claim(t, "user:1", stint.FailOpen)); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
		}
		store.heal()
		time.Sleep(time.Second)
		if d, err := g.Take(t.Context(), claim(t, "user:1", stint.FailOpen)); err != nil || d.Degraded || d.Remaining != 9 {
			t.Errorf("got %+v, %v", d, err)
		}
	})
}

func TestConnectionsAreClosedWhileTheStoreIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShardedFaulty()
		g := mustNew(t, store, guard.Options{})
		opened(t, g, store.faulty, on("a", fails(errUnavailable)), "a/1")
		synctest.Wait()
		if !store.isStopped("a") || store.isStopped("b") {
			t.Fatalf("stopped: %v", store.events)
		}
		store.heal()
		time.Sleep(time.Second)
		synctest.Wait()
		if want := []string{"stop a", "start a"}; !slices.Equal(store.events, want) {
			t.Errorf("got %v, want %v", store.events, want)
		}
	})
}

// A probe that takes too long is no recovery.
func TestSlowProbeLeavesTheStoreAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShardedFaulty()
		g := mustNew(t, store, guard.Options{})
		opened(t, g, store.faulty, on("a", fails(errUnavailable)), "a/1")
		store.befall(slows(10 * time.Millisecond))
		time.Sleep(time.Second)
		if g.Up() || !store.isStopped("a") {
			t.Errorf("up %v, stopped %v", g.Up(), store.isStopped("a"))
		}
		store.befall(slows(9 * time.Millisecond))
		time.Sleep(time.Second)
		if !g.Up() || store.isStopped("a") {
			t.Errorf("up %v, stopped %v", g.Up(), store.isStopped("a"))
		}
	})
}

// A server that another has replaced is not probed for ever.
func TestUnusedShardIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShardedFaulty()
		g := mustNew(t, store, guard.Options{})
		opened(t, g, store.faulty, on("a", fails(errUnavailable)), "a/1")
		for range 5 { // the shard is still in use
			time.Sleep(50 * time.Second)
			_, _ = g.Take(t.Context(), claim(t, "a/1", stint.FailOpen))
		}
		if n := len(g.Stats().Shards); n != 1 {
			t.Fatalf("%d shards", n)
		}
		time.Sleep(2 * time.Minute)
		if s := g.Stats(); len(s.Shards) != 0 || !g.Up() {
			t.Errorf("still %+v", s)
		}
	})
}

func TestCloseEndsTheProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		g := mustNew(t, store, guard.Options{})
		opened(t, g, store, freezes, "user:1")
		time.Sleep(30 * time.Millisecond) // one call is in flight
		_ = g.Close()
		peeks := store.peeks.Load()
		time.Sleep(time.Minute)
		if n := store.peeks.Load(); n != peeks {
			t.Errorf("%d more probes", n-peeks)
		}
		if d, err := g.Take(t.Context(), claim(t, "user:1", stint.FailOpen)); err != nil || !d.Degraded {
			t.Errorf("got %+v, %v", d, err)
		}
	})
}

func TestChangesOfStateAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var changes []string
		store := newFaulty()
		g := mustNew(t, store, guard.Options{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Observer: observer(func(e stint.Event) {
				if e.Kind == stint.EventBreaker {
					changes = append(changes, e.From+" → "+e.Result)
				}
			}),
		})
		opened(t, g, store, fails(errUnavailable), "user:1")
		for range 1000 {
			_, _ = g.Take(t.Context(), claim(t, "user:1", stint.FailOpen))
		}
		time.Sleep(30 * time.Millisecond) // a probe has failed
		store.heal()
		time.Sleep(time.Second)
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "no connection") || !strings.Contains(lines[1], "available again") {
			t.Errorf("logged:\n%s", log.String())
		}
		if want := []string{"closed → open", "open → half_open", "half_open → open", "open → half_open", "half_open → closed"}; !slices.Equal(changes, want) {
			t.Errorf("changes %q", changes)
		}
	})
}

// observer is a [stint.Observer] that gets the events. The context of an event that takes
// time must be that of its start.
type observer func(stint.Event)

type startKey struct{}

func (observer) Start(ctx context.Context, e stint.Event) context.Context {
	return context.WithValue(ctx, startKey{}, e.Shard)
}

func (o observer) Observe(ctx context.Context, e stint.Event) {
	if from := ctx.Value(startKey{}); e.Kind == stint.EventStoreCall && from != e.Shard {
		e.Result = fmt.Sprintf("started for %v", from)
	}
	o(e)
}

func TestEveryCallToTheStoreIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.befall(slows(3 * time.Millisecond))
		var observed []stint.Event
		g := mustNew(t, store, guard.Options{Observer: observer(func(e stint.Event) { observed = append(observed, e) })})
		two := []stint.Group{{Claims: []stint.Claim{claim(t, "user:1", stint.FailOpen), claim(t, "user:2", stint.FailOpen)}}}
		_, _ = g.Take(t.Context(), claim(t, "user:1", stint.FailOpen))
		_ = g.TakeGroups(t.Context(), two, make([]stint.Decision, 2))
		want := []stint.Event{
			{Kind: stint.EventStoreCall, Name: "guard", Result: "ok", Took: 3 * time.Millisecond, Claims: 1},
			{Kind: stint.EventStoreCall, Name: "guard", Result: "ok", Took: 6 * time.Millisecond, Claims: 2},
		}
		if !slices.Equal(observed, want) {
			t.Errorf("observed %+v", observed)
		}
	})
}

// Events of a store of several servers name the server; a call to several servers names
// none. A call that a breaker refuses is no event, but is counted.
func TestEventsNameTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShardedFaulty()
		calls, changes := map[string]int{}, map[string]int{}
		g := mustNew(t, store, guard.Options{Observer: observer(func(e stint.Event) {
			if e.Kind == stint.EventBreaker {
				changes[e.Shard+" "+e.Result+" "+e.Reason]++
			} else {
				calls[e.Shard+" "+e.Result]++
			}
		})})
		a, b := claim(t, "a/1", stint.FailOpen), claim(t, "b/1", stint.FailOpen)
		_, _ = g.Take(t.Context(), a)
		_ = g.TakeGroups(t.Context(), []stint.Group{{Claims: []stint.Claim{a}}}, make([]stint.Decision, 1))
		_ = g.TakeGroups(t.Context(), []stint.Group{{Claims: []stint.Claim{a}}, {Claims: []stint.Claim{b}}}, make([]stint.Decision, 2))
		store.befall(fails(errUnavailable))
		for range 100 {
			_, _ = g.Take(t.Context(), b)
		}
		if fmt.Sprint(calls) != "map[ ok:1 a ok:2 b connection:19]" || fmt.Sprint(changes) != "map[b open failure_ratio:1]" {
			t.Errorf("calls %v, changes %v", calls, changes)
		}
		metrics := map[string]float64{}
		for _, m := range g.Metrics() {
			for _, s := range m.Samples {
				metrics[m.Name+" "+s.Label] = s.Value
			}
		}
		for name, want := range map[string]float64{
			"store_breaker_open a": 0, "store_breaker_open b": 1, "store_breaker_opens b": 1, "store_breaker_refused b": 81, "store_degraded open": 100,
		} {
			if metrics[name] != want {
				t.Errorf("%s is %v, want %v", name, metrics[name], want)
			}
		}
	})
}

// A panic of the observer reaches the caller, and the guard stays usable: the breaker has
// the outcomes of all calls.
func TestPanicOfTheObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, calls := newFaulty(), 0
		g := mustNew(t, store, guard.Options{Observer: observer(func(e stint.Event) {
			if calls++; calls <= 19 || e.Result == "open" && e.From == "closed" {
				panic("in the observer")
			}
		})})
		store.befall(fails(errUnavailable))
		panics := 0
		for range 100 {
			func() {
				defer func() {
					if recover() != nil {
						panics++
					}
				}()
				_, _ = g.Take(t.Context(), claim(t, "user:1", stint.FailOpen))
			}()
		}
		if panics != 20 || g.Up() { // those of 19 calls, and of the change of the breaker
			t.Errorf("%d panics, up %v", panics, g.Up())
		}
		store.heal()
		time.Sleep(time.Second)
	})
}
