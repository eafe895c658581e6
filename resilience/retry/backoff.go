package retry

import (
	"math"
	"time"
)

// Jitter selects how a wait is drawn at random, so that callers that failed at the same
// time do not retry at the same time.
//
// The four algorithms are those of Marc Brooker, "Exponential Backoff And Jitter", AWS
// Architecture Blog, 4 March 2015
// (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/), where
// random_between(a, b) is uniform:
//
//	None          sleep = min(cap, base * 2 ** attempt)
//	Full          sleep = random_between(0, min(cap, base * 2 ** attempt))
//	Equal         temp = min(cap, base * 2 ** attempt)
//	              sleep = temp / 2 + random_between(0, temp / 2)
//	Decorrelated  sleep = min(cap, random_between(base, sleep * 3))
//
// Here attempt counts from 0, so that the first step is base; in the simulator of the
// article it counts from 1. The sleep before the first wait is base.
type Jitter uint8

// The jitters. Full is the zero value. Of the four it causes the least load on the
// server.
const (
	Full Jitter = iota
	Equal
	Decorrelated
	None
)

// String returns the jitter in lower case: "decorrelated".
func (j Jitter) String() string {
	names := [...]string{"full", "equal", "decorrelated", "none"}
	if int(j) >= len(names) {
		return "unknown"
	}
	return names[j]
}

// Backoff computes waits. It is a plain value without clock or state. The zero value
// returns waits of 0. A negative time counts as 0, and a Base above the Cap as the Cap.
type Backoff struct {
	Base   time.Duration // the first wait before jitter
	Cap    time.Duration // the longest wait
	Jitter Jitter
}

// Wait returns how long to wait before retry n, counted from 0. last is the previous
// wait, 0 if there was none. random(n) returns a uniformly distributed integer in [0, n),
// as rand.Int64N of math/rand/v2 does.
func (b Backoff) Wait(n int, last time.Duration, random func(int64) int64) time.Duration {
	b.Cap = max(0, b.Cap)
	b.Base = min(max(0, b.Base), b.Cap)
	step := b.step(n)
	switch b.Jitter {
	case Full:
		return between(0, step, random)
	case Equal:
		return step/2 + between(0, step-step/2, random)
	case Decorrelated:
		return min(b.Cap, between(b.Base, triple(max(last, b.Base)), random))
	}
	return step
}

// step returns min(cap, base · 2^n) without an overflow.
func (b Backoff) step(n int) time.Duration {
	n = max(0, n)
	if b.Base > b.Cap>>n {
		return b.Cap
	}
	return b.Base << n
}

func triple(d time.Duration) time.Duration {
	if d > math.MaxInt64/3 {
		return math.MaxInt64
	}
	return 3 * d
}

// between returns a uniformly distributed time from a to b, both included.
func between(a, b time.Duration, random func(int64) int64) time.Duration {
	width := int64(b - a)
	if width < math.MaxInt64 {
		width++
	}
	return a + time.Duration(random(width))
}
