package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stintdev/stint/resilience/breaker"
)

// The error of New lists every invalid option.
func ExampleNew() {
	_, err := breaker.New(breaker.Options{FailureRatio: 1.5, OpenFor: -time.Second})
	fmt.Println(err)
	b, err := breaker.New(breaker.Options{FailureRatio: 0.5, OpenFor: time.Second, Growth: 2, MaxOpenFor: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(b.State())
	// Output:
	// breaker: FailureRatio: is 1.5; use a share above 0, at most 1
	// breaker: OpenFor: is -1s; use a time above 0
	// closed
}

// A call with a result. Its context is passed on: a call that fails because its context
// was canceled counts neither as a success nor as a failure.
func ExampleDo() {
	b, err := breaker.New(breaker.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	stock, err := breaker.Do(ctx, b, func(context.Context) (int, error) { return 42, nil })
	fmt.Println(stock, err, b.Counts().Calls)
	_, err = breaker.Do(ctx, b, func(ctx context.Context) (int, error) {
		cancel()
		return 0, ctx.Err()
	})
	fmt.Println(err, b.Counts().Calls)
	// Output:
	// 42 <nil> 1
	// context canceled 1
}

// Do is enough for most callers: it checks the breaker, makes the call, and reports how
// the call ended.
func ExampleBreaker_Do() {
	b, err := breaker.New(breaker.Options{ConsecutiveFailures: 3, OpenFor: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 5 {
		err := b.Do(context.Background(), func(context.Context) error { return errors.New("connection refused") })
		fmt.Println(errors.Is(err, breaker.ErrRefused), b.State())
	}
	// Output:
	// false closed
	// false closed
	// false open
	// true open
	// true open
}

// Begin and its Call are for callers that must distinguish a failure from an unwanted
// answer, or that gave up themselves.
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

// Breakers with SlowAfter read the clock twice per call. A coarse clock, which all of
// them share, costs next to nothing.
func ExampleNewCoarseClock() {
	clock := breaker.NewCoarseClock(time.Millisecond)
	defer clock.Stop()
	b, err := breaker.New(breaker.Options{
		WindowCalls: 100, // the window is the last hundred calls, over any time
		SlowRatio:   0.5,
		SlowAfter:   200 * time.Millisecond,
		CoarseClock: clock,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = b.Do(context.Background(), func(context.Context) error { return nil })
	fmt.Println(err, b.Counts())
	// Output: <nil> {1 0 0}
}
