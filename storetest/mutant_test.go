package storetest

import (
	"context"
	"flag"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stintdev/stint"
)

// mutant is a store that is wrong on purpose, and the laws that must say so,
// each by itself.
type mutant struct {
	name  string
	laws  string // their names, or how they begin, parted by commas
	store func(right stint.Store, clock func() int64) stint.Store
}

// tampered is a right store whose claims are changed before, and decisions
// after.
type tampered struct {
	stint.Store
	claim    func(*stint.Claim)
	decision func(stint.Claim, *stint.Decision)
}

func (s tampered) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	var out [1]stint.Decision
	err := s.TakeGroups(ctx, []stint.Group{{Claims: []stint.Claim{c}}}, out[:])
	return out[0], err
}

func (s tampered) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	var asked []stint.Group
	for _, g := range groups {
		g.Claims = append([]stint.Claim(nil), g.Claims...)
		for i := range g.Claims {
			if s.claim != nil {
				s.claim(&g.Claims[i])
			}
		}
		asked = append(asked, g)
	}
	err := s.Store.TakeGroups(ctx, asked, out)
	i := 0
	for _, g := range groups {
		for _, c := range g.Claims {
			if s.decision != nil && err == nil {
				s.decision(c, &out[i])
			}
			i++
		}
	}
	return err
}

func answering(change func(c stint.Claim, d *stint.Decision)) func(stint.Store, func() int64) stint.Store {
	return func(right stint.Store, _ func() int64) stint.Store { return tampered{Store: right, decision: change} }
}

func asking(change func(c *stint.Claim)) func(stint.Store, func() int64) stint.Store {
	return func(right stint.Store, _ func() int64) stint.Store { return tampered{Store: right, claim: change} }
}

func mutants() []mutant {
	return []mutant{
		{"retries a microsecond late", "2,table token bucket refills,8", answering(func(_ stint.Claim, d *stint.Decision) {
			if d.RetryAfter > 0 && d.RetryAfter != stint.Never {
				d.RetryAfter += time.Microsecond
			}
		})},
		{"retries a microsecond early", "2,table fixed window of 3,8", answering(func(_ stint.Claim, d *stint.Decision) {
			if d.RetryAfter > time.Microsecond && d.RetryAfter != stint.Never {
				d.RetryAfter -= time.Microsecond
			}
		})},
		{"says never of the whole limit", "2 truthful retry,8", answering(func(c stint.Claim, d *stint.Decision) {
			if !d.Allowed && c.Cost == d.Limit {
				d.RetryAfter = stint.Never
			}
		})},
		{"resets a microsecond late", "8,table", answering(func(_ stint.Claim, d *stint.Decision) {
			if d.ResetAfter > 0 {
				d.ResetAfter += time.Microsecond
			}
		})},
		{"rounds what is next to milliseconds", "8,table sliding counter of five", answering(func(_ stint.Claim, d *stint.Decision) {
			d.NextAfter = d.NextAfter.Round(time.Millisecond)
		})},
		{"leaves the gap out", "4,8", func(right stint.Store, clock func() int64) stint.Store {
			return tampered{Store: right, decision: func(_ stint.Claim, d *stint.Decision) {
				if d.RetryAfter > 0 && d.RetryAfter != stint.Never {
					d.RetryAfter -= time.Duration(d.At-clock()) * time.Microsecond
				}
			}}
		}},
		{"takes a bit more", "3,6 all,8", asking(func(c *stint.Claim) {
			if c.Cost > 3 {
				c.Cost--
			}
		})},
		{"starts fresh when numbers change", "5 lowering,8,table token bucket keeps its tokens", asking(func(c *stint.Claim) {
			c.Key += c.Limit.String()
		})},
		{"gives back whatever the age", "3,8,table token bucket takes back", asking(func(c *stint.Claim) { c.At = 0 })},
		{"grants no more than is asked for twice", "extra,8", asking(func(c *stint.Claim) { c.Extra /= 2 })},
		{"does not forget", "forget,8", asking(func(c *stint.Claim) {
			if c.Cost == stint.Forget {
				c.Cost = 0
			}
		})},
		{"treats alternatives as needed", "6 all,8", asking(func(c *stint.Claim) { c.Any = 0 })},
		{"charges denied requests", "1,8", func(right stint.Store, _ func() int64) stint.Store { return &greedy{right} }},
		{"takes groups claim by claim", "6,8", func(right stint.Store, _ func() int64) stint.Store { return &partial{right, false} }},
		{"charges shadows always", "6 shadow,8", func(right stint.Store, _ func() int64) stint.Store { return &shadowless{right} }},
		{"lets time run back", "4,8,table token bucket refills", func(right stint.Store, clock func() int64) stint.Store {
			return &slipping{Store: right, clock: clock, seen: map[string]int64{}}
		}},
		{"reads, then writes", "concurrent takes", func(right stint.Store, _ func() int64) stint.Store { return &racy{right} }},
		{"locks its claims one by one", "concurrent groups", func(right stint.Store, _ func() int64) stint.Store { return &partial{right, true} }},
		{"decides a batch on one reading", "batch", func(right stint.Store, _ func() int64) stint.Store { return &stale{right} }},
		{"fails a call for one wrong group", "one wrong", func(right stint.Store, _ func() int64) stint.Store { return &strict{right} }},
		{"takes any claim", "wrong claims", func(right stint.Store, _ func() int64) stint.Store { return &careless{right} }},
	}
}

// greedy charges a unit for a denial, if there is one.
type greedy struct{ stint.Store }

func (s *greedy) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	d, err := s.Store.Take(ctx, c)
	if err == nil && !d.Allowed {
		c.Cost = 1
		_, err = s.Store.Take(ctx, c)
	}
	return d, err
}

func (s *greedy) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	err := s.Store.TakeGroups(ctx, groups, out)
	for _, g := range groups {
		for _, c := range g.Claims {
			if len(groups) == 1 && err == nil && !out[0].Allowed {
				c.Cost, c.Any = 1, 0
				_, err = s.Store.Take(ctx, c)
			}
		}
	}
	return err
}

// partial takes each claim of a group by itself; careful, it looks first.
type partial struct {
	stint.Store
	careful bool
}

func (s *partial) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	i := 0
	for _, g := range groups {
		if s.careful && s.denied(ctx, g) {
			return s.Store.TakeGroups(ctx, groups, out)
		}
		runtime.Gosched()
		for _, c := range g.Claims {
			var err error
			if out[i], err = s.Take(ctx, c); err != nil {
				return err
			}
			i++
		}
	}
	return nil
}

func (s *partial) denied(ctx context.Context, g stint.Group) bool {
	for _, c := range g.Claims {
		cost := c.Cost
		c.Cost = 0
		if d, err := s.Take(ctx, c); err != nil || d.Remaining < cost {
			return true
		}
	}
	return false
}

type shadowless struct{ stint.Store }

func (s *shadowless) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	var enforced []stint.Group
	for _, g := range groups {
		g.Shadow = false
		enforced = append(enforced, g)
	}
	return s.Store.TakeGroups(ctx, enforced, out)
}

// slipping drops a state from the future.
type slipping struct {
	stint.Store
	clock func() int64
	seen  map[string]int64
}

func (s *slipping) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	if now := s.clock(); c.Cost > 0 {
		if now < s.seen[c.Key] {
			forget := c
			forget.Cost = stint.Forget
			if _, err := s.Store.Take(ctx, forget); err != nil {
				return stint.Decision{}, err
			}
		}
		s.seen[c.Key] = now
	}
	return s.Store.Take(ctx, c)
}

func (s *slipping) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	var err error
	out[0], err = s.Take(ctx, groups[0].Claims[0])
	return err
}

// racy decides on a reading that may be old by the time it charges.
type racy struct{ stint.Store }

func (s *racy) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	peek := c
	peek.Cost = 0
	d, err := s.Store.Take(ctx, peek)
	if err != nil || d.Remaining < c.Cost {
		return s.Store.Take(ctx, c)
	}
	runtime.Gosched()
	if _, err := s.Store.Take(ctx, c); err != nil {
		return d, err
	}
	d.Remaining -= c.Cost
	return d, nil
}

// stale decides all groups of a call as if each came first.
type stale struct{ stint.Store }

func (s *stale) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	for i := range groups {
		peek := groups[i].Claims[0]
		cost := peek.Cost
		peek.Cost = 0
		d, err := s.Take(ctx, peek)
		if err != nil {
			return err
		}
		d.Allowed = d.Remaining >= cost
		out[i] = d
	}
	return nil
}

type strict struct{ stint.Store }

func (s *strict) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	for _, g := range groups {
		if err := validate(g); err != nil {
			return err
		}
	}
	return s.Store.TakeGroups(ctx, groups, out)
}

// careless answers what it cannot decide with a denial.
type careless struct{ stint.Store }

func (s *careless) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	d, _ := s.Store.Take(ctx, c)
	return d, nil
}

// TestMutantsFail proves of each law that it can fail.
func TestMutantsFail(t *testing.T) {
	setFlag(t, "rapid.nofailfile", "true")
	setFlag(t, "rapid.shrinktime", "0s")
	setFlag(t, "rapid.seed", "2026")
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			for name := range strings.SplitSeq(m.laws, ",") {
				if caught := caughtBy(t, m, name); !caught {
					t.Errorf("no law %q failed it", name)
				}
			}
		})
	}
}

// caughtBy reports whether one of the laws whose name begins so fails the
// mutant.
func caughtBy(t *testing.T, m mutant, name string) bool {
	for _, l := range laws() {
		if !strings.HasPrefix(l.name, name) {
			continue
		}
		b := Suite{Keeps: true}.bench()
		b.store = m.store(openModel(t, b.clock.Load), b.clock.Load)
		r := &recorder{name: t.Name() + "/" + l.name}
		if r.run(func() { l.check(r, b) }); r.Failed() {
			return true
		}
	}
	return false
}

func setFlag(t *testing.T, name, value string) {
	t.Helper()
	before := flag.Lookup(name).Value.String()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(name, before) })
}

// recorder is a test of which only failure is told.
type recorder struct {
	rapid.TB
	name   string
	mu     sync.Mutex
	failed bool
}

// run runs f to its end or its first fatal failure.
func (r *recorder) run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func (r *recorder) Helper()               {}
func (r *recorder) Name() string          { return r.name }
func (r *recorder) Logf(string, ...any)   {}
func (r *recorder) Log(...any)            {}
func (r *recorder) Errorf(string, ...any) { r.Fail() }
func (r *recorder) Error(...any)          { r.Fail() }
func (r *recorder) Fatalf(string, ...any) { r.FailNow() }
func (r *recorder) Fatal(...any)          { r.FailNow() }
func (r *recorder) FailNow()              { r.Fail(); runtime.Goexit() }

func (r *recorder) Fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}
