package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// keysOn returns a key on each of the masters, in their order.
func keysOn(t *testing.T, c *redistest.ClusterServers) (keys []string) {
	t.Helper()
	for _, m := range c.Masters() {
		for i := 0; ; i++ {
			key := fmt.Sprint("key", i)
			if c.Owner(c.Slot(key)) == m {
				keys = append(keys, key)
				break
			}
		}
	}
	return keys
}

func groupOf(limit stint.Limit, keys ...string) (g stint.Group) {
	for _, k := range keys {
		g.Claims = append(g.Claims, stint.Claim{Key: k, Limit: limit, Cost: 1})
	}
	return g
}

func takeGroup(ctx context.Context, s stint.Store, g stint.Group) ([]stint.Decision, stint.Decision, error) {
	out := make([]stint.Decision, len(g.Claims))
	err := s.TakeGroups(ctx, []stint.Group{g}, out)
	_, combined := stint.Combine(g.Claims, out)
	return out, combined, err
}

func remaining(t *testing.T, s stint.Store, limit stint.Limit, key string) int64 {
	t.Helper()
	d, err := s.Take(context.Background(), stint.Claim{Key: key, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

func TestGroupsAcrossSlots(t *testing.T) {
	servers := redistest.Cluster(t, 3, 0)
	s := open(t, Options{Topology: Cluster, Addrs: servers.Addrs(), Timeout: 20 * time.Second})
	keys := keysOn(t, servers)
	t.Run("a denied group is refunded", func(t *testing.T) { deniedIsRefunded(t, s, keys) })
	t.Run("denials take nothing from a slow bucket", func(t *testing.T) { slowBucketKeepsAll(t, s, keys) })
	t.Run("one alternative is enough", func(t *testing.T) { oneAlternativeIsEnough(t, s, keys) })
	t.Run("a claim without refund is first decided dry", func(t *testing.T) { leakyIsDecidedDryFirst(t, s, keys) })
	t.Run("without calls in flight they are atomic", func(t *testing.T) { atomicAtRest(t, s, keys) })
	t.Run("an unknown outcome keeps its charge", func(t *testing.T) { unknownKeepsItsCharge(t, s, servers, keys) })
}

func deniedIsRefunded(t *testing.T, s *Store, keys []string) {
	limit := named(t, "denied", stint.FixedWindow, 5)
	for range 5 {
		if _, err := s.Take(t.Context(), stint.Claim{Key: keys[2], Limit: limit, Cost: 1}); err != nil {
			t.Fatal(err)
		}
	}
	out, combined, err := takeGroup(t.Context(), s, groupOf(limit, keys...))
	if err != nil || combined.Allowed || !out[0].Allowed || !out[1].Allowed || out[0].Remaining != 5 || out[0].ResetAfter != 0 {
		t.Errorf("decided %+v, %v", out, err)
	}
	if a, b := remaining(t, s, limit, keys[0]), remaining(t, s, limit, keys[1]); a != 5 || b != 5 {
		t.Errorf("%d and %d remain of 5 after a denial", a, b)
	}
}

// A micro-unit of this bucket refills in 11 s.
func slowBucketKeepsAll(t *testing.T, s *Store, keys []string) {
	limit := limitOf(t, stint.Spec{Name: "slow", Algorithm: stint.TokenBucket, Limit: 3, Window: 400 * 24 * time.Hour})
	for _, c := range []stint.Claim{{Key: keys[0], Limit: limit, Cost: 1}, {Key: keys[1], Limit: limit, Cost: 3}} {
		if _, err := s.Take(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		out, combined, err := takeGroup(t.Context(), s, groupOf(limit, keys[:2]...))
		if err != nil || combined.Allowed || out[0].Remaining != 2 {
			t.Fatalf("decided %+v, %v", out, err)
		}
	}
	if a := remaining(t, s, limit, keys[0]); a != 2 {
		t.Errorf("%d remain of 2 after denials", a)
	}
}

func oneAlternativeIsEnough(t *testing.T, s *Store, keys []string) {
	limit := named(t, "any", stint.FixedWindow, 1)
	g := groupOf(limit, keys...)
	for i := range g.Claims[1:] {
		g.Claims[1+i].AnyOf = 1
	}
	if _, err := s.Take(t.Context(), stint.Claim{Key: keys[1], Limit: limit, Cost: 1}); err != nil {
		t.Fatal(err)
	}
	out, combined, err := takeGroup(t.Context(), s, g)
	if err != nil || !combined.Allowed || out[1].Allowed || !out[2].Allowed {
		t.Errorf("decided %+v, %v", out, err)
	}
	if a, c := remaining(t, s, limit, keys[0]), remaining(t, s, limit, keys[2]); a != 0 || c != 0 {
		t.Errorf("%d and %d remain of 1 after they were charged", a, c)
	}
}

func leakyIsDecidedDryFirst(t *testing.T, s *Store, keys []string) {
	limit := named(t, "leaky", stint.LeakyBucket, 3)
	for range 3 {
		if _, err := s.Take(t.Context(), stint.Claim{Key: keys[1], Limit: limit, Cost: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if _, combined, err := takeGroup(t.Context(), s, groupOf(limit, keys...)); err != nil || combined.Allowed {
		t.Error(combined, err)
	}
	if a := remaining(t, s, limit, keys[0]); a != 3 {
		t.Errorf("%d remain of 3 after a denial", a)
	}
}

// atomicAtRest takes pairs of keys concurrently. No key is charged beyond its limit,
// and in the end exactly the admitted groups are charged.
func atomicAtRest(t *testing.T, s *Store, keys []string) {
	limit := named(t, "rest", stint.FixedWindow, 100)
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		g := groupOf(limit, keys[i%3], keys[(i+1)%3])
		wg.Go(func() {
			for range 30 {
				_, combined, err := takeGroup(t.Context(), s, g)
				if err != nil {
					t.Error(err)
				}
				if combined.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	charged := int64(0)
	for _, k := range keys {
		charged += 100 - remaining(t, s, limit, k)
	}
	if charged != 2*admitted.Load() || admitted.Load() < 100 {
		t.Errorf("%d pairs of keys were admitted and %d units charged", admitted.Load(), charged)
	}
}

func unknownKeepsItsCharge(t *testing.T, s *Store, servers *redistest.ClusterServers, keys []string) {
	limit := named(t, "unknown", stint.FixedWindow, 10)
	frozen := servers.Masters()[2]
	for _, k := range keys {
		remaining(t, s, limit, k) // connects
	}
	frozen.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, _, err := takeGroup(ctx, s, groupOf(limit, keys...))
	var e *stint.Error
	if !errors.As(err, &e) || e.Code != stint.CodeTimeout {
		t.Errorf("a group with a frozen server: %v", err)
	}
	for _, k := range keys[:2] { // the caller did not wait for the refunds
		for deadline := time.Now().Add(10 * time.Second); remaining(t, s, limit, k) != 10; {
			if time.Now().After(deadline) {
				t.Fatalf("%s was not refunded", k)
			}
		}
	}
	frozen.Thaw()
	if c := remaining(t, s, limit, keys[2]); c != 9 {
		t.Errorf("%d remain after an unknown outcome, want 9", c)
	}
}

func named(t *testing.T, name string, algorithm stint.Algorithm, n int64) stint.Limit {
	t.Helper()
	spec := stint.Spec{Name: name, Algorithm: algorithm, Limit: n, Window: 400 * 24 * time.Hour}
	if algorithm == stint.LeakyBucket {
		spec.Queue = n - 1
	}
	l, err := spec.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return l
}
