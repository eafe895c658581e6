package storetest_test

import (
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storetest"
)

// One call in the tests of a store checks its contract. A store with expensive
// calls bounds their number.
func Example() {
	open := func(_ *testing.T, clock func() time.Time) stint.Store {
		return stint.NewMemory(stint.MemoryOptions{Clock: clock})
	}
	_ = func(t *testing.T) { // TestStore
		storetest.Run(t, open)
	}
	_ = func(t *testing.T) { // TestDearStore
		storetest.Suite{Open: open, Runs: 20, Steps: 15}.Run(t)
	}
	// Output:
}
