package lease_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/lease"
)

// far is a store at the other end of a network: requests and answers take time.
type far struct {
	stint.Store

	way time.Duration

	mutex sync.Mutex
	calls int
	most  int // claims of one call
}

// note counts a call, and returns the store that decides it.
func (f *far) note(claims int) stint.Store {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.calls++
	f.most = max(f.most, claims)
	return f.Store
}

// become replaces the store at the other end.
func (f *far) become(s stint.Store) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.Store = s
}

func (f *far) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	store := f.note(1)
	time.Sleep(f.way)
	d, err := store.Take(ctx, c)
	time.Sleep(f.way)
	return d, err
}

func (f *far) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	store := f.note(len(out))
	time.Sleep(f.way)
	err := store.TakeGroups(ctx, groups, out)
	time.Sleep(f.way)
	return err
}

// scene is one node over a far store, in virtual time.
type scene struct {
	*lease.Store

	t     *testing.T
	far   *far
	truth *stint.Memory
}

func play(t *testing.T, act func(s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		truth := stint.NewMemory(stint.MemoryOptions{Clock: time.Now})
		s := &scene{t: t, truth: truth, far: &far{Store: truth, way: 500 * time.Microsecond}}
		var err error
		if s.Store, err = lease.New(s.far, lease.Options{}); err != nil {
			t.Fatal(err)
		}
		act(s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func (s *scene) limit(spec stint.Spec) stint.Limit {
	s.t.Helper()
	l, err := spec.Compile()
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

func (s *scene) take(l stint.Limit, cost int64) stint.Decision {
	s.t.Helper()
	d, err := s.Take(s.t.Context(), leased(l, cost))
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func leased(l stint.Limit, cost int64) stint.Claim {
	return stint.Claim{Key: "k", Limit: l, Cost: cost, Policy: stint.Policy{Consistency: stint.Leased}}
}

// rest lets virtual time pass.
func (s *scene) rest(d time.Duration) { time.Sleep(d) }

// makeHot makes a check every millisecond, and returns how many were allowed.
func (s *scene) makeHot(l stint.Limit, d time.Duration) (allowed int) {
	s.t.Helper()
	for range d / time.Millisecond {
		if s.take(l, 1).Allowed {
			allowed++
		}
		time.Sleep(time.Millisecond)
	}
	return allowed
}

func (s *scene) used(l stint.Limit) int64 {
	s.t.Helper()
	d, err := s.truth.Take(s.t.Context(), stint.Claim{Key: "k", Limit: l})
	if err != nil {
		s.t.Fatal(err)
	}
	return d.Limit - d.Remaining
}

func perMinute(n int64) stint.Spec {
	return stint.Spec{Rule: "r", Algorithm: stint.FixedWindow, Limit: n, Window: time.Minute}
}

func TestAHotKeyIsDecidedWithoutCalls(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(10_000))
		s.makeHot(l, 100*time.Millisecond)
		before, began := s.Stats(), time.Now()
		s.makeHot(l, time.Second)
		if took := time.Since(began); took != time.Second {
			t.Errorf("checks waited %v", took-time.Second)
		}
		after := s.Stats()
		if asked := after.Asked - before.Asked; asked != 0 {
			t.Errorf("%d checks asked the store", asked)
		}
		if calls := after.Renewed - before.Renewed; calls > 17 {
			t.Errorf("%d calls in the background in a second; want at most 17", calls)
		}
	})
}

func TestAColdKeyIsDecidedByTheStore(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(10_000))
		for i := range int64(20) {
			if d := s.take(l, 1); d.Remaining != 10_000-1-i {
				t.Fatalf("check %d: %+v", i, d)
			}
			time.Sleep(300 * time.Millisecond)
		}
		if got := s.Stats(); got.Asked != 20 || got.Granted != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestOtherClaimsPass(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(10_000))
		for range 50 {
			c := leased(l, 1)
			c.Policy.Consistency = stint.Strict
			if _, err := s.Take(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		if used := s.used(l); used != 50 || s.far.calls != 50 {
			t.Errorf("used %d in %d calls; want 50 in 50", used, s.far.calls)
		}
	})
}

// Tokens that nobody spends are refunded once the key is idle, and when the store is closed. A
// fixed window accepts all of them.
func TestUnspentTokensAreRefunded(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(s *scene)
	}{
		{"idle", func(*scene) { time.Sleep(400 * time.Millisecond) }},
		{"closed", func(s *scene) { _ = s.Close() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			play(t, func(s *scene) {
				l := s.limit(perMinute(10_000))
				time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
				s.makeHot(l, 200*time.Millisecond)
				if s.used(l) <= 200 {
					t.Fatal("nothing was leased")
				}
				test.end(s)
				if used := s.used(l); used != 200 {
					t.Errorf("the store counts %d; want the 200 that were admitted", used)
				}
				if got := s.Stats(); got.Held != 0 || got.Stranded != 0 {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// The window ends in the middle of a lease. The tokens of the lease are then void, and later
// admissions count in the next window.
func TestALeaseEndsWithItsWindow(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(stint.Spec{Rule: "r", Algorithm: stint.FixedWindow, Limit: 1000, Window: time.Second})
		end := time.Now().Truncate(time.Second).Add(2 * time.Second)
		time.Sleep(time.Until(end.Add(-150 * time.Millisecond)))
		s.makeHot(l, 149*time.Millisecond)
		time.Sleep(time.Until(end))
		if d := s.take(l, 1); d.At < end.UnixMicro() {
			t.Errorf("the first check of a window was spent from a lease of the last: %+v", d)
		}
	})
}

func TestADenialIsRemembered(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(100))
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
		if allowed := s.makeHot(l, 300*time.Millisecond); allowed != 100 {
			t.Errorf("%d admitted; want 100", allowed)
		}
		calls := s.far.calls
		if allowed := s.makeHot(l, time.Second); allowed != 0 {
			t.Errorf("%d more admitted", allowed)
		}
		if more := s.far.calls - calls; more > 11 {
			t.Errorf("%d calls for denials in a second; want one a lease time", more)
		}
		end := time.Now().Truncate(time.Minute).Add(time.Minute)
		for range 200 {
			d := s.take(l, 1)
			decided := time.UnixMicro(d.At)
			if d.Allowed || d.Remaining != 0 || time.Since(decided) > s.far.way || decided.Add(d.RetryAfter) != end {
				t.Fatalf("at %v: %+v", time.Now(), d)
			}
			s.rest(time.Millisecond)
		}
		if d := s.take(l, 101); d.RetryAfter != stint.Never {
			t.Errorf("a cost above the limit: %+v", d)
		}
	})
}

func TestAResetForgetsTheLease(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(100))
		s.makeHot(l, 300*time.Millisecond)
		if _, err := s.Take(t.Context(), leased(l, stint.Forget)); err != nil {
			t.Fatal(err)
		}
		if d := s.take(l, 1); !d.Allowed || d.Remaining != 99 {
			t.Errorf("%+v", d)
		}
	})
}

// The node holds enough tokens of one limit, and none of the other, which is exhausted. It must
// not spend a token of the first.
func TestAGroupIsDecidedWhole(t *testing.T) {
	play(t, func(s *scene) {
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
		wide, narrow := s.limit(perMinute(100_000)), perMinute(50)
		narrow.Name = "narrow"
		group := []stint.Group{{Claims: []stint.Claim{leased(wide, 1), leased(s.limit(narrow), 1)}}}
		admitted := 0
		for range 500 {
			out := make([]stint.Decision, 2)
			if err := s.TakeGroups(t.Context(), group, out); err != nil {
				t.Fatal(err)
			}
			if out[0].Allowed && out[1].Allowed {
				admitted++
			}
			if !out[0].Allowed {
				t.Fatalf("the wide limit denied: %+v", out)
			}
			time.Sleep(time.Millisecond)
		}
		if admitted != 50 {
			t.Errorf("%d admitted; want 50", admitted)
		}
		if s.Stats().Local == 0 {
			t.Error("nothing was decided locally")
		}
		_ = s.Close()
		if used := s.used(wide); used != 50 {
			t.Errorf("the wide limit counts %d; want 50", used)
		}
	})
}

// The deny cache of a large cost does not deny a small cost.
func TestLittleIsNotDeniedForMuch(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(100))
		s.take(l, 1)
		s.take(l, 1)
		if d := s.take(l, 99); d.Allowed || d.Remaining < 90 {
			t.Fatalf("%+v", d)
		}
		for i := range 50 {
			if d := s.take(l, 1); !d.Allowed {
				t.Fatalf("check %d: %+v", i, d)
			}
		}
	})
}

// A decision reports the end of its window, whichever lease decided it.
func TestADecisionTellsTheEndOfItsWindow(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(100_000))
		s.rest(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
		end := time.Now().Add(time.Minute)
		for range 500 {
			if d := s.take(l, 1); time.UnixMicro(d.At).Add(d.ResetAfter) != end {
				t.Fatalf("%+v", d)
			}
			s.rest(time.Millisecond)
		}
		if s.Stats().Local < 400 {
			t.Error("hardly anything was decided locally")
		}
	})
}

// While the store fails, its substitute grants nothing extra, and its answers do not change the
// state of the key.
func TestADegradedAnswerIsNotLearnt(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(100))
		s.far.become(degraded{})
		for range 50 {
			if d := s.take(l, 1); !d.Degraded || !d.Allowed {
				t.Fatalf("%+v", d)
			}
		}
		if got := s.Stats(); got.Local != 0 || got.Held != 0 || got.Granted != 0 {
			t.Errorf("%+v", got)
		}
		s.far.become(degraded{denies: true})
		s.take(l, 1)
		s.far.become(s.truth)
		if d := s.take(l, 1); !d.Allowed || d.Degraded {
			t.Errorf("the store is back: %+v", d)
		}
	})
}

type degraded struct{ denies bool }

func (f degraded) Take(context.Context, stint.Claim) (stint.Decision, error) {
	if f.denies {
		return stint.Decision{Degraded: true, Limit: 100, RetryAfter: time.Second}, nil
	}
	return stint.Decision{Allowed: true, Degraded: true, Limit: 100}, nil
}

func (degraded) TakeGroups(_ context.Context, _ []stint.Group, out []stint.Decision) error {
	for i := range out {
		out[i] = stint.Decision{Allowed: true, Degraded: true, Limit: 100}
	}
	return nil
}
