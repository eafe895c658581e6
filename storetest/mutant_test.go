package storetest

import (
	"flag"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stintdev/stint"
)

// mutant is an intentionally wrong store, and the laws that must each detect it.
type mutant struct {
	name  string
	laws  string // their names, or how they begin, parted by commas
	store func(right stint.Store, clock func() time.Time) stint.Store
}

func mutants() []mutant {
	return []mutant{
		{"retries a microsecond late", "2 truthful retry,2 truthful retry of groups,table token bucket refills,8", answering(func(_ stint.Claim, d *stint.Decision) {
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
		{"resets a microsecond late", "8,table fixed window of 3,table sliding counter of five", answering(func(_ stint.Claim, d *stint.Decision) {
			if d.ResetAfter > 0 {
				d.ResetAfter += time.Microsecond
			}
		})},
		{"rounds what is next to milliseconds", "8,table sliding counter of five", answering(func(_ stint.Claim, d *stint.Decision) {
			d.NextAfter = d.NextAfter.Round(time.Millisecond)
		})},
		{"leaves the gap out", "4,8", func(right stint.Store, clock func() time.Time) stint.Store {
			return tampered{Store: right, decision: func(_ stint.Claim, d *stint.Decision) {
				if d.RetryAfter > 0 && d.RetryAfter != stint.Never {
					d.RetryAfter -= time.Duration(d.At-clock().UnixMicro()) * time.Microsecond
				}
			}}
		}},
		{"rounds the time up", "8,table token bucket refills", func(_ stint.Store, clock func() time.Time) stint.Store {
			return openModel(nil, func() time.Time { return clock().Add(time.Microsecond - 1) })
		}},
		{"takes a bit more", "3,6 all,8", asking(func(c *stint.Claim) {
			if c.Cost > 3 {
				c.Cost--
			}
		})},
		{"starts fresh when numbers change", "5 lowering gives nothing,8,table token bucket keeps its tokens", asking(func(c *stint.Claim) {
			c.Key += c.Limit.String()
		})},
		{"gives back whatever the age", "3,8,table token bucket takes back", asking(func(c *stint.Claim) { c.At = 0 })},
		{"grants no more than is asked for twice", "extra,8", asking(func(c *stint.Claim) { c.Extra /= 2 })},
		{"delays for longer than the caller can use", "2 truthful retry,8,table leaky bucket refuses", asking(func(c *stint.Claim) { c.MaxDelay = 0 })},
		{"does not forget", "forget,8", asking(func(c *stint.Claim) {
			if c.Cost == stint.Forget {
				c.Cost = 0
			}
		})},
		{"gives back twice as much", "7,8", asking(func(c *stint.Claim) {
			if c.Cost < 0 && c.Cost != stint.Forget {
				c.Cost *= 2
			}
		})},
		{"treats alternatives as needed", "6 all,8", asking(func(c *stint.Claim) { c.AnyOf = 0 })},
		{"charges denied requests", "1,5 only charges change a state,8", func(right stint.Store, _ func() time.Time) stint.Store { return &greedy{right} }},
		{"takes groups claim by claim", "6 all or none,6 groups of many,8", func(right stint.Store, _ func() time.Time) stint.Store { return &partial{right, false} }},
		{"charges shadows always", "6 shadows,8", func(right stint.Store, _ func() time.Time) stint.Store { return &shadowless{right} }},
		{"lets time run back", "4,8,table token bucket refills", func(right stint.Store, clock func() time.Time) stint.Store {
			return &slipping{Store: right, clock: clock, seen: map[string]int64{}}
		}},
		{"empties a key whose numbers change", "5 raising never waits longer,8", func(right stint.Store, _ func() time.Time) stint.Store {
			return &resetting{Store: right, limits: map[string]stint.Limit{}}
		}},
		{"keeps a state whatever its shape", "5 another shape is another limit,8", func(right stint.Store, _ func() time.Time) stint.Store {
			limits := map[string]stint.Limit{}
			return tampered{Store: right, claim: func(c *stint.Claim) {
				if first, known := limits[c.Key+c.Limit.Name()]; known {
					c.Limit = first
				} else if c.Limit.Valid() {
					limits[c.Key+c.Limit.Name()] = c.Limit
				}
			}}
		}},
		{"knows no limits of callers", "limits of callers", asking(func(c *stint.Claim) {
			if c.Limit.Valid() {
				s := c.Limit.Spec()
				s.FromCaller = false
				c.Limit = compiled(s)
			}
		})},
		{"reads, then writes", "concurrent takes", func(right stint.Store, _ func() time.Time) stint.Store { return &racy{right} }},
		{"locks its claims one by one", "concurrent groups", func(right stint.Store, _ func() time.Time) stint.Store { return &partial{right, true} }},
		{"decides a batch on one reading", "batch", func(right stint.Store, _ func() time.Time) stint.Store { return &stale{right} }},
		{"charges dry groups", "6 dry,6 shadows,8", func(right stint.Store, _ func() time.Time) stint.Store { return &wet{right} }},
		{"fails a group for its shadow", "a wrong shadow", func(right stint.Store, _ func() time.Time) stint.Store { return &joint{right} }},
		{"fails a call for one wrong group", "one wrong,a wrong shadow", func(right stint.Store, _ func() time.Time) stint.Store { return &strict{right} }},
		{"ignores ids", "9 repeats,9 concurrent,9 denials,9 shadows,9 repeated,9 wrong", naming(func(*stint.Once) *stint.Once { return nil })},
		{"ignores bodies", "9 repeats", naming(func(o *stint.Once) *stint.Once { return &stint.Once{ID: o.ID} })},
		{"remembers denials", "9 denials", func(right stint.Store, _ func() time.Time) stint.Store {
			return &stubborn{right, map[string]bool{}}
		}},
		{"takes any claim", "wrong claims", func(right stint.Store, _ func() time.Time) stint.Store { return &careless{right} }},
	}
}

// TestMutantsFail proves that each law can fail.
func TestMutantsFail(t *testing.T) {
	setFlag(t, "rapid.nofailfile", "true")
	setFlag(t, "rapid.shrinktime", "0s")
	setFlag(t, "rapid.seed", "2026")
	if testing.Short() {
		setFlag(t, "rapid.checks", "500") // of which a short test makes a fifth
	}
	proven := map[string]bool{}
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			for name := range strings.SplitSeq(m.laws, ",") {
				l := lawOf(t, name)
				if proven[l.name] = true; !l.fails(t, m) {
					t.Errorf("passes %q", l.name)
				}
			}
		})
	}
	for _, l := range laws() {
		if !proven[l.name] && !strings.HasPrefix(l.name, "table ") {
			t.Errorf("no mutant proves that %q can fail", l.name)
		}
	}
}

// lawOf returns the first law whose name begins with the given text.
func lawOf(t *testing.T, name string) law {
	t.Helper()
	for _, l := range laws() {
		if strings.HasPrefix(l.name, name) {
			return l
		}
	}
	t.Fatalf("no law is named %q", name)
	return law{}
}

// fails reports whether the law fails a mutant.
func (l law) fails(t *testing.T, m mutant) bool {
	t.Helper()
	b := Suite{Keeps: true}.bench()
	b.store = m.store(openModel(t, b.time), b.time)
	r := &recorder{name: t.Name() + "/" + l.name}
	r.run(func() { l.check(r, b) })
	return r.Failed()
}

func setFlag(t *testing.T, name, value string) {
	t.Helper()
	before := flag.Lookup(name).Value.String()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(name, before) })
}

// recorder is a test that records only whether it failed.
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
