package breaker

import (
	"testing"
	"time"

	"github.com/stintdev/stint/internal/property"
)

// model is the simplest possible breaker: it remembers every call.
type model struct {
	o       Options
	state   State
	ended   []result // since the state last changed, in the order in which they ended
	since   time.Duration
	until   time.Duration
	openFor time.Duration
	probes  int // probes that succeeded
	opened  bool
}

type result struct {
	at           time.Duration
	failed, slow bool
}

func (m *model) enter(s State, now time.Duration) {
	m.state, m.ended, m.since, m.probes = s, nil, now, 0
}

// begin reports whether a call may go ahead. Calls do not overlap here.
func (m *model) begin(now time.Duration) bool {
	if m.state == Open && now >= m.until {
		m.enter(HalfOpen, now)
	}
	return m.state != Open
}

func (m *model) end(r result) {
	if m.state == HalfOpen {
		switch m.probes++; {
		case r.failed || r.slow && m.o.SlowRatio > 0:
			m.open(r.at)
		case m.probes == m.o.Probes:
			m.enter(Closed, r.at)
		}
		return
	}
	m.ended = append(m.ended, r)
	if m.tooMany(r) {
		m.open(r.at)
	}
}

func (m *model) tooMany(r result) bool {
	row := 0
	for _, e := range m.ended {
		if row++; !e.failed {
			row = 0
		}
	}
	c := m.counts(r.at)
	return r.failed && m.o.ConsecutiveFailures > 0 && row >= m.o.ConsecutiveFailures ||
		r.failed && m.o.FailureRatio > 0 && c.Calls >= m.o.MinimumCalls && float64(c.Failures)/float64(c.Calls) >= m.o.FailureRatio ||
		r.slow && m.o.SlowRatio > 0 && m.settled(r.at) && c.Calls >= m.o.SlowMinimumCalls && c.Slow >= m.o.MinimumSlow && float64(c.Slow)/float64(c.Calls) >= m.o.SlowRatio
}

// counts sums the current tenth of the window and the nine before it. A window of calls
// is the last of them.
func (m *model) counts(now time.Duration) (c Counts) {
	tenth, n := m.o.Window/10, m.o.WindowCalls
	for i, e := range m.ended {
		if n == 0 && now/tenth-e.at/tenth < 10 || i >= len(m.ended)-n {
			c.Calls++
			c.Failures += one(e.failed)
			c.Slow += one(e.slow)
		}
	}
	return c
}

func (m *model) settled(now time.Duration) bool {
	if n := m.o.WindowCalls; n > 0 {
		return len(m.ended) >= n
	}
	return now-m.since >= m.o.Window
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (m *model) open(now time.Duration) {
	longer := min(time.Duration(float64(m.openFor)*m.o.Growth), m.o.MaxOpenFor)
	if m.openFor = longer; !m.opened || m.state == Closed && m.settled(now) {
		m.openFor = m.o.OpenFor
	}
	m.opened, m.until = true, now+m.openFor
	m.enter(Open, now)
}

// With any options, calls and times, a breaker behaves like the model.
func TestBreakerIsItsModel(t *testing.T) {
	property.Check(t, func(t *property.T) {
		var clock clock
		o := drawOptions(t)
		o.Clock = clock.read
		b, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		m := &model{o: b.options}
		for range t.Int("calls", 1, 200) {
			clock.pass(drawTime(t, "pause"))
			if got, want := b.Counts(), m.counts(clock.elapsed()); got != want {
				t.Fatalf("after a pause %+v, want %+v", got, want)
			}
			call, ok := b.Begin()
			if want := m.begin(clock.elapsed()); ok != want {
				t.Fatalf("let through: %v, want %v", ok, want)
			}
			if !ok {
				continue
			}
			took := drawTime(t, "takes")
			clock.pass(took)
			r := result{at: clock.elapsed(), failed: t.Bool("fails"), slow: o.SlowAfter > 0 && took >= o.SlowAfter}
			call.end(r.failed)
			m.end(r)
			if b.State() != m.state || b.Counts() != m.counts(clock.elapsed()) {
				t.Fatalf("%v with %+v, want %v with %+v", b.State(), b.Counts(), m.state, m.counts(clock.elapsed()))
			}
		}
	})
}

func drawTime(t *property.T, label string) time.Duration {
	return time.Duration(property.Pick[int64](t, label, 0, 0, 1, 9, 10, 50, 99, 100, 101, 350, 1000, 3000))
}

func drawOptions(t *property.T) Options {
	ratios := []float64{0, 0.01, 0.25, 0.5, 1}
	calls := property.Pick[int](t, "window calls", 0, 0, 10, 11, 40)
	o := Options{
		WindowCalls:         calls,
		ConsecutiveFailures: t.Int("consecutive", 0, 4),
		FailureRatio:        property.Pick(t, "failures", ratios...),
		MinimumCalls:        t.Int("minimum", 0, 10),
		SlowRatio:           property.Pick(t, "slow", ratios...),
		SlowAfter:           100,
		SlowMinimumCalls:    t.Int("slow minimum", 0, 10),
		MinimumSlow:         t.Int("minimum slow", 0, 3),
		Window:              1000,
		OpenFor:             100,
		Growth:              property.Pick[float64](t, "growth", 0, 1, 1.5, 2, 10),
		MaxOpenFor:          time.Duration(property.Pick[int64](t, "cap", 0, 100, 150, 1000)),
		Probes:              t.Int("probes", 0, 3),
	}
	if o.SlowRatio == 0 && t.Bool("no call is slow") {
		o.SlowAfter = 0
	}
	return o
}
