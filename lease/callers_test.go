package lease

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// A caller that invents limits and keys, and uses them so often that they are hot, takes no
// lease from the keys of rules.
func TestCallersKeysTakeNoPlaceOfRules(t *testing.T) {
	s, err := New(stint.NewMemory(stint.MemoryOptions{}), Options{MaxKeys: 128, Time: 10 * time.Second}) // the lease time is so long that no key cools off
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rule := compile(t, stint.Spec{Rule: "orders", Limit: 100_000, Window: 10_000_000_000})
	hot := func(key string, l stint.Limit) bool {
		c := stint.Claim{Key: key, Limit: l, Cost: 1, Policy: stint.Policy{Consistency: stint.Leased}}
		for range 3 {
			if _, err := s.Take(context.Background(), c); err != nil {
				t.Fatal(err)
			}
		}
		sh, _ := s.locate(&c)
		sh.Lock()
		defer sh.Unlock()
		return sh.find(&c) != nil
	}
	callers := 0
	for i := range 5000 {
		l := compile(t, stint.Spec{Limit: int64(100_000 + i%100), Window: 10_000_000_000, FromCaller: true})
		if hot(fmt.Sprint(i), l) {
			callers++
		}
	}
	if callers != 64 {
		t.Errorf("%d keys of callers are leased, want half of 128", callers)
	}
	for i := range shardCount {
		key := ""
		for n := 0; key == ""; n++ { // a key in each shard
			if sh, _ := s.locate(&stint.Claim{Key: fmt.Sprint("r", n)}); sh == &s.shards[i] {
				key = fmt.Sprint("r", n)
			}
		}
		if !hot(key, rule) {
			t.Fatalf("shard %d: a flood took the place of a rule's key", i)
		}
	}
}

func compile(t *testing.T, s stint.Spec) stint.Limit {
	t.Helper()
	l, err := s.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return l
}
