package adaptive

import (
	"math"
	"strings"
	"sync"
	"testing"
	"time"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// by makes an algorithm of a function.
type by func(limit float64, w Window) float64

func (f by) Next(limit float64, w Window) float64 { return f(limit, w) }

func TestLimitBoundsCallsInFlight(t *testing.T) {
	c := must(New(Options{Initial: 2}))
	one, ok1 := c.Begin()
	_, ok2 := c.Begin()
	if _, ok3 := c.Begin(); !ok1 || !ok2 || ok3 {
		t.Error(ok1, ok2, ok3)
	}
	one.End(Success)
	if _, ok := c.Begin(); !ok {
		t.Error("the freed place was not used again")
	}
	if u := c.Usage(); u != (Usage{Limit: 2, InFlight: 2, Admitted: 3, Shed: 1}) {
		t.Errorf("%+v", u)
	}
}

// The algorithm is called once per window, with all calls that were answered in it.
func TestWindows(t *testing.T) {
	now, seen := time.Duration(0), []Window(nil)
	c := must(New(Options{Clock: func() time.Time { return time.Unix(0, int64(now)) }, Algorithm: by(func(limit float64, w Window) float64 {
		seen = append(seen, w)
		return limit
	})}))
	for i := range 10 { // dropped calls end at once, and add nothing to the latency
		call, _ := c.Begin()
		now += []time.Duration{20 * time.Millisecond, time.Millisecond, 20 * time.Millisecond}[i%3]
		call.End([]Outcome{Success, Failure, Ignored}[i%3])
	}
	if len(seen) != 0 {
		t.Fatalf("three calls were ignored and seven are too few for a window, but the algorithm was called: %+v", seen)
	}
	now = 990 * time.Millisecond
	call, _ := c.Begin()
	now += 20 * time.Millisecond
	call.End(Success)
	want := Window{Calls: 8, Failures: 3, Latency: 20 * time.Millisecond, InFlight: 1}
	if len(seen) != 1 || seen[0] != want {
		t.Errorf("%+v, want one of %+v", seen, want)
	}
}

// A window reports the maximum of calls in flight. It begins with the calls that are
// still in flight when the window before it ends.
func TestWindowsKnowWhatIsInFlight(t *testing.T) {
	now, seen := time.Duration(0), []Window(nil)
	c := must(New(Options{Window: time.Second, Clock: func() time.Time { return time.Unix(0, int64(now)) }, Algorithm: by(func(limit float64, w Window) float64 {
		seen = append(seen, w)
		return limit
	})}))
	var all []Call
	for range 3 {
		call, _ := c.Begin()
		all = append(all, call)
	}
	all[0].Release()
	all[1].Release()
	call, _ := c.Begin()
	for _, at := range []time.Duration{10 * time.Second, 20*time.Second - 1, 20 * time.Second} { // fewer than ten calls: ten seconds
		now = at
		call.Answer(Success)
	}
	if len(seen) != 2 || seen[0].InFlight != 3 || seen[1] != (Window{Calls: 2, Latency: 20*time.Second - 1, InFlight: 2}) {
		t.Errorf("%+v", seen)
	}
	for _, call := range all[2:] {
		call.Release()
	}
	now = 30 * time.Second
	call.Answer(Success)
	now = 40 * time.Second
	if call.Answer(Success); seen[2].InFlight != 2 || seen[3].InFlight != 1 {
		t.Errorf("%+v", seen[2:])
	}
}

func TestClockThatRunsBackIsNoLatency(t *testing.T) {
	now, latency := time.Hour, time.Duration(-1)
	c := must(New(Options{Window: 1, Clock: func() time.Time { return time.Unix(0, int64(now)) }, Algorithm: by(func(limit float64, w Window) float64 {
		latency = w.Latency
		return limit
	})}))
	now = 2 * time.Hour
	call, _ := c.Begin()
	now -= time.Minute
	if call.End(Success); latency != 0 {
		t.Errorf("got %v", latency)
	}
}

func TestLimitBeginsBetweenItsBounds(t *testing.T) {
	for want, o := range map[int]Options{20: {}, 50: {Min: 50}, 5: {Max: 5}, 2000: {Min: 2000}} {
		if got := must(New(o)).Usage().Limit; got != want {
			t.Errorf("%+v: %d, want %d", o, got, want)
		}
	}
}

func TestLimitStaysInBounds(t *testing.T) {
	for says, want := range map[float64]int{math.Inf(1): 50, math.Inf(-1): 3, 1e300: 50, -1: 3, 10.9: 10} {
		now := time.Duration(0)
		c := must(New(Options{Min: 3, Max: 50, Clock: func() time.Time { return time.Unix(0, int64(now)) }, Algorithm: by(func(float64, Window) float64 { return says })}))
		call, _ := c.Begin()
		now = time.Hour
		call.End(Success)
		if got := c.Usage().Limit; got != want {
			t.Errorf("%v: %d, want %d", says, got, want)
		}
	}
	c := must(New(Options{Window: 1, Algorithm: by(func(float64, Window) float64 { return math.NaN() })}))
	call, _ := c.Begin()
	call.End(Success)
	if got := c.Usage().Limit; got != 20 {
		t.Errorf("NaN: %d", got)
	}
}

// An infinite limit is one that no number of calls reaches, and does not overflow below
// zero.
func TestGreatestLimit(t *testing.T) {
	c := must(New(Options{Initial: math.MaxInt, Max: math.MaxInt}))
	if _, ok := c.Begin(); !ok || c.Usage().Limit < 1<<30 {
		t.Errorf("%v, %+v", ok, c.Usage())
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	nan := math.NaN()
	for field, o := range map[string]Options{
		"Min": {Min: -1}, "Max": {Min: 5, Max: 4}, "Initial": {Initial: 2000}, "Window": {Window: -1},
		"AIMD: Timeout": {Algorithm: &AIMD{Timeout: -1}}, "AIMD: Step": {Algorithm: &AIMD{Step: -1}},
		"AIMD: Backoff: is 1": {Algorithm: &AIMD{Backoff: 1}}, "AIMD: Backoff: is NaN": {Algorithm: &AIMD{Backoff: nan}},
		"Gradient: Tolerance": {Algorithm: &Gradient{Tolerance: 0.9}}, "Gradient: Queue": {Algorithm: &Gradient{Queue: -1}},
		"Gradient: Smoothing": {Algorithm: &Gradient{Smoothing: 1.1}}, "Gradient: Windows": {Algorithm: &Gradient{Windows: nan}},
		"CPU: Full": {Algorithm: must(NewCPU(CPUOptions{Load: func() (float64, error) { return 0, nil }}))},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), "adaptive: "+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestManyAtOnceLoseNoPlace(t *testing.T) {
	c := must(New(Options{Algorithm: &AIMD{}, Window: time.Microsecond, Max: 8, Initial: 8}))
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 500 {
				if call, ok := c.Begin(); ok {
					call.End(Outcome(i % 3))
				}
			}
		})
	}
	wg.Wait()
	if u := c.Usage(); u.InFlight != 0 || u.Admitted+u.Shed != 8000 || u.Limit < 1 || u.Limit > 8 {
		t.Errorf("%+v", u)
	}
}

func TestZeroCallMayBeEnded(*testing.T) { Call{}.End(Success) }

func TestAIMD(t *testing.T) {
	for _, c := range []struct {
		name string
		a    AIMD
		w    Window
		want float64 // limit after 20 windows
	}{
		{"growsInUse", AIMD{}, Window{Calls: 10, InFlight: 10}, 21},
		{"staysUnused", AIMD{}, Window{Calls: 10, InFlight: 9}, 20},
		{"cutWhenAllFail", AIMD{}, Window{Calls: 10, Failures: 10, InFlight: 20}, 18},
		{"cutByTheShareThatFails", AIMD{}, Window{Calls: 10, Failures: 5, InFlight: 9}, 19},
		{"growsByTheShareThatIsNot", AIMD{}, Window{Calls: 10, Failures: 5, InFlight: 10}, 19.5},
		{"cutWhenSlow", AIMD{}, Window{Calls: 10, Latency: time.Second + 1, InFlight: 1}, 18},
		{"asSlowAsMayBe", AIMD{}, Window{Calls: 10, Latency: time.Second, InFlight: 20}, 21},
		{"asTold", AIMD{Timeout: time.Millisecond, Backoff: 0.5}, Window{Calls: 10, Latency: time.Second}, 10},
		{"stepsAsTold", AIMD{Step: 5}, Window{Calls: 10, InFlight: 20}, 25},
	} {
		if got := c.a.Next(20, c.w); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// learned returns a gradient that has measured 50 ms for a while.
func learned() *Gradient {
	g := &Gradient{Queue: 5}
	for range 100 {
		g.Next(100, Window{Calls: 10, Latency: 50 * time.Millisecond})
	}
	return g
}

func TestGradient(t *testing.T) {
	for _, c := range []struct {
		name string
		w    Window
		want float64 // limit after 100 windows
	}{
		{"growsByTheQueue", Window{Calls: 10, Latency: 50 * time.Millisecond, InFlight: 100}, 101},
		{"toleratesHalfAsMuchAgain", Window{Calls: 10, Latency: 75 * time.Millisecond, InFlight: 100}, 101},
		{"staysUnused", Window{Calls: 10, Latency: 500 * time.Millisecond, InFlight: 49}, 100},
		{"fallsInProportion", Window{Calls: 10, Latency: 100 * time.Millisecond, InFlight: 100}, 96},              // 80 + (75 + 5)/5
		{"byHalfAtMost", Window{Calls: 10, Latency: time.Hour, InFlight: 100}, 91},                                // 80 + (50 + 5)/5
		{"fallsByWhatFails", Window{Calls: 10, Failures: 5, Latency: 50 * time.Millisecond, InFlight: 9}, 99},     // 80 + 95/5
		{"growsByWhatIsNot", Window{Calls: 10, Failures: 5, Latency: 50 * time.Millisecond, InFlight: 100}, 99.5}, // 80 + (95 + 2.5)/5
		{"fallsWhenAllFail", Window{Calls: 10, Failures: 10, InFlight: 9}, 98},
	} {
		g := learned()
		g.seen = 1e9 // one more window does not move the baseline
		g.Windows = 1e9
		if got := g.Next(100, c.w); math.Abs(got-c.want) > 0.01 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A path that is always refused does not take places from the others while the server has
// room for them.
func TestFewRefusalsAreNoOverload(t *testing.T) {
	for name, a := range map[string]Algorithm{"AIMD": &AIMD{}, "gradient": &Gradient{}} {
		limit := 100.0
		for range 1000 {
			limit = a.Next(limit, Window{Calls: 100, Failures: 3, Latency: 50 * time.Millisecond, InFlight: min(100, int(limit))})
		}
		if limit < 100 {
			t.Errorf("%s: %v, want 100", name, limit)
		}
	}
}

// A baseline that is far too high falls in seconds, not in minutes.
func TestGradientForgetsWhatWasSlow(t *testing.T) {
	g := &Gradient{}
	for range 600 {
		g.Next(20, Window{Calls: 10, Latency: 10 * time.Second})
	}
	for range 100 {
		g.Next(20, Window{Calls: 10, Latency: 50 * time.Millisecond})
	}
	if got := time.Duration(g.baseline); got > 150*time.Millisecond {
		t.Errorf("%v after ten seconds of 50 ms", got)
	}
}

// While every call is refused at once, the baseline does not change: the served calls
// after the outage are as fast as those before it.
func TestGradientOutlivesAnOutage(t *testing.T) {
	g := learned()
	for range 300 {
		g.Next(100, Window{Calls: 10, Failures: 10, InFlight: 1})
	}
	if got := g.Next(100, Window{Calls: 10, Latency: 50 * time.Millisecond, InFlight: 100}); got != 101 {
		t.Errorf("after the outage the limit goes from 100 to %v, want 101", got)
	}
}
