package bulkhead_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stintdev/stint/resilience/bulkhead"
)

// Each dependency has its own places: the one that hangs fills its own places, and calls
// to the other go ahead.
func ExampleNewSet() {
	s, err := bulkhead.NewSet(bulkhead.SetOptions{Each: bulkhead.Options{Limit: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	hangs, err := s.Acquire(ctx, "billing")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hangs.Release()
	for _, name := range []string{"billing", "search"} {
		err := s.Do(ctx, name, func(context.Context) error { return nil })
		fmt.Println(name, errors.Is(err, bulkhead.ErrFull))
	}
	// Output:
	// billing true
	// search false
}

// A call that finds no free place waits in the queue, at most for MaxWait.
func ExampleBulkhead_Do() {
	b, err := bulkhead.New(bulkhead.Options{Limit: 1, Queue: 1, MaxWait: time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	err = b.Do(ctx, func(ctx context.Context) error {
		return b.Do(ctx, func(context.Context) error { return nil }) // waits for the place that the outer call holds
	})
	fmt.Println(errors.Is(err, bulkhead.ErrWaited), b.Usage().InUse)
	// Output: true 0
}

// At most ten calls at once; twenty more wait, each for at most a second.
func ExampleNew() {
	b, err := bulkhead.New(bulkhead.Options{Limit: 10, Queue: 20, MaxWait: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	stock, err := bulkhead.Do(context.Background(), b, func(context.Context) (int, error) { return 42, nil })
	fmt.Println(stock, err, b.Usage().Admitted)
	// Output: 42 <nil> 1
}
