package quorumstore

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
)

// newMemoryServers returns servers that never fail.
func newMemoryServers(n int) []server {
	servers := make([]server, n)
	for i := range servers {
		servers[i] = memberServer{newMemoryServer(fmt.Sprint("s", i), func() int64 { return time.Now().UnixMicro() })}
	}
	return servers
}

func newTestStore(tb testing.TB, servers []server) *cas.Store {
	tb.Helper()
	b := newBackend(servers, backendOptions{})
	s := cas.New(b, cas.Options{Name: "quorumstore", Heartbeat: -1, KeepNew: true})
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func testClaim(tb testing.TB, key, limit string) stint.Claim {
	tb.Helper()
	spec, err := stint.ParseSpec(limit)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := spec.Compile()
	if err != nil {
		tb.Fatal(err)
	}
	return stint.Claim{Key: key, Limit: l, Cost: 1}
}

// A node that wrote a key last needs one round trip for its next charge, and sends no read.
func TestAChargeIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(t, newMemoryServers(3))
		c := testClaim(t, "k", "1000000/s")
		for range 20 {
			if d, err := s.Take(t.Context(), c); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
		}
		if st := s.Stats(); st.Swaps != 20 || st.Remembered < 15 || st.Lost != 0 || st.Unknown != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func BenchmarkHotKey(b *testing.B) {
	s := newTestStore(b, newMemoryServers(3))
	c := testClaim(b, "k", "100000000/s")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Take(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDistinctKeys(b *testing.B) {
	s := newTestStore(b, newMemoryServers(3))
	c := testClaim(b, "", "100000000/s")
	var key atomic.Int64
	b.SetParallelism(8)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c := c
			c.Key = fmt.Sprint(key.Add(1) % 1000)
			if _, err := s.Take(b.Context(), c); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// A write that is made while no majority of clocks agrees is kept for as long as any other.
func TestAWriteWithoutATimeIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		elapse(12 * time.Hour)
		servers := newMemoryServers(3)
		b := newBackend(servers, backendOptions{})
		loads := []cas.Load{{Key: "=k", Horizon: time.Hour, New: true}}
		now, err := b.Load(t.Context(), loads)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range b.members {
			m.mu.about.time -= int64(i) * 1_500_000
		}
		swaps := []cas.Swap{{Key: "=k", Memo: loads[0].Item.Memo, Decided: now, Value: []byte("whole"), Version: 1, TTL: time.Hour}}
		if _, err := b.Swap(t.Context(), swaps); err != nil || swaps[0].Outcome != cas.Done {
			t.Fatal(swaps[0].Outcome, swaps[0].Err, err)
		}
		elapse(time.Minute)
		loads = []cas.Load{{Key: "=k", Horizon: time.Hour}}
		if _, err := newBackend(servers, backendOptions{}).Load(t.Context(), loads); err != nil || string(loads[0].Item.Value) != "whole" {
			t.Errorf("after a minute of an hour, %q is left: %v", loads[0].Item.Value, err)
		}
	})
}
