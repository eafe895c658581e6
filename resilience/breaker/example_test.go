package breaker_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/stintdev/stint/resilience/breaker"
)

// Do is enough for most: it asks, calls, and reports how the call ended.
func ExampleBreaker_Do() {
	b, err := breaker.New(breaker.Options{ConsecutiveFailures: 3, OpenFor: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 5 {
		err := b.Do(func() error { return errors.New("connection refused") })
		var refused *breaker.RefusedError
		fmt.Println(errors.As(err, &refused), b.State())
	}
	// Output:
	// false closed
	// false closed
	// false open
	// true open
	// true open
}

// Begin and its Call are for callers who must tell a failure from an answer
// that they do not like, or who gave up themselves.
func ExampleBreaker_Begin() {
	b, err := breaker.New(breaker.Options{
		ConsecutiveFailures: 1,
		OnChange:            func(c breaker.Change) { fmt.Println(c.From, "→", c.To, "by", c.Reason) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, status := range []int{404, 200, 503} {
		call, ok := b.Begin()
		if !ok {
			return
		}
		if status >= 500 {
			call.Failure()
		} else {
			call.Success()
		}
	}
	_, ok := b.Begin()
	fmt.Println("let through:", ok)
	// Output:
	// closed → open by failures in a row
	// let through: false
}

// Breakers that look for slow calls read the clock twice a call. A coarse one,
// shared by all of them, costs next to nothing.
func ExampleCoarseClock() {
	clock, stop := breaker.CoarseClock(time.Millisecond)
	defer stop()
	b, err := breaker.New(breaker.Options{
		WindowCalls: 100, // the last hundred calls, however long ago
		SlowRatio:   0.5,
		SlowAfter:   200 * time.Millisecond,
		Clock:       clock,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = b.Do(func() error { return nil })
	fmt.Println(err, b.Counts())
	// Output: <nil> {1 0 0}
}
