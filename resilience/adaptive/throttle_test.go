package adaptive

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/resilience/internal/tenths"
)

// The throttle computes the formula of the book exactly.
func TestThrottleIsTheFormula(t *testing.T) {
	now, random := time.Duration(0), 1.0 // with this number every request is sent
	th := must(NewThrottle(ThrottleOptions{Clock: func() time.Time { return time.Unix(0, int64(now)) }, Random: func() float64 { return random }}))
	for i := range 100 {
		call, ok := th.Begin()
		if !ok {
			t.Fatal("a request was shed by a chance of 1")
		}
		call.End([]Outcome{Success, Failure, Failure, Failure}[i%4])
	}
	if got, want := th.Probability(), 50.0/101; math.Abs(got-want) > 1e-12 {
		t.Errorf("100 requests, 25 accepts: %v, want %v", got, want)
	}
	random = 50.0/101 - 1e-9
	if _, ok := th.Begin(); ok {
		t.Error("a random number just below the probability did not shed")
	}
	if got, want := th.Probability(), 51.0/102; math.Abs(got-want) > 1e-12 {
		t.Errorf("after a shed request: %v, want %v", got, want)
	}
	now = 2 * time.Minute
	if got := th.Probability(); got != 0 {
		t.Errorf("after two minutes: %v", got)
	}
}

func TestThrottleLetsAllThroughWhileAllIsWell(t *testing.T) {
	th := must(NewThrottle(ThrottleOptions{Random: func() float64 { return 0 }}))
	for i := range 100 {
		call, ok := th.Begin()
		if !ok {
			t.Fatalf("request %d was shed", i)
		}
		call.End(Success)
	}
}

// A caller that gives up tells nothing about the server.
func TestThrottleForgetsCanceledCalls(t *testing.T) {
	th := must(NewThrottle(ThrottleOptions{}))
	for range 10 {
		call, _ := th.Begin()
		call.End(Ignored)
	}
	if got := th.Probability(); got != 0 {
		t.Errorf("got %v", got)
	}
}

// Requests without an answer yet were not refused: many at once, at the start or after a
// pause, are all sent to a healthy server.
func TestManyAtOnceAreNoRefusals(t *testing.T) {
	now := time.Duration(0)
	th := must(NewThrottle(ThrottleOptions{Clock: func() time.Time { return time.Unix(0, int64(now)) }, Random: func() float64 { return 0 }}))
	for _, when := range []string{"at the start", "after a pause"} {
		var sent []Call
		for i := range 100 {
			call, ok := th.Begin()
			if !ok {
				t.Fatalf("%s, request %d was shed although no request was refused", when, i)
			}
			sent = append(sent, call)
		}
		for _, call := range sent {
			call.End(Success)
		}
		now += time.Hour
	}
}

// The throttle survives any clock: one that starts below zero, one that leaps, and one
// that goes back, which changes nothing.
func TestThrottleByAnyClock(t *testing.T) {
	now := -time.Hour
	th := must(NewThrottle(ThrottleOptions{Window: tenths.Parts, Clock: func() time.Time { return time.Unix(0, int64(now)) }, Random: func() float64 { return 1 }}))
	for _, now = range []time.Duration{-time.Hour, math.MaxInt64, 0, -1} {
		call, _ := th.Begin()
		call.End(Failure)
	}
	if got, want := th.Probability(), 3.0/4; got != want {
		t.Errorf("three requests after the leap: %v, want %v", got, want)
	}
}

func TestThrottleThatCannotBe(t *testing.T) {
	for field, o := range map[string]ThrottleOptions{"K": {K: 1}, "Window": {Window: 9}} {
		if _, err := NewThrottle(o); err == nil || !strings.Contains(err.Error(), "adaptive: "+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
