package stint_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
)

// seen is an observer that keeps the events, and checks the contexts that it gets.
type seen struct {
	mu     sync.Mutex
	starts int
	events []stint.Event
	lost   int // events whose context did not come from Start
}

type started struct{ of *seen }

func (s *seen) Start(ctx context.Context, e stint.Event) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts++
	return context.WithValue(ctx, started{s}, e.Name)
}

func (s *seen) Observe(ctx context.Context, e stint.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Value(started{s}) != e.Name {
		s.lost++
	}
	s.events = append(s.events, e)
}

// lines returns the events as text, and forgets them.
func (s *seen) lines() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		line := fmt.Sprintf("%v %s %s %s", e.Kind, e.Name, e.Op, e.Result)
		if e.Limit.Valid() {
			line += " by " + e.Limit.Name()
		}
		all = append(all, line)
	}
	s.events = nil
	return all
}

// want checks the events since the last check, one a line.
func (s *seen) want(t *testing.T, want ...string) {
	t.Helper()
	if got := s.lines(); !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
	if s.lost > 0 {
		t.Errorf("%d events lack the context of their start", s.lost)
	}
}

func TestLimiterReportsEveryOperation(t *testing.T) {
	for name, specs := range map[string][]stint.Spec{
		"one limit":      {{Name: "hour", Limit: 3, Window: time.Hour}},
		"several limits": {{Name: "day", Limit: 90, Window: 24 * time.Hour}, {Name: "hour", Limit: 3, Window: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &seen{}
			l := newLimiter(t, specs...).WithObserver(s).With(stint.Policy{OnFailure: stint.FailClosed})
			_, _ = l.Allow(t.Context(), "k")
			r, _ := l.Reserve(t.Context(), "k", 2)
			_, _ = l.AllowN(t.Context(), "k", 1)
			_ = r.Cancel(t.Context())
			_, _ = l.Peek(t.Context(), "k")
			_, _, _ = l.AllowEach(t.Context(), "k", 1, 0, make([]stint.Decision, len(specs)))
			_ = l.Reset(t.Context(), "k")
			s.want(t,
				"decision test take allowed by hour", "decision test take allowed by hour", "decision test take denied by hour",
				"decision test refund allowed by hour", "decision test peek allowed by hour", "decision test take allowed by hour",
				"decision test reset allowed by hour")
			_, _ = l.AllowN(t.Context(), "", 5)
			s.want(t, "decision test take invalid")
			if s.starts != 8 {
				t.Errorf("%d starts", s.starts)
			}
		})
	}
}

func TestEventOfADecisionHasItsNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &seen{}
		limit := mustLimit(t, stint.PerHour(3))
		l := limiterOver(t, &slow{Store: stint.NewMemory(stint.MemoryOptions{}), away: 3 * time.Millisecond}, limit).WithObserver(s)
		d, _ := l.AllowN(t.Context(), "k", 2)
		if e := s.events[0]; e.Cost != 2 || e.Took != 3*time.Millisecond || e.Decision != d || e.Limit != l.Limits()[0] {
			t.Errorf("%+v", e)
		}
	})
}

// A wait is one event, with the time of the whole wait.
func TestWaitIsOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &seen{}
		l := newLimiter(t, stint.Spec{Name: "second", Limit: 1, Window: time.Second}).WithObserver(s)
		for range 3 {
			if err := l.Wait(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
		}
		if e := s.events[2]; e.Took != time.Second {
			t.Errorf("took %v", e.Took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		_ = l.Wait(ctx, "k")
		_, _ = l.WaitWithin(t.Context(), "k", 1, time.Millisecond)
		_, _ = l.WaitWithin(t.Context(), "k", 1, 0)
		waits := slices.Repeat([]string{"decision test wait allowed by second"}, 3)
		s.want(t, append(waits, "decision test wait canceled", "decision test wait denied by second", "decision test take denied by second")...)
	})
}

// A limiter, its observed copy, and copies of that share their queues and their state.
func TestObservedLimiterIsTheSameLimiter(t *testing.T) {
	s := &seen{}
	plain := newLimiter(t, stint.PerHour(3))
	l := plain.WithObserver(s)
	_, _ = l.AllowN(t.Context(), "k", 2)
	if d, _ := plain.Peek(t.Context(), "k"); d.Remaining != 1 || l.Name() != plain.Name() || len(l.Limits()) != 1 {
		t.Errorf("%+v", d)
	}
	s.lines()
	for name, l := range map[string]*stint.Limiter{
		"plain": plain, "none": l.WithObserver(nil), "a nil pointer": l.WithObserver((*seen)(nil)), "nil": (*stint.Limiter)(nil).WithObserver(s),
	} {
		_, _ = l.Allow(t.Context(), "k")
		if got := s.lines(); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	other := &seen{}
	_, _ = l.WithObserver(other).WithClock(nil).Allow(t.Context(), "k")
	s.want(t)
	other.want(t, "decision test take denied by token_bucket:1h")
}

func TestResultSaysWhoDecided(t *testing.T) {
	s, store := &seen{}, &answering{}
	l := limiterOver(t, store, mustLimit(t, stint.PerHour(3))).WithObserver(s)
	for want, d := range map[string]stint.Decision{
		"allowed": {Allowed: true}, "denied": {}, "degraded_allowed": {Allowed: true, Degraded: true}, "degraded_denied": {Degraded: true}, "unavailable": {Degraded: true, Unavailable: true},
	} {
		store.decision = d
		_, _ = l.Allow(t.Context(), "k")
		s.want(t, "decision test take "+want+" by token_bucket:1h")
	}
	for want, err := range map[string]error{
		"readonly": &stint.Error{Code: stint.CodeUnavailable, Kind: "readonly"}, "timeout": &stint.Error{Code: stint.CodeTimeout}, "internal": errors.New("a store's own"),
	} {
		store.err = err
		_, _ = l.Allow(t.Context(), "k")
		s.want(t, "decision test take "+want)
	}
}

// answering is a store that answers as it is told.
type answering struct {
	stint.Store

	decision stint.Decision
	err      error
}

func (a *answering) Take(context.Context, stint.Claim) (stint.Decision, error) {
	return a.decision, a.err
}

func TestJointLimiterReportsToTheObserversOfItsLimiters(t *testing.T) {
	user, tenant, _ := userAndTenant(t, time.Hour)
	s, other := &seen{}, &seen{}
	both, err := stint.Join(user.WithObserver(s), tenant.WithObserver(s))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = both.Allow(t.Context(), "u", "t")
	r, _ := both.Reserve(t.Context(), 1, "u", "t")
	_ = r.Cancel(t.Context())
	_ = both.Wait(t.Context(), "u", "t")
	name := user.Name() + "+" + tenant.Name()
	for i, line := range s.lines() {
		if op := []string{"take", "take", "refund", "wait"}[i]; !strings.HasPrefix(line, "decision "+name+" "+op+" allowed") {
			t.Error(line)
		}
	}
	both, _ = stint.Join(user.WithObserver(s), tenant.WithObserver(other))
	if _, _, err := both.AllowEach(t.Context(), 1, 0, make([]stint.Decision, len(both.Limits())), "u", "t"); err != nil {
		t.Error(err)
	}
	if a, b := s.lines(), other.lines(); len(a) != 1 || !slices.Equal(a, b) {
		t.Errorf("%v and %v", a, b)
	}
	both, _ = stint.Join(user.WithObserver(stint.Observers(s, other)), tenant.WithObserver(stint.Observers(other, s)))
	_, _ = both.Allow(t.Context(), "u", "t")
	if a, b := s.lines(), other.lines(); len(a) != 1 || !slices.Equal(a, b) {
		t.Errorf("of combined observers: %v and %v", a, b)
	}
}

func TestObservedStore(t *testing.T) {
	s, memory := &seen{}, stint.NewMemory(stint.MemoryOptions{})
	store := stint.ObserveStore(memory, "memory", s)
	hour := mustLimit(t, stint.PerHour(3))
	groups := []stint.Group{{Claims: []stint.Claim{{Key: "a", Limit: hour, Cost: 1}}}, {Claims: []stint.Claim{{Key: "", Limit: hour, Cost: 1}}}}
	_, _ = store.Take(t.Context(), groups[0].Claims[0])
	_ = store.TakeGroups(t.Context(), groups, make([]stint.Decision, 2))
	if events := s.events; events[0].Claims != 1 || events[1].Claims != 2 || events[1].Err == nil {
		t.Errorf("%+v", events)
	}
	s.want(t, "store call memory  ok", "store call memory  invalid")
	for name, unchanged := range map[string]stint.Store{
		"no observer": stint.ObserveStore(memory, "memory", nil), "a nil pointer": stint.ObserveStore(memory, "memory", (*seen)(nil)),
	} {
		if unchanged != stint.Store(memory) {
			t.Errorf("%s: %T", name, unchanged)
		}
	}
	if stint.ObserveStore(nil, "memory", s) != nil {
		t.Error("a missing store is hidden")
	}
	if u, ok := store.(interface{ Unwrap() stint.Store }); !ok || u.Unwrap() != stint.Store(memory) {
		t.Error("the store is not found below")
	}
}

// Every observer gets every event, with a context that has what all of them put there.
func TestObserversGetTheSameEvents(t *testing.T) {
	a, b := &seen{}, &seen{}
	l := newLimiter(t, stint.PerHour(3)).WithObserver(stint.Observers(nil, a, (*seen)(nil), stint.Observers(b)))
	_, _ = l.Allow(t.Context(), "k")
	a.want(t, "decision test take allowed by token_bucket:1h")
	b.want(t, "decision test take allowed by token_bucket:1h")
	if stint.Observers() != nil || stint.Observers(nil, (*seen)(nil)) != nil || stint.Observers(a, nil) != stint.Observer(a) {
		t.Error("observers that are missing are not left out")
	}
}

// The totals of many callers are exact.
func TestEveryDecisionIsReportedOnce(t *testing.T) {
	s, calls := &seen{}, &seen{}
	hour, err := stint.NewLimiter(stint.ObserveStore(stint.NewMemory(stint.MemoryOptions{}), "memory", calls), "test", mustLimit(t, stint.PerHour(50)))
	if err != nil {
		t.Fatal(err)
	}
	l := hour.WithObserver(s)
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 20 {
				_, _ = l.Allow(t.Context(), "k")
			}
		})
	}
	callers.Wait()
	allowed := slices.DeleteFunc(s.lines(), func(line string) bool { return !strings.Contains(line, " allowed ") })
	if len(allowed) != 50 || s.starts != 160 || len(calls.events) != 160 || s.lost+calls.lost > 0 {
		t.Errorf("%d allowed, %d starts, %d calls", len(allowed), s.starts, len(calls.events))
	}
}

// panicking is an observer that panics where it is told to.
type panicking struct{ atStart bool }

func (p *panicking) Start(ctx context.Context, _ stint.Event) context.Context {
	if p.atStart {
		panic("at the start")
	}
	return ctx
}

func (p *panicking) Observe(context.Context, stint.Event) { panic("at the end") }

// A panic of an observer reaches the caller. The limiter and its store stay usable; the
// decision before a panic at the end stands.
func TestPanicOfAnObserverReachesTheCaller(t *testing.T) {
	for _, atStart := range []bool{true, false} {
		for name, specs := range map[string][]stint.Spec{"one limit": {stint.PerHour(3)}, "several": {stint.PerHour(3), stint.PerDay(9)}} {
			plain := newLimiter(t, specs...)
			l := plain.WithObserver(&panicking{atStart})
			for range 3 {
				for _, call := range []func(){func() { _, _ = l.Allow(t.Context(), "k") }, func() { _ = l.Wait(t.Context(), "other") }} {
					func() {
						defer func() {
							if recover() == nil {
								t.Error("no panic")
							}
						}()
						call()
					}()
				}
			}
			want := int64(0)
			if atStart {
				want = 3
			}
			if d, err := plain.Peek(t.Context(), "k"); err != nil || d.Remaining != want {
				t.Errorf("%s, at the start %v: %+v, %v", name, atStart, d, err)
			}
		}
	}
}

func TestKindsOfEventsHaveNames(t *testing.T) {
	var names []string
	for k := stint.EventDecision; k <= stint.EventRetry+1; k++ {
		names = append(names, k.String())
	}
	if got := strings.Join(names, ", "); got != "decision, store call, breaker, request, attempt, refusal, retry, event(7)" {
		t.Error(got)
	}
}
