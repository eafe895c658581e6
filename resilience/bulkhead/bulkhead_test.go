package bulkhead

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func mustNew(tb testing.TB, o Options) *Bulkhead {
	tb.Helper()
	b, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func mustAcquire(tb testing.TB, b *Bulkhead) *Slot {
	tb.Helper()
	s, err := b.Acquire(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestFullIsRefusedAtOnce(t *testing.T) {
	b := mustNew(t, Options{Limit: 2})
	first, second := mustAcquire(t, b), mustAcquire(t, b)
	_, err := b.Acquire(t.Context())
	var refused *RefusedError
	if !errors.Is(err, ErrFull) || !errors.As(err, &refused) || refused.Limit != 2 {
		t.Errorf("got %v", err)
	}
	if _, ok := b.TryAcquire(); ok {
		t.Error("a third place of two")
	}
	first.Release()
	first.Release() // frees nothing more
	third := mustAcquire(t, b)
	if _, ok := b.TryAcquire(); ok {
		t.Error("one release freed two places")
	}
	second.Release()
	third.Release()
	if u, want := b.Usage(), (Usage{Limit: 2, MaxInUse: 2, Admitted: 3, Full: 3}); u != want {
		t.Errorf("got %+v, want %+v", u, want)
	}
}

func TestWaitersAreServedInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, Options{Limit: 1, Queue: 10})
		held := mustAcquire(t, b)
		var served []int // written only by the holder of the one place
		for i := range 10 {
			go func() {
				s := mustAcquire(t, b)
				served = append(served, i)
				s.Release()
			}()
			synctest.Wait()
		}
		if _, err := b.Acquire(t.Context()); !errors.Is(err, ErrFull) {
			t.Errorf("an eleventh waiter: %v", err)
		}
		if _, ok := b.TryAcquire(); ok {
			t.Error("TryAcquire passed the queue")
		}
		held.Release()
		synctest.Wait()
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(served, want) {
			t.Errorf("served %v", served)
		}
		if u := b.Usage(); u.InUse != 0 || u.Waiting != 0 || u.MaxWaiting != 10 || u.Admitted != 11 {
			t.Errorf("%+v", u)
		}
	})
}

// A caller that gives up leaves the others in their order, wherever in the queue it was.
func TestGivingUpKeepsTheOrder(t *testing.T) {
	for leaves := range 3 {
		synctest.Test(t, func(t *testing.T) {
			b := mustNew(t, Options{Limit: 1, Queue: 3})
			held := mustAcquire(t, b)
			var served []int // written only by the holder of the one place
			for i := range 3 {
				ctx, cancel := context.WithCancel(t.Context())
				if i == leaves {
					time.AfterFunc(time.Second, cancel)
				}
				go func() {
					defer cancel()
					_ = b.Do(ctx, func(context.Context) error { served = append(served, i); return nil })
				}()
				synctest.Wait()
			}
			time.Sleep(2 * time.Second)
			if u := b.Usage(); u.Waiting != 2 || u.GaveUp != 1 {
				t.Errorf("%+v", u)
			}
			held.Release()
			synctest.Wait()
			want := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == leaves })
			if !slices.Equal(served, want) || b.Usage().InUse != 0 {
				t.Errorf("served %v when %d left", served, leaves)
			}
		})
	}
}

func TestWaitsEnd(t *testing.T) {
	for _, c := range []struct {
		name    string
		maxWait time.Duration
		context time.Duration
		want    error
		after   time.Duration
	}{
		{"byMaxWait", time.Second, time.Minute, ErrWaited, time.Second},
		{"byTheContext", time.Minute, time.Second, context.DeadlineExceeded, time.Second},
		{"byTheContextAlone", 0, time.Hour, context.DeadlineExceeded, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mustNew(t, Options{Limit: 1, Queue: 1, MaxWait: c.maxWait})
				held := mustAcquire(t, b)
				ctx, cancel := context.WithTimeout(t.Context(), c.context)
				defer cancel()
				start := time.Now()
				_, err := b.Acquire(ctx)
				if took := time.Since(start); !errors.Is(err, c.want) || took != c.after {
					t.Errorf("%v after %v, want %v after %v", err, took, c.want, c.after)
				}
				held.Release()
				mustAcquire(t, b).Release()
				if u := b.Usage(); u.InUse != 0 || u.Waiting != 0 || u.Waited+u.GaveUp != 1 {
					t.Errorf("%+v", u)
				}
			})
		})
	}
}

func TestEndedContextTakesNoPlace(t *testing.T) {
	b := mustNew(t, Options{Limit: 1})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Acquire(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if u := b.Usage(); u.InUse != 0 || u.GaveUp != 1 {
		t.Errorf("%+v", u)
	}
}

// A place that is granted to a caller at the moment when it gives up goes to the next
// caller.
func TestGrantedTooLateGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, Options{Limit: 1, Queue: 2})
		held := mustAcquire(t, b)
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error)
		go func() {
			_, err := b.Acquire(ctx)
			got <- err
		}()
		synctest.Wait()
		next := make(chan *Slot)
		go func() { next <- mustAcquire(t, b) }()
		synctest.Wait()
		cancel()
		held.Release() // the caller that gave up has already left the queue, or is still in it: both are correct
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		(<-next).Release()
		if u := b.Usage(); u.InUse != 0 || u.Waiting != 0 {
			t.Errorf("%+v", u)
		}
	})
}

// ending is a context that reports its end only later to those that wait for it.
type ending struct {
	context.Context //nolint:containedctx // endedContext is itself a context

	ended atomic.Bool
}

func (e *ending) Err() error {
	if e.ended.Load() {
		return context.Canceled
	}
	return nil
}

// A caller that is granted a place and then finds its context ended releases the place.
func TestGrantedAndThenEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, Options{Limit: 1, Queue: 1})
		held := mustAcquire(t, b)
		ctx := &ending{Context: t.Context()}
		got := make(chan error)
		go func() {
			_, err := b.Acquire(ctx)
			got <- err
		}()
		synctest.Wait()
		ctx.ended.Store(true)
		held.Release()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if u := b.Usage(); u.InUse != 0 || u.GaveUp != 1 || u.Admitted != 1 {
			t.Errorf("%+v", u)
		}
	})
}

// A caller whose MaxWait ends, that is granted a place in the same moment and then finds
// its context ended, releases the place.
func TestGrantedWhenAllEnds(t *testing.T) {
	for range 50 { // select chooses at random among the channels that are ready
		synctest.Test(t, func(t *testing.T) {
			b := mustNew(t, Options{Limit: 1, Queue: 1, MaxWait: time.Second})
			mustAcquire(t, b)
			ctx := &ending{Context: t.Context()}
			got := make(chan error)
			go func() {
				_, err := b.Acquire(ctx)
				got <- err
			}()
			synctest.Wait()
			b.mu.Lock() // keeps every waiter in the queue
			time.Sleep(time.Second)
			ctx.ended.Store(true)
			close(b.queue.Remove(b.queue.Front()).(chan struct{}))
			b.mu.Unlock()
			if err := <-got; !errors.Is(err, context.Canceled) || b.Usage().InUse != 0 {
				t.Fatalf("%v, and then %+v", err, b.Usage())
			}
		})
	}
}

// A goroutine that ends within its call does not lose its place.
func TestGoexitLosesNoPlace(t *testing.T) {
	b := mustNew(t, Options{Limit: 1})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = b.Do(t.Context(), func(context.Context) error { runtime.Goexit(); return nil })
	}()
	<-ended
	mustAcquire(t, b).Release()
}

func TestPanicLosesNoPlace(t *testing.T) {
	b := mustNew(t, Options{Limit: 1})
	for range 3 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_ = b.Do(t.Context(), func(context.Context) error { panic("a mistake of the caller") })
		}()
	}
	mine := errors.New("mine")
	if err := b.Do(t.Context(), func(context.Context) error { return mine }); !errors.Is(err, mine) {
		t.Error(err)
	}
	held := mustAcquire(t, b)
	defer held.Release()
	if err := b.Do(t.Context(), func(context.Context) error { t.Error("called"); return nil }); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
}

// Whatever callers do, at most Limit of them hold a place, and no place is lost.
func TestNoPlaceIsLostUnderStress(t *testing.T) {
	const limit = 3
	b := mustNew(t, Options{Limit: limit, Queue: 8, MaxWait: 50 * time.Microsecond})
	var inside, most atomic.Int64
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for range 300 {
				stress(b, random, &inside, &most)
			}
		})
	}
	wg.Wait()
	u := b.Usage()
	if most.Load() > limit || u.MaxInUse > limit || u.InUse != 0 || u.Waiting != 0 {
		t.Errorf("%d were inside at once, %+v", most.Load(), u)
	}
	if n := u.Admitted + u.Full + u.Waited + u.GaveUp; n != 32*300 {
		t.Errorf("%d calls were counted once, want %d: %+v", n, 32*300, u)
	}
}

func stress(b *Bulkhead, random *rand.Rand, inside, most *atomic.Int64) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(100))*time.Microsecond)
	defer cancel()
	defer func() { _ = recover() }()
	_ = b.Do(ctx, func(ctx context.Context) error {
		defer inside.Add(-1)
		raise(most, inside.Add(1))
		if random.IntN(4) == 0 {
			<-ctx.Done()
		}
		if random.IntN(8) == 0 {
			panic("a mistake of the caller")
		}
		return nil
	})
}

// raise sets the maximum of itself and n.
func raise(most *atomic.Int64, n int64) {
	for {
		m := most.Load()
		if n <= m || most.CompareAndSwap(m, n) {
			return
		}
	}
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"Limit: is 0":    {},
		"Queue: is -1":   {Limit: 1, Queue: -1},
		"MaxWait: is -1": {Limit: 1, MaxWait: -1},
	} {
		if b, err := New(o); err == nil || b != nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want an error that says so", name, err)
		}
		if s, err := NewSet(SetOptions{Each: o}); err == nil || s != nil {
			t.Errorf("a set accepted options that a bulkhead refuses: %s", name)
		}
	}
	if _, err := NewSet(SetOptions{Each: Options{Limit: 1}, MaxNames: -1}); err == nil {
		t.Error("MaxNames below 0")
	}
}
