package stint_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stintdev/stint"
)

// at is a clock that stands still, so that examples print the same each time.
func at(t time.Time) stint.MemoryOptions {
	return stint.MemoryOptions{Clock: t.UnixMicro}
}

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func Example() {
	limit, err := stint.ParseLimit("100/m")
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "api", limit)
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := limiter.Allow(context.Background(), "user:42")
	fmt.Println(d.Allowed, d.Remaining, err)
	// Output: true 99 <nil>
}

func ExampleLimiter_AllowN() {
	limit, _ := stint.Spec{RefillRate: "2", Capacity: 10}.Compile()
	limiter, _ := stint.NewLimiter(stint.NewMemory(at(noon)), "example", limit)

	for _, cost := range []int64{7, 7, 11} {
		d, _ := limiter.AllowN(context.Background(), "upload:7", cost)
		switch {
		case d.Allowed:
			fmt.Println("allowed,", d.Remaining, "left")
		case d.RetryAfter == stint.Never:
			fmt.Println("never:", cost, "is more than", d.Limit)
		default:
			fmt.Println("come back in", d.RetryAfter)
		}
	}
	// Output:
	// allowed, 3 left
	// come back in 2s
	// never: 11 is more than 10
}

// A request may be counted under several limits at once: all are charged, or
// none.
func ExampleNewLimiter_severalLimits() {
	perSecond, _ := stint.PerSecond(2).Compile()
	perDay, _ := stint.Spec{Algorithm: stint.Quota, Limit: 1000, Period: "day"}.Compile()
	limiter, _ := stint.NewLimiter(stint.NewMemory(at(noon)), "api", perSecond, perDay)

	for range 3 {
		d, _ := limiter.Allow(context.Background(), "key:a")
		fmt.Println(d.Allowed, d.Limit, d.Remaining, d.RetryAfter)
	}
	// Output:
	// true 2 1 0s
	// true 2 0 0s
	// false 2 0 500ms
}

func ExampleLimiter_Peek() {
	limit, _ := stint.ParseLimit("5/s")
	limiter, _ := stint.NewLimiter(stint.NewMemory(at(noon)), "example", limit)
	ctx := context.Background()

	limiter.AllowN(ctx, "k", 3)
	d, _ := limiter.Peek(ctx, "k")
	fmt.Println(d.Remaining, "left, all again in", d.ResetAfter)
	limiter.Reset(ctx, "k")
	d, _ = limiter.Peek(ctx, "k")
	fmt.Println(d.Remaining, "left")
	// Output:
	// 2 left, all again in 600ms
	// 5 left
}

// A leaky bucket is a shaper: its answer says how long to wait before acting.
func ExampleLimiter_Reserve() {
	limit, _ := stint.Spec{Algorithm: stint.LeakyBucket, Limit: 10, Window: time.Second, Queue: 2}.Compile()
	limiter, _ := stint.NewLimiter(stint.NewMemory(at(noon)), "example", limit)

	for range 4 {
		r, _ := limiter.Reserve(context.Background(), "printer", 1)
		fmt.Println(r.Decision.Allowed, "act in", r.Decision.Delay, "retry in", r.Decision.RetryAfter)
	}
	// Output:
	// true act in 0s retry in 0s
	// true act in 100ms retry in 0s
	// true act in 200ms retry in 0s
	// false act in 0s retry in 100ms
}

// Cancel refunds the units that have not refilled since they were taken.
func ExampleReservation_Cancel() {
	limit, _ := stint.ParseLimit("10/h")
	limiter, _ := stint.NewLimiter(stint.NewMemory(at(noon)), "example", limit)
	ctx := context.Background()

	r, _ := limiter.Reserve(ctx, "batch", 4)
	r.Cancel(ctx)
	d, _ := limiter.Peek(ctx, "batch")
	fmt.Println(d.Remaining)
	// Output: 10
}

func ExampleLimiter_Wait() {
	limit, _ := stint.ParseLimit("1000/s")
	limiter, _ := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "crawler", limit)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()

	fmt.Println(limiter.Wait(ctx, "crawler"))
	fmt.Println(limiter.WaitN(ctx, "crawler", 1001))
	// Output:
	// <nil>
	// cost: is greater than the limit, so no wait is long enough (ask for less at once)
}

// A store takes claims of different keys and limits together. Here a request
// counts for its user and for its tenant, and charges both or neither.
func ExampleStore_takeGroups() {
	perUser, _ := stint.Spec{Rule: "user", Limit: 10, Window: time.Second}.Compile()
	perTenant, _ := stint.Spec{Rule: "tenant", Limit: 15, Window: time.Second}.Compile()
	var store stint.Store = stint.NewMemory(at(noon))

	request := func(user string, cost int64) stint.Group {
		return stint.Group{Claims: []stint.Claim{
			{Key: user, Limit: perUser, Cost: cost},
			{Key: "acme", Limit: perTenant, Cost: cost},
		}}
	}
	groups := []stint.Group{request("ann", 9), request("bob", 9)}
	out := make([]stint.Decision, 4)
	if err := store.TakeGroups(context.Background(), groups, out); err != nil {
		fmt.Println(err)
		return
	}
	for i, user := range []string{"ann", "bob"} {
		index, d := stint.Combine(groups[i].Claims, out[2*i:2*i+2])
		fmt.Println(user, d.Allowed, "decided by", groups[i].Claims[index].Limit.Rule())
	}
	// Output:
	// ann true decided by user
	// bob false decided by tenant
}
