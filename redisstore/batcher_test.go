package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
)

// tower is a server that answers when it is told to, with an error.
type tower struct {
	leaving  sync.Mutex // two flights may leave at once; read when all wait
	departed [][]string // the keys of each flight
	release  chan struct{}
}

func (w *tower) call(_ context.Context, calls []invocation, replies []reply) {
	var keys []string
	for _, c := range calls {
		keys = append(keys, c.keys...)
	}
	w.leaving.Lock()
	w.departed = append(w.departed, keys)
	w.leaving.Unlock()
	<-w.release
	failAll(replies, errTower)
}

var errTower = errors.New("no server")

// lounge is a lane whose flights end in a tower.
type lounge struct {
	*batcher
	*tower

	t *testing.T
}

func newLounge(t *testing.T) *lounge {
	t.Helper()
	s := &Store{}
	var err error
	if s.encoding, err = newEncoding(&s.options); err != nil {
		t.Fatal(err)
	}
	w := &tower{release: make(chan struct{})}
	return &lounge{newBatcher(w, s, 0), w, t}
}

// take sends a check of a key and returns when it has left the lane or waits
// in it, and where its end will be told.
func (l *lounge) take(ctx context.Context, key string) chan error {
	c := l.store.calls.get()
	c.addOne(&stint.Claim{Key: key, Limit: tenASecond(), Cost: 1})
	end := make(chan error, 1)
	l.send(ctx, c, false)
	go func() {
		err := c.wait(ctx)
		if err == nil {
			err = c.errs[0]
		}
		end <- err
	}()
	synctest.Wait()
	return end
}

// departures checks how many keys each flight so far had.
func (l *lounge) departures(want ...int) {
	l.t.Helper()
	synctest.Wait()
	var got []int
	for _, keys := range l.departed {
		got = append(got, len(keys))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		l.t.Fatalf("flights left with %v keys, want %v", got, want)
	}
}

// clear answers all flights until none is left.
func (l *lounge) clear() {
	for l.mu.sent > 0 {
		l.release <- struct{}{}
		synctest.Wait()
	}
}

func tenASecond() stint.Limit {
	l, err := stint.ParseLimit("10/s")
	if err != nil {
		panic(err)
	}
	return l
}

func TestLoneCheckLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLounge(t)
		end := l.take(t.Context(), "a")
		l.departures(1)
		l.clear()
		if err := <-end; !errors.Is(err, errTower) {
			t.Error(err)
		}
	})
}

func TestChecksThatWaitTravelTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLounge(t)
		for i := range maxInFlight {
			l.take(t.Context(), fmt.Sprint("first", i))
		}
		for i := range 10 {
			l.take(t.Context(), fmt.Sprint("waits", i))
		}
		l.departures(1, 1)
		l.release <- struct{}{}
		l.departures(1, 1, 10)
		l.clear()
	})
}

func TestManyDistinctChecksAreParted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLounge(t)
		l.take(t.Context(), "first")
		l.announce(1) // all wait until it has landed
		for i := range 2 * worthParting {
			l.take(t.Context(), fmt.Sprint("waits", i))
		}
		l.announce(-1)
		l.release <- struct{}{}
		l.departures(1, worthParting, worthParting)
		l.clear()
	})
}

func TestCheckGoesWithTheFlightThatBoards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLounge(t)
		first := l.take(t.Context(), "a")
		l.announce(1) // as a flight does that has landed and not left again
		second := l.take(t.Context(), "b")
		l.departures(1)
		l.announce(-1)
		l.clear()
		l.departures(1, 1)
		for _, end := range []chan error{first, second} {
			if err := <-end; !errors.Is(err, errTower) {
				t.Error(err)
			}
		}
	})
}

func TestEqualChecksTravelAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLounge(t)
		for i := range maxInFlight {
			l.take(t.Context(), fmt.Sprint("first", i))
		}
		var ends []chan error
		for range 10 {
			ends = append(ends, l.take(t.Context(), "hot"))
		}
		l.clear()
		l.departures(1, 1, 1)
		for _, end := range ends {
			if err := <-end; !errors.Is(err, errTower) {
				t.Error(err)
			}
		}
	})
}

func TestFrozenServerHoldsTwoFlights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLounge(t)
		for i := range 3 * maxLines {
			l.take(t.Context(), fmt.Sprint(i))
		}
		l.departures(1, 1)
		l.release <- struct{}{}
		l.departures(1, 1, maxLines)
		l.clear()
		l.departures(1, 1, maxLines, maxLines, maxLines-2)
	})
}

func TestCheckThatLeavesTheQueueIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLounge(t)
		for i := range maxInFlight {
			l.take(t.Context(), fmt.Sprint("first", i))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		before, leaves, after := l.take(t.Context(), "before"), l.take(ctx, "leaves"), l.take(t.Context(), "after")
		var e *stint.Error
		if err := <-leaves; !errors.As(err, &e) || e.Code != stint.CodeTimeout || !wasUnsent(err) {
			t.Errorf("left with %v", err)
		}
		l.clear()
		if got := fmt.Sprint(len(l.departed[2]), l.mu.waiting); got != "2 0" {
			t.Errorf("keys sent, calls that wait: %s, want 2 0", got)
		}
		for _, end := range []chan error{before, after} {
			if err := <-end; !errors.Is(err, errTower) {
				t.Error(err)
			}
		}
	})
}

func TestCallerLeavesWhileItsCheckIsInTheAir(t *testing.T) {
	for _, test := range []struct {
		name string
		code stint.Code
		end  func(context.Context) (context.Context, context.CancelFunc)
	}{
		{"its time is over", stint.CodeTimeout, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Millisecond)
		}},
		{"it gives up", stint.CodeCanceled, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Millisecond, cancel)
			return ctx, cancel
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLounge(t)
				ctx, cancel := test.end(t.Context())
				defer cancel()
				end, stays := l.take(ctx, "a"), l.take(t.Context(), "b")
				var e *stint.Error
				if err := <-end; !errors.As(err, &e) || e.Code != test.code {
					t.Errorf("left with %v", err)
				}
				l.clear()
				if err := <-stays; !errors.Is(err, errTower) {
					t.Error(err)
				}
				l.departures(1, 1)
			})
		})
	}
}

func TestWhatGivesBackIsSentWithoutItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLounge(t)
		for i := range maxInFlight {
			l.take(t.Context(), fmt.Sprint("first", i))
		}
		c := l.store.calls.get()
		c.addOne(&stint.Claim{Key: "kept", Limit: tenASecond(), Cost: -1})
		c.keep = true
		l.send(t.Context(), c, false)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.wait(ctx); err == nil {
			t.Error("waited for what its caller gave up")
		}
		l.clear()
		l.departures(1, 1, 1)
	})
}
