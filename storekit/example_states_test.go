package storekit_test

import (
	"fmt"
	"time"

	"github.com/stintdev/stint/storekit"
)

// A store that keeps states of short lives apart from others divides a value.
func ExampleJoinValue() {
	states, ok := storekit.SplitValue(nil)
	fmt.Println(len(states), ok)
	var short []storekit.StoredState
	for _, s := range states {
		if time.Until(s.Expires) < time.Minute {
			short = append(short, s)
		}
	}
	fmt.Println(storekit.JoinValue(short) == nil)
	// Output:
	// 0 true
	// true
}
