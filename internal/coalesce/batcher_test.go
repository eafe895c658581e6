package coalesce

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// request is a pending call of a test.
type request struct {
	Call[request]

	name   string
	size   int
	answer int
}

const (
	full      = 64 // the sum of sizes that fits into one batch
	splitFrom = 16
)

// server answers a batch when the test says so.
type server struct {
	mu      sync.Mutex
	batches [][]string    // names of the requests of each batch
	answers chan struct{} // one value answers one batch
}

// batch is a Batch to a server.
type batch struct {
	server *server
	size   int
}

func (b *batch) Fits(r *request) bool {
	if b.size > 0 && b.size+r.size > full {
		return false
	}
	b.size += r.size
	return true
}

func (b *batch) Run(_ context.Context, calls []*Call[request]) {
	var names []string
	for _, c := range calls {
		if c.Owner.name == "panics" {
			panic("a bug")
		}
		names = append(names, c.Owner.name)
	}
	b.server.mu.Lock()
	b.server.batches = append(b.server.batches, names)
	b.server.mu.Unlock()
	<-b.server.answers
	for _, c := range calls {
		c.Owner.answer++
	}
}

func (b *batch) Reset() { b.size = 0 }

// fixture is a batcher and its server.
type fixture struct {
	*Batcher[request, *batch]
	*server

	t *testing.T
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureOf(t, Options{Full: full, SplitFrom: splitFrom})
}

func newFixtureOf(t *testing.T, o Options) *fixture {
	t.Helper()
	s := &server{answers: make(chan struct{})}
	return &fixture{New(o, func() *batch { return &batch{server: s} }), s, t}
}

// send sends a request of size 1 in a goroutine of the batcher, and returns its outcome
// later. When send returns, the request is sent or queued.
func (f *fixture) send(ctx context.Context, name string) chan Outcome {
	r := &request{name: name, size: 1}
	return f.sendRequest(ctx, r)
}

func (f *fixture) sendRequest(ctx context.Context, r *request) chan Outcome {
	if r.Owner == nil {
		r.Init(r)
	}
	outcome := make(chan Outcome, 1)
	f.Send(ctx, &r.Call, false)
	go func() { outcome <- r.Wait(ctx) }()
	synctest.Wait()
	return outcome
}

// occupy fills all places in flight.
func (f *fixture) occupy() {
	for i := range MaxInFlight {
		f.send(f.t.Context(), fmt.Sprint("first", i))
	}
}

// wantSizes checks the number of requests of each batch so far.
func (f *fixture) wantSizes(want ...int) {
	f.t.Helper()
	synctest.Wait()
	var got []int
	for _, names := range f.batches {
		got = append(got, len(names))
	}
	if !slices.Equal(got, want) {
		f.t.Fatalf("batches of %v requests, want %v", got, want)
	}
}

// answerAll answers the batches in flight and those that follow, until the queue is empty.
func (f *fixture) answerAll() {
	for f.InFlight() > 0 {
		f.answers <- struct{}{}
		synctest.Wait()
	}
}

func (f *fixture) want(want Outcome, outcomes ...chan Outcome) {
	f.t.Helper()
	for _, outcome := range outcomes {
		if got := <-outcome; got != want {
			f.t.Errorf("outcome %d, want %d", got, want)
		}
	}
}

func TestLoneCallIsSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		outcome := f.send(t.Context(), "a")
		f.wantSizes(1)
		f.answerAll()
		f.want(Answered, outcome)
	})
}

func TestCallerRunsItsLoneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		r := &request{name: "a", size: 1}
		r.Init(r)
		for n := 1; n <= 2; n++ { // a request can be used again
			go func() { f.answers <- struct{}{} }()
			f.Send(t.Context(), &r.Call, true)
			if r.answer != n {
				t.Fatal("Send returned before the answer")
			}
			if r.Wait(t.Context()) != Answered || f.InFlight() != 0 {
				t.Error("not answered, or a place is taken")
			}
		}
	})
}

// A caller recovers from panics of its own call, as net/http does, and goes on.
func TestPanicOfAnOwnCallFreesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		close(f.answers)
		for range MaxInFlight + 1 {
			bug := &request{name: "panics", size: 1}
			bug.Init(bug)
			func() {
				defer func() {
					if recover() == nil {
						t.Error("no panic")
					}
				}()
				f.Send(t.Context(), &bug.Call, true)
			}()
		}
		f.want(Answered, f.send(t.Context(), "a"))
		if f.InFlight() != 0 {
			t.Errorf("%d places are taken", f.InFlight())
		}
	})
}

func TestCallsQueuedBehindACallerAreSentForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		for i := range MaxInFlight {
			r := &request{name: fmt.Sprint("own", i), size: 1}
			r.Init(r)
			go f.Send(t.Context(), &r.Call, true)
		}
		synctest.Wait()
		a, b := f.send(t.Context(), "a"), f.send(t.Context(), "b")
		f.answers <- struct{}{}
		f.wantSizes(1, 1, 2)
		f.answerAll()
		f.want(Answered, a, b)
	})
}

func TestQueuedCallsTravelTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.occupy()
		var want []string
		for i := range 10 {
			want = append(want, fmt.Sprint("queued", i))
			f.send(t.Context(), want[i])
		}
		f.wantSizes(1, 1)
		f.answers <- struct{}{}
		f.wantSizes(1, 1, 10)
		if !slices.Equal(f.batches[2], want) {
			t.Errorf("sent %v, want the order of arrival", f.batches[2])
		}
		f.answerAll()
	})
}

func TestLongQueueIsSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.send(t.Context(), "first")
		f.count(0, 1) // all calls queue until the batch in flight is answered
		for i := range 2 * splitFrom {
			f.send(t.Context(), fmt.Sprint("queued", i))
		}
		f.count(0, -1)
		f.answers <- struct{}{}
		f.wantSizes(1, splitFrom, splitFrom)
		f.answerAll()
	})
}

func TestCallJoinsTheBatchThatGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		first := f.send(t.Context(), "a")
		f.count(0, 1) // as a batch that was answered and is about to take the queue
		second := f.send(t.Context(), "b")
		f.wantSizes(1)
		f.count(0, -1)
		f.answerAll()
		f.wantSizes(1, 1)
		f.want(Answered, first, second)
	})
}

// Callers that were just answered call again at once and share the next batches.
func TestBatchWaitsForCallersThatComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.occupy()
		const callers = 10
		for i := range callers {
			r := &request{name: fmt.Sprint("again", i), size: 1}
			r.Init(r)
			go func() {
				for range 2 {
					f.Send(t.Context(), &r.Call, false)
					r.Wait(t.Context())
				}
			}()
		}
		synctest.Wait()
		f.answers <- struct{}{}
		f.wantSizes(1, 1, callers)
		f.answers <- struct{}{} // of the other first batch; its place is now free
		f.wantSizes(1, 1, callers)
		f.answers <- struct{}{}
		synctest.Wait()
		if n := len(f.batches); n > 3+MaxInFlight {
			t.Errorf("%d callers came back in %d batches", callers, n-3)
		}
		f.answerAll()
	})
}

func TestFrozenServerHoldsTwoBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		for i := range 3 * full {
			f.send(t.Context(), fmt.Sprint(i))
		}
		f.wantSizes(1, 1)
		if n := f.Queued(); n != 3*full-MaxInFlight {
			t.Errorf("%d calls are queued", n)
		}
		f.answers <- struct{}{}
		f.wantSizes(1, 1, full)
		f.answerAll()
		f.wantSizes(1, 1, full, full, full-2)
	})
}

func TestCallLargerThanABatchTravelsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.occupy()
		f.send(t.Context(), "before")
		f.sendRequest(t.Context(), &request{name: "large", size: 2 * full})
		f.send(t.Context(), "after")
		f.answerAll()
		f.wantSizes(1, 1, 1, 1, 1)
	})
}

func TestCallThatLeavesTheQueueIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.occupy()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		before, leaves, after := f.send(t.Context(), "before"), f.send(ctx, "leaves"), f.send(t.Context(), "after")
		f.want(Withdrawn, leaves)
		f.answerAll()
		if !slices.Equal(f.batches[2], []string{"before", "after"}) || f.Queued() != 0 {
			t.Errorf("sent %v, %d are queued", f.batches[2], f.Queued())
		}
		f.want(Answered, before, after)
	})
}

// A caller whose context has ended may not have noticed yet when its call would be sent.
func TestCallOfAnEndedContextIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.occupy()
		ctx, cancel := context.WithCancel(t.Context())
		r := &request{name: "ended", size: 1}
		r.Init(r)
		f.Send(ctx, &r.Call, false)
		cancel()
		f.answerAll()
		f.wantSizes(1, 1)
		if got := r.Wait(ctx); got != Withdrawn || f.Queued() != 0 {
			t.Errorf("outcome %d, %d are queued", got, f.Queued())
		}
	})
}

func TestCallerLeavesWhileItsCallIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		leaves, stays := f.send(ctx, "a"), f.send(t.Context(), "b")
		f.want(Abandoned, leaves)
		f.answerAll()
		f.want(Answered, stays)
		f.wantSizes(1, 1)
	})
}

func TestKeptCallIsSentWithoutItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.occupy()
		ctx, cancel := context.WithCancel(t.Context())
		r := &request{name: "kept", size: 1}
		r.Keep = true
		outcome := f.sendRequest(ctx, r)
		cancel()
		f.want(Abandoned, outcome)
		f.answerAll()
		f.wantSizes(1, 1, 1)
		if r.answer != 1 {
			t.Error("it was not answered")
		}
	})
}

func TestReleaseHandsThePlaceToTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		for range MaxInFlight {
			if !f.TryAcquire() {
				t.Fatal("no place is free")
			}
		}
		if f.TryAcquire() {
			t.Fatal("there is a place too many")
		}
		var outcomes []chan Outcome
		for i := range 10 {
			outcomes = append(outcomes, f.send(t.Context(), fmt.Sprint("queued", i)))
		}
		f.Release()
		f.wantSizes(10)
		f.Release()
		f.answerAll()
		f.want(Answered, outcomes...)
		if n := f.InFlight(); n != 0 {
			t.Errorf("%d places are taken", n)
		}
	})
}

func TestPlaceIsFreeWhenAllQueuedCallsHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		for f.TryAcquire() {
		}
		ctx, cancel := context.WithCancel(t.Context())
		r := &request{name: "ended", size: 1}
		r.Init(r)
		f.Send(ctx, &r.Call, false)
		cancel()
		for range MaxInFlight {
			f.Release()
		}
		f.wantSizes()
		if r.Wait(ctx) != Withdrawn || f.Queued() != 0 || f.InFlight() != 0 || f.busy.Load() {
			t.Errorf("%d queued, %d in flight, busy %v", f.Queued(), f.InFlight(), f.busy.Load())
		}
	})
}

func TestNoPlaceWhileABatchGathers(t *testing.T) {
	f := newFixture(t)
	f.count(0, 1)
	if f.TryAcquire() {
		t.Error("acquired a place while a batch is about to take the queue")
	}
}

// Many goroutines see a free place before any of them takes it.
func TestConcurrentAcquiresGetAllPlaces(t *testing.T) {
	f := newFixture(t)
	var ready, ended sync.WaitGroup
	var acquired atomic.Int64
	f.queue.mu.Lock()
	for range 16 {
		ready.Add(1)
		ended.Go(func() {
			ready.Done()
			if f.TryAcquire() {
				acquired.Add(1)
			}
		})
	}
	ready.Wait()
	for range 1000 {
		runtime.Gosched() // until they wait for the lock
	}
	f.queue.mu.Unlock()
	ended.Wait()
	if n := acquired.Load(); n != MaxInFlight {
		t.Errorf("%d places were acquired at once, want %d", n, MaxInFlight)
	}
}

// With one place, all calls that arrive in the meantime are in the next batch.
func TestOneBatchInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixtureOf(t, Options{Full: full, InFlight: 1})
		for i := range 5 {
			f.send(t.Context(), fmt.Sprint(i))
		}
		f.wantSizes(1)
		f.answers <- struct{}{}
		f.wantSizes(1, 4)
		f.answers <- struct{}{}
		synctest.Wait()
		if n := f.InFlight(); n != 0 {
			t.Errorf("%d batches are in flight", n)
		}
	})
}

// Callers that call together after a batch of several are in one batch, although a place is
// free. A lone call after a lone call is sent at once.
func TestCallsAreGathered(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the calls below are one after the other, without a switch
	synctest.Test(t, func(t *testing.T) {
		f := newFixtureOf(t, Options{Full: full, InFlight: 1, Gather: true})
		together := func(n int) {
			for range n {
				r := &request{name: "r", size: 1}
				r.Init(r)
				f.Send(t.Context(), &r.Call, false)
			}
			synctest.Wait()
		}
		together(5)
		f.wantSizes(1)
		f.answers <- struct{}{}
		f.wantSizes(1, 4)
		f.answers <- struct{}{}
		together(7)
		f.wantSizes(1, 4, 7)
		f.answers <- struct{}{}
		together(1)
		f.answers <- struct{}{}
		f.wantSizes(1, 4, 7, 1)
		together(3)
		f.wantSizes(1, 4, 7, 1, 1)
		f.answers <- struct{}{}
		f.wantSizes(1, 4, 7, 1, 1, 2)
		f.answers <- struct{}{}
		synctest.Wait()
		if n := f.InFlight(); n != 0 {
			t.Errorf("%d batches are in flight", n)
		}
	})
}

// Under load from callers that come, leave and come back, every call has one outcome,
// and no call is sent twice or answered unsent.
func TestEveryCallHasOneOutcome(t *testing.T) {
	for name, o := range map[string]Options{"split": {Full: full, SplitFrom: splitFrom}, "gather": {Full: full, Gather: true}, "one in flight": {Full: full, Gather: true, InFlight: 1}} {
		t.Run(name, func(t *testing.T) { everyCallHasOneOutcome(t, o) })
	}
}

func everyCallHasOneOutcome(t *testing.T, o Options) {
	s := &server{answers: make(chan struct{})}
	close(s.answers)
	b := New(o, func() *batch { return &batch{server: s} })
	var callers sync.WaitGroup
	for i := range 32 {
		callers.Go(func() {
			for j := range 200 {
				r := &request{name: "r", size: 1 + (i+j)%7}
				r.Init(r)
				ctx, cancel := context.WithCancel(context.Background())
				if j%5 == 0 {
					time.AfterFunc(time.Duration(j)*time.Microsecond, cancel)
				}
				b.Send(ctx, &r.Call, j%3 == 0)
				switch outcome := r.Wait(ctx); {
				case outcome == Answered && r.answer != 1:
					t.Errorf("answered %d times", r.answer)
				case outcome == Withdrawn && r.answer != 0:
					t.Error("withdrawn, but sent")
				}
				cancel()
			}
		})
	}
	callers.Wait()
	for b.InFlight() > 0 {
		runtime.Gosched()
	}
	if n := b.Queued(); n != 0 {
		t.Errorf("%d calls are still queued", n)
	}
}
