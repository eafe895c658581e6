package guard_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
)

// Whatever befalls the shards while many ask, every claim that is not wrong
// has an answer in time, and in the end all is as before.
func TestEveryClaimIsAnsweredWhateverHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShardedFaulty()
		g := mustNew(t, store, guard.Options{Nodes: 3})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() { askAround(t, ctx, g, uint64(i)) })
		}
		faults := []fault{nil, freezes, fails(errUnavailable), fails(errCorrupt), slows(20 * time.Millisecond)}
		for random := rand.New(rand.NewPCG(1, 2)); ctx.Err() == nil; time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond) {
			store.heal()
			if f := faults[random.IntN(len(faults))]; f != nil {
				store.befall(on(string("abc"[random.IntN(3)]), f))
			}
		}
		wg.Wait()
		store.heal()
		time.Sleep(time.Second)
		if !g.Up() {
			t.Errorf("still failing: %+v", g.Stats())
		}
		for _, key := range []string{"a/x", "b/x", "c/x"} {
			if d, err := g.Take(t.Context(), claim(t, key, stint.FailClosed)); err != nil || d.Degraded || store.isStopped(key[:1]) {
				t.Errorf("%s: got %+v, %v", key, d, err)
			}
		}
	})
}

// askAround asks for groups of random shards and policies, one each 2 ms.
func askAround(t *testing.T, ctx context.Context, g *guard.Store, seed uint64) { //nolint:revive // t comes first in tests
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	for ; ctx.Err() == nil; time.Sleep(2 * time.Millisecond) {
		var groups []stint.Group
		for range 1 + random.IntN(3) {
			var claims []stint.Claim
			for j := range 1 + random.IntN(3) {
				key := fmt.Sprintf("%c/%d/%d", "abc"[random.IntN(3)], j, random.IntN(5))
				claims = append(claims, claim(t, key, stint.OnFailure(random.IntN(3))))
			}
			if len(groups) > 0 && random.IntN(2) == 0 {
				last := &groups[len(groups)-1]
				last.Shadows = append(last.Shadows, claims)
			} else {
				groups = append(groups, stint.Group{Claims: claims, Dry: random.IntN(10) == 0})
			}
		}
		claims, _ := stint.Sizes(groups)
		out := make([]stint.Decision, claims)
		start := time.Now()
		if err := g.TakeGroups(context.WithoutCancel(ctx), groups, out); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > guard.DefaultDeadline {
			t.Errorf("took %v", took)
		}
		for _, d := range out {
			if d.Limit == 0 || !d.Allowed && d.RetryAfter <= 0 {
				t.Errorf("no answer: %+v", d)
			}
		}
	}
}
