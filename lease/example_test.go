package lease_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/lease"
)

// Leases go around the guard. The base store is one that nodes share; here it is a memory
// store in its place.
func ExampleNew() {
	base := stint.NewMemory(stint.MemoryOptions{})
	guarded, err := guard.New(base, guard.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer guarded.Close()
	store, err := lease.New(guarded, lease.Options{Time: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	limit, err := stint.ParseLimit("1000000/m")
	if err != nil {
		fmt.Println(err)
		return
	}
	claim := stint.Claim{Key: "user:42", Limit: limit, Cost: 1, Policy: stint.Policy{Consistency: stint.Leased}}
	for range 1000 {
		if _, err := store.Take(context.Background(), claim); err != nil {
			fmt.Println(err)
		}
	}
	s := store.Stats()
	fmt.Println("most checks made no call:", s.Local > s.Asked)
	// Output: most checks made no call: true
}
