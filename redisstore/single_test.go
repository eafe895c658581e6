package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stintdev/stint"
)

// takeLone has a check fly by itself, and returns where its end will be told.
func (l *lounge) takeLone(key string) chan error {
	end := make(chan error, 1)
	go func() {
		_, flew, err := l.takeSingle(l.t.Context(), &stint.Claim{Key: key, Limit: tenASecond(), Cost: 1})
		if !flew {
			err = errNoPlace
		}
		end <- err
	}()
	synctest.Wait()
	return end
}

var errNoPlace = errors.New("no place in the air")

func TestLoneChecksLeaveTheirPlaceToThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLounge(t)
		first, second := l.takeLone("first"), l.takeLone("second")
		l.departures(1, 1)
		if err := <-l.takeLone("third"); !errors.Is(err, errNoPlace) {
			t.Errorf("a third flight: %v", err)
		}
		var ends []chan error
		for i := range 10 {
			ends = append(ends, l.take(t.Context(), fmt.Sprint("waits", i)))
		}
		l.release <- struct{}{}
		l.departures(1, 1, 10)
		l.clear()
		for _, end := range append(ends, first, second) {
			if err := <-end; !errors.Is(err, errTower) {
				t.Error(err)
			}
		}
		if l.mu.sent != 0 {
			t.Errorf("%d flights are still in the air", l.mu.sent)
		}
	})
}

// TestLoneChecksAtOnceAreAsManyAsFlights has many find a place free before any
// of them takes it.
func TestLoneChecksAtOnceAreAsManyAsFlights(t *testing.T) {
	l := newLounge(t)
	const callers = 16
	var ready, ended sync.WaitGroup
	var refused atomic.Int64
	l.mu.Lock()
	for range callers {
		ready.Add(1)
		ended.Go(func() {
			ready.Done()
			if _, flew, _ := l.takeSingle(t.Context(), &stint.Claim{Key: "k", Limit: tenASecond(), Cost: 1}); !flew {
				refused.Add(1)
			}
		})
	}
	ready.Wait()
	for range 1000 {
		runtime.Gosched() // until they wait for the lock
	}
	l.mu.Unlock()
	flights := 0
	await(t, func() bool {
		l.leaving.Lock()
		defer l.leaving.Unlock()
		flights = len(l.departed)
		return flights+int(refused.Load()) == callers
	})
	if flights != maxInFlight {
		t.Errorf("%d flights left at once, want %d", flights, maxInFlight)
	}
	close(l.release)
	ended.Wait()
}

// TestLonePlaceIsFreeWhenThoseWhoWaitLeave has a lone check land when all who
// wait are about to leave.
func TestLonePlaceIsFreeWhenThoseWhoWaitLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLounge(t)
		first, second := l.takeLone("first"), l.takeLone("second")
		ctx, cancel := context.WithCancel(t.Context())
		c := l.store.calls.get()
		c.addOne(&stint.Claim{Key: "leaves", Limit: tenASecond(), Cost: 1})
		l.send(ctx, c, false)
		cancel()
		l.clear()
		if a, b := <-first, <-second; !errors.Is(a, errTower) || !errors.Is(b, errTower) {
			t.Error(a, b)
		}
		l.departures(1, 1)
		if err := c.wait(ctx); !wasUnsent(err) {
			t.Error(err)
		}
		if l.full.Load() || l.mu.waiting != 0 {
			t.Errorf("full: %v, %d wait", l.full.Load(), l.mu.waiting)
		}
	})
}

func TestLoneCheckGoesWithTheFlightThatBoards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLounge(t)
		l.announce(1)
		if err := <-l.takeLone("a"); !errors.Is(err, errNoPlace) {
			t.Error(err)
		}
		l.announce(-1)
	})
}

// TestRepliesThatAreNotTheScriptsAreRefused changes a good reply, and asks both
// by itself and in a flight.
func TestRepliesThatAreNotTheScriptsAreRefused(t *testing.T) {
	good, denied := loneReply(1_000_000, 1, nil), loneReply(1_000_000, 0, nil)
	for _, c := range []struct {
		name, data, kind string
	}{
		{"the script's", good, ""},
		{"nothing", "", "garbled"},
		{"cut in the head", good[:5], "garbled"},
		{"cut before the state", good[:answerHead], "garbled"},
		{"a state cut short", loneReply(1_000_000, 1, make([]byte, 11))[:answerHead+5], "garbled"},
		{"a time before the epoch", loneReply(-1, 1, nil), "garbled"},
		{"denied by the script alone", denied, "garbled"},
		{"allowed twice", loneReply(1_000_000, 2, nil), "garbled"},
		{"denied and allowed twice", loneReply(1_000_000, 2, appendBucket(1_000_000, 0, 0)), "garbled"},
		{"a state longer than told", good + "x", "garbled"},
		{"a state of no bucket", loneReply(1_000_000, 0, []byte("nothing")), "corrupt"},
		{"told to be corrupt", denied[:answerHead] + "\xff", "corrupt"},
		{"told to be of another type", denied[:answerHead] + "\xfe", "wrongtype"},
	} {
		t.Run(c.name, func(t *testing.T) {
			claim := stint.Claim{Key: "k", Limit: tenASecond(), Cost: 1}
			lone := single{encoding: encodingOf(t, Options{})}
			lone.encode(&claim)
			lone.replies[0].data = c.data
			d, err := lone.decode(&claim)
			checkReply(t, c.kind, d, err)

			b := lone.encoding.newBatch()
			b.add(&stint.Group{Claims: []stint.Claim{claim}}, false)
			b.invocation()
			out, errs := make([]stint.Decision, len(b.lines)), make([]error, len(b.groups))
			b.decode(c.data, out, errs)
			checkReply(t, c.kind, out[0], errs[0])
		})
	}
}

func checkReply(t *testing.T, kind string, d stint.Decision, err error) {
	t.Helper()
	if kind != "" {
		wantError(t, err, stint.CodeInternal, kind)
	} else if err != nil || !d.Allowed || d.Remaining != 9 {
		t.Error(d, err)
	}
}

// loneReply is a reply for one key.
func loneReply(now int64, allowed uint32, state []byte) string {
	reply := binary.BigEndian.AppendUint32(appendInt7(nil, now), allowed)
	return string(append(append(reply, byte(len(state))), state...))
}

// TestLoneChecksOfManyLimits has one lone carry claims on one limit after the
// other, with costs of their own, by the server's clock and by the caller's.
func TestLoneChecksOfManyLimits(t *testing.T) {
	now := int64(0)
	limits := []stint.Limit{limitOf(t, stint.PerMinute(100)), limitOf(t, stint.PerMinute(101)), limitOf(t, stint.PerDay(100))}
	for _, clock := range []func() int64{nil, func() int64 { return now }} {
		o := single{encoding: encodingOf(t, Options{Clock: clock})}
		for now = range 20 {
			claim := stint.Claim{Key: "k", Limit: limits[now/2%3], Cost: 1 + now/3%2} // now the one changes, now the other
			o.encode(&claim)
			b := o.encoding.newBatch()
			b.add(&stint.Group{Claims: []stint.Claim{claim}}, false)
			want := b.invocation()
			if got := o.calls[0]; got.script != want.script || got.keys[0] != want.keys[0] || got.args[0] != want.args[0] {
				t.Fatalf("claim %d: %q %q; want %q %q", now, got.keys, got.args, want.keys, want.args)
			}
		}
	}
}

// A limit that was compiled once more, as all are when rules are read again,
// is encoded once like the first.
func TestLoneEncodesALimitOnce(t *testing.T) {
	o := single{encoding: encodingOf(t, Options{})}
	for range 2 {
		claim := stint.Claim{Key: "k", Limit: limitOf(t, stint.PerMinute(100)), Cost: 1}
		o.encode(&claim)
		if n := testing.AllocsPerRun(100, func() { o.encode(&claim) }); n > 1 {
			t.Errorf("%v allocations, want that of the key alone", n)
		}
	}
}
