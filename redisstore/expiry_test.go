package redisstore

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// linger is how long the key of a bucket outlives its state.
const linger = 15 * time.Second

// A key expires when its state would be as good as new, or a little later: the expiry is
// in whole milliseconds, and the script takes time. The key of a bucket lives 15 s
// longer.
func TestKeysEndWithTheirState(t *testing.T) {
	s := dialBoth(t)
	for _, keep := range []time.Duration{0, time.Hour} {
		for i, l := range everyKind(t) {
			e := encodingOf(t, Options{KeepFor: keep})
			for _, cost := range []int64{1, 3, 6, -2, 0, 20, -1} {
				b := e.newBatch()
				b.add([]stint.Claim{{Key: "key" + strconv.Itoa(i), Limit: l, Cost: cost}}, 0)
				out, errs := s.decide(b)
				if errs[0] != nil {
					t.Fatal(errs[0])
				}
				end := time.UnixMicro(out[0].At).Add(out[0].ResetAfter).Add(keep)
				if l.Numbers().Fill > 0 || l.Algorithm() == stint.LeakyBucket {
					end = end.Add(linger)
				}
				s.endsAt(l, b.names[0], end)
			}
			s.must("FLUSHALL")
		}
	}
}

func (s *scripts) endsAt(l stint.Limit, key string, reset time.Time) {
	s.Helper()
	text, err := s.do("PEXPIRETIME", key).AsInt64()
	if err != nil { // servers before 7.0 do not know the command
		left, err := s.do("PTTL", key).AsInt64()
		if err != nil {
			s.Fatal(err)
		}
		text = time.Now().UnixMilli() + left
	}
	if late := time.UnixMilli(text).Sub(reset); late < 0 || late > time.Second {
		s.Errorf("%v: the key ends %v after its state", l, late)
	}
}

// A state that equals a new one is not kept, and Forget removes the key. A full bucket is
// kept for a while.
func TestStatesAsGoodAsNewAreNotKept(t *testing.T) {
	s := dialBoth(t)
	for _, l := range everyKind(t) {
		for _, back := range []int64{-4, stint.Forget} {
			if back != stint.Forget && (l.Numbers().Fill > 0 || l.Algorithm() == stint.LeakyBucket) {
				continue // a leaky bucket is kept for a while, and has no refunds
			}
			e := encodingOf(t, Options{})
			b := e.newBatch()
			b.add([]stint.Claim{{Key: "key", Limit: l, Cost: 4}}, 0)
			b.add([]stint.Claim{{Key: "key", Limit: l, Cost: back}}, 0)
			if _, errs := s.decide(b); errs[0] != nil || errs[1] != nil {
				t.Fatal(errs)
			}
			if value, err := s.do("GET", b.names[0]).ToString(); !rueidis.IsRedisNil(err) {
				t.Errorf("%v: %q is kept (%v)", l, value, err)
			}
		}
	}
}

// A bucket keeps its tokens when its capacity is raised, also if all of them were
// refunded.
func TestRaisedCapacityKeepsRefundedTokens(t *testing.T) {
	s := dialBoth(t)
	e := encodingOf(t, Options{})
	var d stint.Decision
	for _, c := range []struct{ capacity, cost int64 }{{3, 2}, {3, -2}, {10, 0}} {
		b := e.newBatch() // a single call, so that the stored state decides
		l := limitOf(t, stint.Spec{Name: "l", RefillRate: "0.001", Capacity: c.capacity})
		b.add([]stint.Claim{{Key: "key", Limit: l, Cost: c.cost}}, 0)
		out, errs := s.decide(b)
		if errs[0] != nil {
			t.Fatal(errs[0])
		}
		d = out[0]
	}
	if d.Remaining != 3 {
		t.Errorf("%+v; want the 3 tokens that the bucket held", d)
	}
}

// A bucket whose rate is lowered keeps its usage, also if it would have been full at the
// old rate.
func TestLoweredRateKeepsTheUsage(t *testing.T) {
	s := dialBoth(t)
	e := encodingOf(t, Options{})
	take := func(rate string, cost int64) stint.Decision {
		b := e.newBatch()
		b.add([]stint.Claim{{Key: "key", Limit: limitOf(t, stint.Spec{RefillRate: rate, Capacity: 10}), Cost: cost}}, 0)
		out, errs := s.decide(b)
		if errs[0] != nil {
			t.Fatal(errs[0])
		}
		return out[0]
	}
	end := take("333.3", 10)
	for d := end; d.ResetAfter > 0; { // by the server's clock
		d = take("333.3", 0)
	}
	d := take("0.001", 0)
	if passed := d.At - end.At; d.Remaining != 0 || d.ResetAfter < 9000*time.Second || passed < 30_000 {
		t.Errorf("%+v after %d µs; want an empty bucket", d, passed)
	}
}

func TestKeysCanBeKeptForever(t *testing.T) {
	s := open(t, Options{Addrs: []string{redistest.Server(t).Addr()}, KeepFor: math.MaxInt64})
	for _, l := range everyKind(t) {
		if d, err := s.Take(t.Context(), stint.Claim{Key: "k", Limit: l, Cost: 1}); err != nil || !d.Allowed {
			t.Errorf("%v: %+v, %v", l, d, err)
		}
	}
}
