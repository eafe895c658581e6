package guard_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
)

// While the store fails, what callers make up takes no room from the local
// states of rules.
func TestCallersTakeNoLocalRoomOfRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counted{faulty: newFaulty()}
		store.nodes.Store(2)
		store.befall(freezes)
		g := mustNew(t, store, guard.Options{Local: func() stint.Store { return stint.NewMemory(stint.MemoryOptions{MaxKeys: 100}) }})
		take := func(key string, s stint.Spec, cost int64) stint.Decision {
			l, err := s.Compile()
			if err != nil {
				t.Fatal(err)
			}
			d, err := g.Take(t.Context(), stint.Claim{Key: key, Limit: l, Cost: cost, Policy: stint.Policy{OnFailure: stint.FailLocal}})
			if e := new(stint.Error); err != nil && (!errors.As(err, &e) || e.Kind != stint.KindCallerBudget) {
				t.Fatal(err)
			}
			return d
		}
		rule := stint.Spec{Rule: "orders", Limit: 20, Window: time.Hour}
		for i := range 50 {
			take(fmt.Sprint("used", i), rule, 10)
			take(fmt.Sprint("using", i), rule, 3)
		}
		for i := range 2000 {
			take(fmt.Sprint(i), stint.Spec{Name: fmt.Sprint(i % 300), Algorithm: stint.SlidingWindowLog, Limit: 20, Window: stint.MaxWindow, FromCaller: true}, 10)
		}
		for i := range 50 {
			if d := take(fmt.Sprint("used", i), rule, 1); d.Allowed {
				t.Fatalf("key %d of a rule was freed: %+v", i, d)
			}
			if d := take(fmt.Sprint("using", i), rule, 0); d.Remaining != 7 {
				t.Fatalf("key %d of a rule has %d left, want 7", i, d.Remaining)
			}
		}
	})
}
