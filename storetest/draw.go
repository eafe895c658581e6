package storetest

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/stintdev/stint"
)

var everyAlgorithm = []stint.Algorithm{
	stint.TokenBucket, stint.GCRA, stint.FixedWindow, stint.SlidingWindowCounter,
	stint.SlidingWindowLog, stint.LeakyBucket, stint.Quota,
}

// drawLimit draws a limit of one of the algorithms.
func drawLimit(t *rapid.T, name string, algorithms ...stint.Algorithm) stint.Limit {
	return compiled(rapid.Custom(func(t *rapid.T) stint.Spec {
		s := stint.Spec{Name: name, Algorithm: rapid.SampledFrom(algorithms).Draw(t, "algorithm")}
		drawShape(t, &s)
		drawNumbers(t, &s)
		return s
	}).Filter(compiles).Draw(t, name))
}

// drawChange draws another limit over the same state.
func drawChange(t *rapid.T, l stint.Limit) stint.Limit {
	return compiled(rapid.Custom(func(t *rapid.T) stint.Spec {
		s := l.Spec()
		drawNumbers(t, &s)
		return s
	}).Filter(compiles).Draw(t, "change"))
}

func compiles(s stint.Spec) bool { return compiled(s).Valid() }

// compiled returns the limit of a spec, or the zero Limit if it is invalid.
func compiled(s stint.Spec) stint.Limit {
	l, _ := s.Compile()
	return l
}

// drawShape draws the parameters that are part of the shape of a limit: a limit
// of another shape starts fresh.
func drawShape(t *rapid.T, s *stint.Spec) {
	switch s.Algorithm {
	case stint.Quota:
		drawPeriod(t, s)
	case stint.SlidingWindowCounter:
		s.Buckets = rapid.SampledFrom([]int{1, 1, 2, 3, 6, 10, 60}).Draw(t, "buckets")
		width := drawWindow(t) / time.Duration(s.Buckets)
		s.Window = max(width-width%time.Microsecond, time.Millisecond) * time.Duration(s.Buckets)
	default:
		s.Window = drawWindow(t)
	}
}

func drawWindow(t *rapid.T) time.Duration {
	switch rapid.IntRange(0, 5).Draw(t, "window kind") {
	case 0:
		return rapid.SampledFrom([]time.Duration{time.Millisecond, 7 * 24 * time.Hour, stint.MaxWindow}).Draw(t, "window")
	case 1:
		return time.Duration(rapid.Int64Range(1000, 10_000_000).Draw(t, "window µs")) * time.Microsecond
	case 2:
		return time.Duration(rapid.Int64Range(1000, stint.MaxWindow.Microseconds()).Draw(t, "window µs")) * time.Microsecond
	}
	return rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}).Draw(t, "window")
}

func drawPeriod(t *rapid.T, s *stint.Spec) {
	s.UTCOffset = rapid.SampledFrom([]string{"", "+02:00", "-03:30", "+05:45", "+14:00", "-12:00"}).Draw(t, "offset")
	s.Period = rapid.SampledFrom([]string{"day", "week", "month", "30d", "12h"}).Draw(t, "period")
	anchors := []string{"2024-02-29T12:34:56Z", "2026-01-31T00:00:00Z", "2023-12-30T23:59:59+02:00", "2030-08-29T06:00:00-05:00"}
	if len(s.Period) > 3 { // a length needs an anchor
		anchors = append(anchors, "")
	}
	s.Anchor = rapid.SampledFrom(anchors).Draw(t, "anchor")
}

// drawNumbers draws the parameters that may change while the state stays.
func drawNumbers(t *rapid.T, s *stint.Spec) {
	s.Limit, s.Capacity, s.Queue, s.RefillRate = drawUnits(t, "limit"), 0, 0, ""
	switch s.Algorithm {
	case stint.TokenBucket:
		if rapid.Bool().Draw(t, "by rate") {
			s.Limit, s.RefillRate = 0, drawRate(t)
		}
		fallthrough
	case stint.GCRA:
		if rapid.Bool().Draw(t, "with capacity") {
			s.Capacity = drawUnits(t, "capacity")
		}
	case stint.LeakyBucket:
		s.Queue = drawUnits(t, "queue") - 1
	case stint.SlidingWindowLog:
		s.Limit = min(s.Limit, stint.MaxLogLimit)
		if s.Limit > 100 && rapid.IntRange(0, 7).Draw(t, "long log") > 0 {
			s.Limit = s.Limit%100 + 1
		}
	}
}

func drawUnits(t *rapid.T, label string) int64 {
	switch rapid.IntRange(0, 5).Draw(t, label+" kind") {
	case 0:
		return rapid.Int64Range(1, 1000).Draw(t, label)
	case 1:
		return rapid.Int64Range(1, stint.MaxLimit).Draw(t, label)
	}
	return rapid.SampledFrom([]int64{1, 2, 3, 5, 7, 10, 100}).Draw(t, label)
}

func drawRate(t *rapid.T) string {
	if rapid.Bool().Draw(t, "plain rate") {
		return rapid.SampledFrom([]string{"1", "2", "0.5", "1.67", "16.67", "0.001", "100000000", "0.333333", "3.14159265", "0.00000003"}).Draw(t, "rate")
	}
	return fmt.Sprintf("%d.%d", rapid.IntRange(0, 2000).Draw(t, "rate"), rapid.IntRange(1, 99_999).Draw(t, "decimals"))
}

// drawCost draws a cost above zero, given the latest decision.
func (h *history) drawCost(last stint.Decision) int64 {
	t, cost := h.drawn, int64(1)
	switch rapid.IntRange(0, 11).Draw(t, "cost kind") {
	case 0, 1:
		cost = last.Remaining
	case 2, 3:
		cost = last.Remaining + 1
	case 4:
		cost = last.Limit
	case 5:
		cost = last.Limit + 1
	case 6, 7:
		cost = rapid.Int64Range(1, max(1, last.Limit)).Draw(t, "cost")
	case 8:
		cost = rapid.Int64Range(1, stint.MaxCost).Draw(t, "cost")
	}
	return min(max(cost, 1), stint.MaxCost)
}

// pass advances the clock for a limit: not at all, a little, to a moment at which
// something changes, to the microsecond before or after it, or to any time.
func (h *history) pass(l stint.Limit) {
	t := h.drawn
	switch kind := rapid.IntRange(0, 9).Draw(t, "pass"); {
	case kind < 3:
	case kind == 3:
		h.clock.Add(1)
	case kind < 8 && len(h.moments) > 0:
		m := rapid.SampledFrom(h.moments).Draw(t, "moment") + rapid.Int64Range(-1, 1).Draw(t, "beside")
		h.clock.Store(max(m, h.now()))
	case kind == 8:
		h.clock.Add(rapid.Int64Range(0, l.Window().Microseconds()*3).Draw(t, "pass µs"))
	default:
		h.clock.Add(rapid.Int64Range(0, l.Window().Microseconds()/l.Max()*2).Draw(t, "pass µs"))
	}
	h.clock.Store(min(h.now(), lastTime))
}

// passOrJump is pass, but sometimes sets the clock back.
func (h *history) passOrJump(l stint.Limit) {
	if rapid.IntRange(0, 7).Draw(h.drawn, "jump back") > 0 {
		h.pass(l)
		return
	}
	back := rapid.Int64Range(1, 2*l.Window().Microseconds()).Draw(h.drawn, "back µs")
	h.clock.Store(max(1, h.now()-back))
}

// manySteps draws the number of steps of a history.
func (h *history) manySteps() int {
	return rapid.IntRange(1, h.steps).Draw(h.drawn, "steps")
}

// drawMaxDelay draws the MaxDelay of a claim, given the latest decision: mostly
// none, and otherwise a value near the delays that the claim may meet.
func (h *history) drawMaxDelay(l stint.Limit, last stint.Decision) time.Duration {
	t := h.drawn
	if l.Algorithm() != stint.LeakyBucket && rapid.IntRange(0, 7).Draw(t, "bounded anyway") > 0 {
		return 0
	}
	switch rapid.IntRange(0, 9).Draw(t, "max delay kind") {
	case 0:
		return -1
	case 1, 2:
		return last.ResetAfter + time.Duration(rapid.Int64Range(-1, 1).Draw(t, "beside"))*time.Microsecond
	case 3:
		return time.Duration(rapid.Int64Range(0, max(0, int64(last.ResetAfter))).Draw(t, "max delay"))
	case 4, 5:
		return time.Duration(rapid.Int64Range(0, 3*int64(l.Window())).Draw(t, "max delay"))
	case 6:
		return time.Duration(rapid.Int64().Draw(t, "max delay"))
	}
	return 0
}

// drawMaxWait sometimes sets the MaxWait of a leaky bucket.
func drawMaxWait(t *rapid.T, l stint.Limit) stint.Limit {
	s := l.Spec()
	if s.Algorithm != stint.LeakyBucket || rapid.Bool().Draw(t, "any wait") {
		return l
	}
	full := max(1, min(l.Numbers().Fill+2, stint.MaxWindow.Microseconds()))
	s.MaxWait = time.Duration(rapid.Int64Range(1, full).Draw(t, "max wait µs")) * time.Microsecond
	return compiled(s)
}
