package guard_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/storekit"
)

// takeOnce takes a group of one claim with an ID.
func takeOnce(t *testing.T, s stint.Store, id string, c stint.Claim) (stint.Decision, error) {
	t.Helper()
	out := make([]stint.Decision, 1)
	err := s.TakeGroups(t.Context(), []stint.Group{{Claims: []stint.Claim{c}, Once: &stint.Once{ID: id}}}, out)
	if errs, _ := storekit.PartErrors(err, 1); errs != nil {
		err = errs[0]
	}
	return out[0], err
}

// No failure policy decides a group whose ID is wrong, or for which there is no room: that
// would charge it a second time, or lift the bound.
func TestMistakesWithIDsAreNotDegraded(t *testing.T) {
	for _, p := range policies {
		store := newFaulty()
		g := mustNew(t, store, guard.Options{})
		c := claim(t, "user:1", p.policy)
		if d, err := takeOnce(t, g, "id", c); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		c.Cost = 2
		d, err := takeOnce(t, g, "id", c)
		if wantCode(t, err, stint.CodeConflict); d != (stint.Decision{}) {
			t.Errorf("%v: a conflict is decided as %+v", p.policy, d)
		}
		store.befall(fails(storekit.OnceBudget(time.Second)))
		d, err = takeOnce(t, g, "other", c)
		if wantCode(t, err, stint.CodeExhausted); d != (stint.Decision{}) || !g.Up() {
			t.Errorf("%v: a group without room is decided as %+v", p.policy, d)
		}
	}
}

// What a policy answers while the store fails is not remembered: after the outage a repeat
// is decided by the store.
func TestDegradedAnswersAreNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		g := mustNew(t, store, guard.Options{})
		c := claim(t, "user:2", stint.FailOpen)
		opened(t, g, store, fails(errUnavailable), "user:1")
		if d, err := takeOnce(t, g, "id", c); err != nil || !d.Degraded || d.Repeated {
			t.Fatal(d, err)
		}
		store.heal()
		time.Sleep(300 * time.Millisecond)
		for _, repeated := range []bool{false, true} {
			if d, err := takeOnce(t, g, "id", c); err != nil || d.Degraded || d.Repeated != repeated || d.Remaining != 9 {
				t.Errorf("%+v, %v", d, err)
			}
		}
	})
}

// A repeat charges the local state no more than the store.
func TestRepeatsChargeNoLocalState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		g := mustNew(t, store, guard.Options{})
		c := claim(t, "user:2", stint.FailLocal)
		opened(t, g, store, fails(errUnavailable), "user:1")
		_, _ = g.Take(t.Context(), c) // makes the local state
		store.heal()
		time.Sleep(300 * time.Millisecond)
		for range 8 {
			if d, err := takeOnce(t, g, "id", c); err != nil || d.Degraded {
				t.Fatal(d, err)
			}
		}
		store.befall(fails(errUnavailable))
		if d, err := g.Take(t.Context(), c); err != nil || !d.Degraded || d.Remaining != 7 {
			t.Errorf("%+v, %v; want 10 − 1 − 1 − 1 to remain", d, err)
		}
	})
}
