package cas_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/internal/cas/casmem"
)

func brought(t *testing.T, s stint.Spec) stint.Limit {
	t.Helper()
	s.FromCaller = true
	l, err := s.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A flood of keys of limits that callers bring stops at its budget. It excludes neither
// rules, nor keys that are there, nor limits of another lifetime.
func TestCallersStopAtTheirBudget(t *testing.T) {
	const budget = 1 << 20
	server := casmem.NewServer(nil)
	s := newStore(t, casmem.New(server), cas.Options{CallerBytes: budget})
	year, minute := brought(t, stint.Spec{Algorithm: stint.FixedWindow, Limit: 1000, Window: stint.MaxWindow}), brought(t, stint.PerMinute(5))
	if d := take(t, s, stint.Claim{Key: "before", Limit: year, Cost: 1}); d.Remaining != 999 {
		t.Fatal(d)
	}
	n, failed := 0, error(nil)
	for ; n < 10_000 && failed == nil; n++ {
		_, failed = s.Take(t.Context(), stint.Claim{Key: fmt.Sprint("flood", n), Limit: year, Cost: 1})
	}
	if code, kind := kindOf(failed); code != stint.CodeExhausted || kind != stint.KindCallerBudget || n < 100 {
		t.Errorf("after %d keys: %v", n, failed)
	}
	written := 0
	for key, value := range server.Items() {
		written += len(key) + len(value)
	}
	if st := s.Stats(); st.CallerBytes > budget || st.CallerBytes < int64(written) || st.CallersRefused != 1 {
		t.Errorf("%d bytes are written, and %+v", written, st)
	}
	for name, c := range map[string]stint.Claim{
		"a key that is there": {Key: "before", Limit: year, Cost: 1}, "a peek": {Key: "new", Limit: year}, "a shorter limit": {Key: "new", Limit: minute, Cost: 1},
		"a rule": claim("new", "5/d", 1), "a reset": {Key: "flood1", Limit: year, Cost: stint.Forget},
	} {
		if d, err := s.Take(t.Context(), c); err != nil || !d.Allowed {
			t.Errorf("%s: %v %v", name, d, err)
		}
	}
}

// A key that is charged often counts once.
func TestABusyKeyOfACallerCountsOnce(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := newStore(t, casmem.New(casmem.NewServer(nil)), cas.Options{CallerBytes: 1 << 16, Clock: func() time.Time { return now }, KeepFor: time.Hour})
	l := brought(t, stint.Spec{Algorithm: stint.TokenBucket, Limit: 1_000_000, Window: time.Hour})
	for range 2000 {
		now = now.Add(time.Millisecond)
		take(t, s, stint.Claim{Key: "k", Limit: l, Cost: 1})
	}
	if st := s.Stats(); st.CallerBytes > 4<<10 {
		t.Errorf("one key counts as %d bytes", st.CallerBytes)
	}
}

// Wide groups of limits that callers bring do not hold up the groups of rules.
func TestWideGroupsOfCallersHoldUpNoRules(t *testing.T) {
	for kind, backend := range casmem.Kinds {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := casmem.New(casmem.NewServer(nil))
				b.Befall(casmem.Faults{Delay: 10 * time.Millisecond})
				s := newStore(t, backend(b), cas.Options{})
				l := brought(t, stint.PerHour(5))
				var all sync.WaitGroup
				for i := range 50 {
					var wide stint.Group
					for j := range 100 {
						wide.Claims = append(wide.Claims, stint.Claim{Key: fmt.Sprint(i, "/", j), Limit: l, Cost: 1})
					}
					all.Go(func() {
						if err := s.TakeGroups(t.Context(), []stint.Group{wide}, make([]stint.Decision, 100)); err != nil {
							t.Error(err)
						}
					})
				}
				time.Sleep(5 * time.Millisecond)
				start, g := time.Now(), stint.Group{Claims: []stint.Claim{claim("user", "5/h", 1), claim("ip", "5/h", 1)}}
				if err := s.TakeGroups(t.Context(), []stint.Group{g}, make([]stint.Decision, 2)); err != nil || time.Since(start) > 30*time.Millisecond {
					t.Errorf("a group of rules took %v: %v", time.Since(start), err)
				}
				all.Wait()
			})
		})
	}
}
