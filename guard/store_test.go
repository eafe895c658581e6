package guard_test

import (
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/storetest"
)

func TestHealthyStoreKeepsItsContract(t *testing.T) {
	open := func(t *testing.T, clock func() int64) stint.Store {
		return mustNew(t, stint.NewMemory(stint.MemoryOptions{Clock: clock}), guard.Options{Clock: clock})
	}
	storetest.Suite{Open: open, Runs: 30}.Run(t)
}
