package redisstore

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// TestStatesAtTheirEdges sets states at and beside every edge of a bucket, a fixed
// window or a counter of one bucket, also at the edges of other limits. It compares each script with the step
// in Go: the decision, and the state on the server.
func TestStatesAtTheirEdges(t *testing.T) {
	s := dialBoth(t)
	e := &edges{scripts: s, rand: newRand(t)}
	e.encode = encodingOf(t, Options{
		Clock:   func() time.Time { return time.UnixMicro(e.now) },
		KeepFor: time.Hour, // without it, the state of a window of 1 ms may expire before it is read
	})
	limits := edgeLimits(t)
	for i := range 1500 {
		e.limit = limits[i%len(limits)]
		switch e.limit.Algorithm() {
		case stint.FixedWindow:
			e.checkWindow()
		case stint.SlidingWindowCounter:
			e.checkCounter()
		default:
			e.checkBucket()
		}
	}
}

// edgeLimits are limits whose numbers are the greatest, the smallest, and coprime.
func edgeLimits(t *testing.T) (limits []stint.Limit) {
	t.Helper()
	for _, s := range []stint.Spec{
		{RefillRate: "100000000", Capacity: 1e9},
		{RefillRate: "1", Capacity: 1e9},
		{RefillRate: "99.9999999", Capacity: 1},
		{RefillRate: "99.99999", Capacity: 1e6},
		{RefillRate: "0.123457", Capacity: 5000},
		{RefillRate: "1.67", Capacity: 5},
		{RefillRate: "0.000003", Capacity: 1},
		{Algorithm: stint.GCRA, Limit: 1, Window: 400 * 24 * time.Hour},
		{Algorithm: stint.GCRA, Limit: 99_999_989, Window: 1009 * time.Millisecond, Capacity: 999_999_937},
		{Algorithm: stint.GCRA, Limit: 3, Window: 7 * time.Millisecond, Capacity: 4295},
		{Algorithm: stint.FixedWindow, Limit: 1, Window: time.Millisecond},
		{Algorithm: stint.FixedWindow, Limit: 99_999_989, Window: 1009 * time.Millisecond},
		{Algorithm: stint.FixedWindow, Limit: 1e9, Window: 400 * 24 * time.Hour},
		{Algorithm: stint.FixedWindow, Limit: 7, Window: time.Minute},
		{Algorithm: stint.SlidingWindowCounter, Limit: 1, Window: time.Millisecond},
		{Algorithm: stint.SlidingWindowCounter, Limit: 99_999_989, Window: 1009 * time.Millisecond},
		{Algorithm: stint.SlidingWindowCounter, Limit: 1e9, Window: 400 * 24 * time.Hour},
		{Algorithm: stint.SlidingWindowCounter, Limit: 7, Window: time.Minute},
	} {
		limits = append(limits, limitOf(t, s))
	}
	return limits
}

// edges draws a claim and a state, both at edges.
type edges struct {
	*scripts

	rand   *rand.Rand
	encode *encoding
	limit  stint.Limit
	now    int64
}

// near draws one of the numbers, or one beside it, between 0 and the greatest whole number
// of a double.
func (e *edges) near(numbers ...int64) int64 {
	n := numbers[e.rand.IntN(len(numbers))]
	return min(max(0, n+e.rand.Int64N(3)-1), maxMicros)
}

func (e *edges) checkBucket() {
	e.Helper()
	n := e.limit.Numbers()
	e.now = e.near(0, 1_787_000_000_000_000, e.rand.Int64N(5e15), maxMicros)
	full := n.Max * 1_000_000
	last := e.near(0, e.now, e.now-n.Fill, e.now-n.Fill/2, e.now-e.rand.Int64N(n.Fill+1), e.now+n.Fill, maxMicros)
	whole := e.near(0, full, full/2, e.rand.Int64N(full), 1_000_000, 1<<32, maxMicros)
	frac := e.near(0, n.Q, n.Q/2, e.rand.Int64N(n.Q), 1<<8, 1<<16, 1<<24, maxMicros)
	units := min(whole, full) / 1_000_000
	cost := min(e.near(0, 1, units, n.Max, stint.MaxCost), stint.MaxCost)
	if e.rand.IntN(3) == 0 { // a third of the values is at an edge of the encoding
		last, cost = e.now, e.rand.Int64N(4)
		whole, frac = e.near(1<<32)+1_000_000*cost, e.near(0, 1<<8, 1<<16)
	}
	for way := range 3 {
		e.decides(way, appendBucket(last, whole, frac), stint.Claim{Key: "k", Limit: e.limit, Cost: cost})
	}
}

func (e *edges) checkWindow() {
	e.Helper()
	n := e.limit.Numbers()
	e.now = e.near(0, 1_787_000_000_000_000, e.rand.Int64N(5e15), maxMicros)
	e.now = e.near(e.now, e.now-e.now%n.Window)
	window := e.now - e.now%n.Window
	start := min([]int64{window, window, window - n.Window, window + n.Window, e.near(window, e.now, maxMicros)}[e.rand.IntN(5)], maxMicros)
	count := min(e.near(0, n.Max/2, n.Max, 1e9), 1e9) // the scripts call a greater count corrupt
	cost := min(e.near(0, 1, n.Max-count, n.Max, stint.MaxCost), stint.MaxCost)
	for way := range 3 {
		state := append(appendInt7(nil, start), appendInt7(nil, count)[3:]...)
		e.decides(way, state, stint.Claim{Key: "k", Limit: e.limit, Cost: cost})
	}
}

func (e *edges) checkCounter() {
	e.Helper()
	n := e.limit.Numbers()
	e.now = e.near(0, 1_787_000_000_000_000, e.rand.Int64N(5e15), maxMicros)
	e.now = e.near(e.now, e.now-e.now%n.Width)
	newest := min(e.near(e.now/n.Width, e.now/n.Width, maxMicros/n.Width), maxMicros/n.Width)
	state := appendInt7(nil, newest)
	var counts [2]int64
	for i := range counts {
		counts[i] = min(e.near(0, n.Max/2, n.Max, e.rand.Int64N(n.Max), 1<<32-1), 1<<32-1)
		state = append(state, appendInt7(nil, counts[i])[3:]...)
	}
	part := counts[0] - int64(float64(counts[0])*float64(e.now%n.Width)/float64(n.Width)) // nearly what still counts of it
	cost := min(e.near(0, 1, n.Max-counts[1], n.Max-part, n.Max-part-counts[1], n.Max, stint.MaxCost), stint.MaxCost)
	for way := range 3 {
		e.decides(way, state, stint.Claim{Key: "k", Limit: e.limit, Cost: cost})
	}
}

// appendBucket returns the state of a bucket as package stint encodes it.
func appendBucket(last, whole, frac int64) []byte {
	state := appendInt7(nil, last)
	if whole < 1<<32 && frac < 1<<8 {
		state = append(state, appendInt7(nil, whole)[3:]...)
	} else {
		state = appendInt7(state, whole)
	}
	digits := appendInt7(nil, frac)
	for len(digits) > 0 && digits[0] == 0 {
		digits = digits[1:]
	}
	return append(state, digits...)
}

// decides compares the script of a single claim, plain.lua or take.lua with the step.
func (e *edges) decides(way int, state []byte, c stint.Claim) {
	e.Helper()
	b := e.encode.newBatch()
	if way > 0 {
		other := stint.Claim{Key: "other", Limit: c.Limit}
		b.add([]stint.Claim{other}, [...]groupFlags{1: 0, 2: dryGroup}[way])
	}
	b.add([]stint.Claim{c}, 0)
	b.invocation()
	key := b.names[len(b.names)-1]
	b.names = b.names[:0]
	e.must("SET", key, string(state))
	out, errs := e.decide(b)
	want, kept := e.step(state, &c)
	what := fmt.Sprintf("%v, way %d, cost %d at %d on % x", c.Limit, way, c.Cost, e.now, state)
	if got := out[len(out)-1]; got != want || errs[len(errs)-1] != nil {
		e.Errorf("%s:\n got %+v (%v)\nwant %+v", what, got, errs, want)
	}
	if got := e.must("GET", key); got != string(kept) {
		e.Errorf("%s: the server keeps % x, and the step % x", what, got, kept)
	}
}

// step returns the decision of the step in Go, and the state that it leaves.
func (e *edges) step(data []byte, c *stint.Claim) (stint.Decision, []byte) {
	e.Helper()
	state, err := c.Limit.DecodeState(data)
	if err != nil {
		e.Fatal(err)
	}
	d := c.Limit.Step(&state, e.now, c, false)
	if !d.Allowed || c.Cost == 0 {
		return d, data
	}
	return d, c.Limit.AppendState(nil, &state)
}
