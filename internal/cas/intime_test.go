package cas_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/internal/cas/casmem"
)

// far is a backend whose calls and answers take a while, each of its own.
type far struct {
	casmem.Full

	way func() time.Duration
}

func newFar(clock func() time.Time, way func() time.Duration) far {
	return far{casmem.Full{Atomic: casmem.Atomic{Backend: casmem.New(casmem.NewServer(clock))}}, way}
}

func (f far) Load(ctx context.Context, loads []cas.Load) (time.Time, error) {
	time.Sleep(f.way())
	defer func() { time.Sleep(f.way()) }()
	return f.Full.Load(ctx, loads)
}

func (f far) Swap(ctx context.Context, swaps []cas.Swap) (time.Time, error) {
	time.Sleep(f.way())
	defer func() { time.Sleep(f.way()) }()
	return f.Full.Swap(ctx, swaps)
}

// jitter returns ways of 50 µs and a while, which is seldom long.
func jitter() func() time.Duration {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, 2))
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		d := time.Duration(50_000 + random.Int64N(20_000))
		if random.Int64N(20) == 0 {
			d += time.Duration(random.Int64N(int64(5 * time.Millisecond)))
		}
		return d
	}
}

// Each check is decided at a time that the clock of the server shows between its begin and its
// end, whatever the latencies and the rate of that clock: those that read the item, and those
// whose node remembers it.
func TestChecksAreDecidedWithinTheirCalls(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{-0.0005, 0, 0.0005} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			clock := func() time.Time {
				since := time.Since(begun)
				return time.Unix(1e9, 0).Add(since + time.Duration(rate*float64(since))).Truncate(time.Microsecond)
			}
			server := newFar(clock, jitter())
			var all sync.WaitGroup
			var stores []*cas.Store
			for node := range 2 {
				s := newStore(t, server, cas.Options{})
				stores = append(stores, s)
				for caller := range 12 {
					key := []string{"hot", "warm", "own"}[caller%3] + string(rune('0'+node))
					if caller == 0 {
						key = "of both"
					}
					all.Go(func() { checksInTime(t, s, key, clock, rand.New(rand.NewPCG(uint64(caller), 2))) })
				}
			}
			all.Wait()
			for _, s := range stores {
				if st := s.Stats(); st.Remembered < st.Swaps/2 || st.Early > st.Swaps/5 {
					t.Errorf("of %d swaps %d were remembered and %d early", st.Swaps, st.Remembered, st.Early)
				}
			}
		})
	}
}

// checksInTime makes checks with pauses, and compares the time of each with its begin and end.
func checksInTime(t *testing.T, s *cas.Store, key string, clock func() time.Time, random *rand.Rand) {
	for range 500 {
		time.Sleep(time.Duration(random.Int64N(int64(2 * time.Millisecond))))
		from := clock()
		d := take(t, s, claim(key, "1000000/s", 1))
		if to := clock(); d.At < from.UnixMicro() || d.At > to.UnixMicro() {
			t.Errorf("a check from %d to %d was decided at %d", from.UnixMicro(), to.UnixMicro(), d.At)
			return
		}
	}
}

// After the clock of the server is set forward, one answer is enough for checks at the new
// time. If it is set back, the server refuses swaps that were decided at a time it does
// not show yet.
func TestServerClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var offset, calls atomic.Int64
		clock := func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
		longer := func() time.Duration { return time.Duration(calls.Add(1)) * 10 * time.Microsecond } // so the least bound holds
		s := newStore(t, newFar(clock, longer), cas.Options{})
		check := func(key string, remembered, early uint64, inTime bool) {
			t.Helper()
			before, from := s.Stats(), clock().UnixMicro()
			d := take(t, s, claim(key, "1000/d", 1))
			if to := clock().UnixMicro(); inTime != (d.At >= from && d.At <= to) {
				t.Errorf("a check from %d to %d was decided at %d", from, to, d.At)
			}
			if after := s.Stats(); after.Remembered-before.Remembered != remembered || after.Early-before.Early != early {
				t.Errorf("%+v, and before it %+v", after, before)
			}
		}
		for _, key := range []string{"a", "b"} {
			check(key, 0, 0, true)
			check(key, 0, 0, true)
			check(key, 1, 0, true)
		}
		offset.Add(int64(time.Second))
		check("a", 1, 0, false) // no answer has told the new time yet
		check("a", 1, 0, true)
		offset.Add(-int64(time.Second / 2))
		check("b", 0, 1, true)
		check("b", 1, 0, true)
		check("a", 1, 0, false) // the time of a key never runs back
	})
}
