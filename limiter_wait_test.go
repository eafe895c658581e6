package stint_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
)

// queue starts waiters one after the other and records when each was served.
type queue struct {
	t       *testing.T
	limiter *stint.Limiter
	start   time.Time
	wg      sync.WaitGroup

	mu     sync.Mutex
	served []string
}

func newQueue(t *testing.T, specs ...stint.Spec) *queue {
	t.Helper()
	return &queue{t: t, limiter: newLimiter(t, specs...), start: time.Now()}
}

// wait starts one more waiter at the end of the queue.
func (q *queue) wait(ctx context.Context, name string, n int64) {
	q.wg.Go(func() {
		err := q.limiter.WaitN(ctx, "k", n)
		if err != nil {
			name += " failed"
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		q.served = append(q.served, fmt.Sprintf("%s %v", name, time.Since(q.start)))
	})
	synctest.Wait()
}

func (q *queue) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(q.t.Context(), d)
	q.t.Cleanup(cancel)
	return ctx
}

func (q *queue) want(served ...string) {
	q.t.Helper()
	q.wg.Wait()
	if !slices.Equal(q.served, served) {
		q.t.Errorf("served %q; want %q", q.served, served)
	}
}

func (q *queue) take(n int64) {
	q.t.Helper()
	if d, err := q.limiter.AllowN(q.t.Context(), "k", n); err != nil || !d.Allowed {
		q.t.Fatal(d, err)
	}
}

var oneQueueOf = map[string][]stint.Spec{
	"bucket":         {stint.PerSecond(10)},
	"gcra":           {{Algorithm: stint.GCRA, Limit: 10, Window: time.Second}},
	"sliding log":    {{Algorithm: stint.SlidingWindowLog, Limit: 10, Window: time.Second}},
	"fixed window":   {{Algorithm: stint.FixedWindow, Limit: 10, Window: time.Second}},
	"several limits": {stint.PerSecond(10), stint.PerHour(1000)},
}

func TestWaitersAreServedInTheOrderInWhichTheyCame(t *testing.T) {
	for name, specs := range oneQueueOf {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t, specs...)
				q.take(10)
				var order []string
				for i, n := range []int64{3, 10, 1, 7, 1, 1, 10, 2} {
					name := fmt.Sprintf("%d of %d:", i, n)
					order = append(order, name)
					q.wait(t.Context(), name, n)
				}
				q.wg.Wait()
				served := map[string]time.Duration{}
				for _, s := range q.served {
					at := s[strings.LastIndexByte(s, ' ')+1:]
					name := strings.TrimSuffix(s, " "+at)
					served[name], _ = time.ParseDuration(at)
				}
				for i, name := range order[1:] {
					if served[name] < served[order[i]] || served[name] == 0 {
						t.Errorf("served %v; want them in the order %q", q.served, order)
						break
					}
				}
			})
		})
	}
}

// A great cost among loops of small ones is served when the bucket has refilled
// as much as it and the waiters before it need.
func TestBigCostIsNotStarved(t *testing.T) {
	for _, deadline := range []time.Duration{0, 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, stint.PerSecond(10))
			q.take(10)
			stop, cancel := context.WithCancel(t.Context())
			for range 5 {
				q.wg.Go(func() {
					for q.limiter.Wait(stop, "k") == nil { //nolint:revive // takes every unit that it is granted
					}
				})
			}
			synctest.Wait()
			ctx := t.Context()
			if deadline > 0 {
				ctx = q.within(deadline)
			}
			if err := q.limiter.WaitN(ctx, "k", 10); err != nil {
				t.Error(err)
			}
			if waited := time.Since(q.start); waited != 1500*time.Millisecond {
				t.Errorf("10 behind five of 1 had its turn after %v; want 1.5s", waited)
			}
			cancel()
			q.wg.Wait()
		})
	}
}

// Later waiters do not get units that have refilled for an earlier one, even if
// the units would be enough for them.
func TestBigCostIsNotOvertaken(t *testing.T) {
	for name, specs := range oneQueueOf {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t, specs...)
				q.take(5)
				q.wait(t.Context(), "big", 10)
				time.Sleep(100 * time.Millisecond)
				q.wait(t.Context(), "small", 1)
				q.wg.Wait()
				if !strings.HasPrefix(q.served[0], "big") || strings.HasSuffix(q.served[1], "small 100ms") {
					t.Errorf("served %q; want the big one first", q.served)
				}
			})
		})
	}
}

// Under a single bucket, the costs ahead give the length of the wait.
func TestWaitBehindOthersFailsAtOnceWhenItWouldBeTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, stint.PerSecond(10))
		q.take(10)
		q.wait(t.Context(), "first", 5)                      // served after 500 ms
		q.wait(q.within(700*time.Millisecond), "second", 2)  // served after 700 ms
		q.wait(q.within(799*time.Millisecond), "late", 1)    // would be served after 800 ms
		q.wait(q.within(800*time.Millisecond), "third", 1)   // 800 ms, for the late one is not in the queue
		q.wait(q.within(time.Hour), "never", 11)             // more than the limit
		q.wait(q.within(400*time.Millisecond), "another", 1) // ends before the first is served
		if d, _ := q.limiter.Peek(t.Context(), "k"); d.Remaining != 0 || time.Since(q.start) != 0 {
			t.Errorf("%+v after %v", d, time.Since(q.start))
		}
		q.want("late failed 0s", "never failed 0s", "another failed 0s", "first 500ms", "second 700ms", "third 800ms")
	})
}

// Under other limits, the denial of the first waiter gives the length of the
// wait.
func TestWaitEndsNotBeforeTheFirstInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: 2, Window: time.Minute})
		q.take(2)
		q.wait(t.Context(), "first", 1)
		q.wait(q.within(59*time.Second), "late", 1)
		q.wait(q.within(61*time.Second), "second", 1)
		q.want("late failed 0s", "first 1m0s", "second 1m0s")
	})
}

func TestWaiterThatLeavesMakesWayAtOnce(t *testing.T) {
	for name, specs := range oneQueueOf {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t, specs...)
				q.take(7)
				first, leave := context.WithCancel(t.Context())
				q.wait(first, "big", 10)
				second, leaveToo := context.WithCancel(t.Context())
				q.wait(second, "gone", 1)
				q.wait(t.Context(), "small", 1)
				q.wait(t.Context(), "next", 2)
				leaveToo()
				synctest.Wait()
				leave()
				q.wg.Wait()
				want := []string{"gone failed 0s", "big failed 0s", "small 0s", "next 0s"}
				slices.Sort(q.served[1:]) // they leave the queue at once, and note it in any order
				slices.Sort(want[1:])
				q.want(want...)
			})
		})
	}
}

// Allow bypasses the queue. The waiters that it makes too late fail as soon as
// that is known, not at their deadline.
func TestAllowOvertakesAndWaitersLearnOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, stint.PerSecond(10))
		q.take(10)
		q.wait(t.Context(), "first", 2)                     // served after 200 ms
		q.wait(q.within(300*time.Millisecond), "second", 1) // served after 300 ms
		q.wait(q.within(time.Second), "third", 1)           // served after 400 ms
		time.Sleep(150 * time.Millisecond)
		q.take(1)
		q.want("second failed 200ms", "first 300ms", "third 400ms")
	})
}

// A waiter stands in the queue until it has a place in the leaky bucket, not
// until the end of its delay.
func TestLeakyBucketServesDelaysBesideEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, stint.Spec{Algorithm: stint.LeakyBucket, Limit: 10, Window: time.Second, Queue: 3})
		for i := range 8 {
			q.wait(t.Context(), fmt.Sprint(i), 1)
		}
		q.want("0 0s", "1 100ms", "2 200ms", "3 300ms", "4 400ms", "5 500ms", "6 600ms", "7 700ms")
	})
}

func TestLeakyBucketGivesNoPlaceThatIsTooLate(t *testing.T) {
	leaky := stint.Spec{Algorithm: stint.LeakyBucket, Limit: 10, Window: time.Second, Queue: 3}
	for name, specs := range map[string][]stint.Spec{"alone": {leaky}, "with another": {leaky, stint.PerHour(1000)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t, specs...)
				q.take(3)
				q.wait(q.within(299*time.Millisecond), "late", 1) // the deadline ends before the delay does
				q.wait(q.within(300*time.Millisecond), "in time", 1)
				q.wait(q.within(399*time.Millisecond), "late too", 1) // for lack of room, and for the delay after that
				q.wait(q.within(400*time.Millisecond), "next", 1)
				q.want("late failed 0s", "late too failed 0s", "in time 300ms", "next 400ms")
			})
		})
	}
}

// The costs ahead count under a leaky bucket too.
func TestLeakyBucketCountsTheCostsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, stint.Spec{Algorithm: stint.LeakyBucket, Limit: 10, Window: time.Second, Queue: 2})
		q.take(3)
		q.wait(t.Context(), "first", 3) // room when the level is 0
		q.wait(t.Context(), "second", 1)
		q.wait(q.within(699*time.Millisecond), "late", 1) // 300 ms, and 4 units ahead
		q.wait(q.within(700*time.Millisecond), "third", 1)
		q.want("late failed 0s", "first 300ms", "second 600ms", "third 700ms")
	})
}

// A hundred workers request more than the limit allows, with deadlines. Allowed
// requests are served in time, and denials come at once.
func TestWaitUnderLoadWastesNothing(t *testing.T) {
	const limit, lasts, patience = 200, time.Second, 250 * time.Millisecond
	for name, spec := range map[string]stint.Spec{
		"bucket":           {Limit: limit, Window: time.Second, Capacity: 1},
		"leaky bucket":     {Algorithm: stint.LeakyBucket, Limit: limit, Window: time.Second, Queue: 1000},
		"short queue":      {Algorithm: stint.LeakyBucket, Limit: limit, Window: time.Second, Queue: 10},
		"nothing may wait": {Algorithm: stint.LeakyBucket, Limit: limit, Window: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter, start := newLimiter(t, spec), time.Now()
				var served, late atomic.Int64
				var wg sync.WaitGroup
				for range 100 {
					wg.Go(func() {
						for time.Since(start) < lasts {
							asked := time.Now()
							ctx, cancel := context.WithTimeout(t.Context(), patience)
							err := limiter.Wait(ctx, "k")
							cancel()
							switch waited := time.Since(asked); {
							case err == nil && time.Since(start) <= lasts:
								served.Add(1)
							case err != nil && waited > 0:
								late.Add(1)
							}
							time.Sleep(time.Millisecond)
						}
					})
				}
				wg.Wait()
				if n := served.Load(); n < limit || n > limit+1 || late.Load() > 0 {
					t.Errorf("%d were served and %d failed late; want %d and 0", n, late.Load(), limit)
				}
			})
		})
	}
}

// slow is a store with latency.
type slow struct {
	stint.Store

	away  time.Duration
	calls atomic.Int64
}

func (s *slow) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	s.calls.Add(1)
	time.Sleep(s.away / 2)
	defer time.Sleep(s.away / 2)
	return s.Store.Take(ctx, c)
}

func (s *slow) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	s.calls.Add(1)
	time.Sleep(s.away / 2)
	defer time.Sleep(s.away / 2)
	return s.Store.TakeGroups(ctx, groups, out)
}

// When much has refilled, the queue sends many requests at once to a store with
// latency.
func TestQueueDoesNotSlowDownToTheRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{Store: stint.NewMemory(stint.MemoryOptions{}), away: 10 * time.Millisecond}
		limiter, start := limiterOver(t, store, mustLimit(t, stint.PerSecond(2000))), time.Now()
		var wg sync.WaitGroup
		for i := range 4000 {
			wg.Go(func() {
				if i == 0 {
					_ = limiter.WaitN(t.Context(), "k", 2000)
					return
				}
				if err := limiter.Wait(t.Context(), "k"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if waited := time.Since(start); waited < 1900*time.Millisecond || waited > 2200*time.Millisecond {
			t.Errorf("5999 of 2000 a second, burst 2000, took %v; want 2s", waited)
		}
	})
}

// The latency of the store does not add to a delay: waiters reach the places
// that they get in time.
func TestDistantStoreHandsOutNoPlaceThatIsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{Store: stint.NewMemory(stint.MemoryOptions{}), away: 20 * time.Millisecond}
		limiter := limiterOver(t, store, mustLimit(t, stint.Spec{Algorithm: stint.LeakyBucket, Limit: 1000, Window: time.Second, Queue: 1000}))
		start := time.Now()
		var served, asked atomic.Int64
		var wg sync.WaitGroup
		for range 300 {
			wg.Go(func() {
				for time.Since(start) < 2*time.Second {
					ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
					if asked.Add(1); limiter.Wait(ctx, "k") == nil {
						served.Add(1)
					}
					cancel()
				}
			})
		}
		wg.Wait()
		if n := served.Load(); n < 1900 {
			t.Errorf("%d of 2000 were served, of %d that asked", n, asked.Load())
		}
	})
}

func TestWaitWithinTellsOfTheDenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, spec := range map[string]stint.Spec{
			"bucket": {Limit: 10, Window: time.Second, Capacity: 1},
			"leaky":  {Algorithm: stint.LeakyBucket, Limit: 10, Window: time.Second, Queue: 5},
		} {
			limiter, start := newLimiter(t, spec), time.Now()
			for _, c := range []struct {
				within  time.Duration
				allowed bool
				retry   time.Duration
				at      time.Duration
			}{
				{0, true, 0, 0},
				{0, false, 100 * time.Millisecond, 0},
				{-1, false, 100 * time.Millisecond, 0},
				{99 * time.Millisecond, false, 100 * time.Millisecond, 0},
				{100 * time.Millisecond, true, 0, 100 * time.Millisecond},
			} {
				d, err := limiter.WaitWithin(t.Context(), "k", 1, c.within)
				if err != nil || d.Allowed != c.allowed || d.RetryAfter != c.retry || time.Since(start) != c.at || d.Limit == 0 {
					t.Errorf("%s within %v: %+v, %v after %v; want %+v", name, c.within, d, err, time.Since(start), c)
				}
			}
			if d, err := limiter.WaitWithin(t.Context(), "k", 7, time.Hour); err != nil || d.RetryAfter != stint.Never {
				t.Errorf("%s: 7 at once: %+v, %v; want never", name, d, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			if d, err := limiter.WaitWithin(ctx, "k", 1, time.Hour); codeOf(err) != stint.CodeTimeout || d.Allowed {
				t.Errorf("%s under a deadline: %+v, %v; want a timeout", name, d, err)
			}
			if d, err := limiter.WaitWithin(ctx, "k", 7, math.MaxInt64); err != nil || d.RetryAfter != stint.Never {
				t.Errorf("%s: 7 at once under a deadline: %+v, %v; want never", name, d, err)
			}
			cancel()
			if _, err := limiter.WaitWithin(ctx, "k", 1, time.Hour); codeOf(err) != stint.CodeCanceled {
				t.Errorf("%s after the deadline: %v", name, err)
			}
		}
	})
}

// An error of the store ends the wait.
func TestQueueEndsWithErrorsOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &flaky{Store: stint.NewMemory(stint.MemoryOptions{})}
		q := &queue{t: t, limiter: limiterOver(t, store, mustLimit(t, stint.PerSecond(1))), start: time.Now()}
		q.take(1)
		for i := range 3 {
			q.wait(t.Context(), fmt.Sprint(i), 1)
		}
		store.fails.Store(true)
		q.want("0 failed 1s", "1 failed 1s", "2 failed 1s")
		store.fails.Store(false)
		if err := q.limiter.Wait(t.Context(), "k"); err != nil {
			t.Error(err)
		}
	})
}

// Waiters that get places at the same moment get them in the order in which they
// came: the first has the least delay.
func TestLeakyBucketGivesPlacesInOrder(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, stint.Spec{Algorithm: stint.LeakyBucket, Limit: 10, Window: time.Second, Queue: 9})
			q.take(4)
			big, leave := context.WithCancel(t.Context())
			q.wait(big, "big", 10)
			for i := range 5 {
				q.wait(t.Context(), fmt.Sprint(i), 1)
			}
			leave()
			q.want("big failed 0s", "0 400ms", "1 500ms", "2 600ms", "3 700ms", "4 800ms")
		})
	}
}

// stalling is a store that takes a minute for each call while it is stalled.
type stalling struct {
	stint.Store

	stalled atomic.Bool
}

func (s *stalling) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	if s.stalled.Load() {
		time.Sleep(time.Minute)
	}
	return s.Store.Take(ctx, c)
}

// A slow call of one waiter does not hold up the waiters behind it beyond their
// greatest wait.
func TestWaitWithinEndsWhileAnotherAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &stalling{Store: stint.NewMemory(stint.MemoryOptions{})}
		limiter := limiterOver(t, store, mustLimit(t, stint.PerSecond(1)))
		if d, err := limiter.Allow(t.Context(), "k"); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := limiter.Wait(t.Context(), "k"); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		store.stalled.Store(true)
		start := time.Now()
		d, err := limiter.WaitWithin(t.Context(), "k", 1, 3*time.Second)
		if err != nil || d.Allowed || d.RetryAfter == 0 || time.Since(start) != 3*time.Second {
			t.Errorf("%+v, %v after %v; want a denial after 3s", d, err, time.Since(start))
		}
		wg.Wait()
	})
}

// panicky panics in one of its calls.
type panicky struct {
	stint.Store

	calls atomic.Int32
	at    int32 // the number of the call, from 1
}

func (p *panicky) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	if p.calls.Add(1) == p.at {
		panic("a store that panics")
	}
	return p.Store.Take(ctx, c)
}

func TestWaitersBehindAPanicAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &panicky{Store: stint.NewMemory(stint.MemoryOptions{}), at: 3}
		limiter, err := stint.NewLimiter(store, "l", stint.MustParseLimit("1/s"))
		if err != nil {
			t.Fatal(err)
		}
		if err := limiter.Wait(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		go func() {
			defer func() { _ = recover() }()
			_ = limiter.Wait(t.Context(), "k") // denied, and panics at the next attempt
			t.Error("the store has not panicked")
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := limiter.Wait(ctx, "k"); err != nil {
			t.Error(err)
		}
	})
}
