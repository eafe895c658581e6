package storetest_test

import (
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storetest"
)

// TestMemoryLaws checks the contract of a store on the memory store, with default
// options and with KeepAll.
func TestMemoryLaws(t *testing.T) {
	for name, keeps := range map[string]bool{"forgets": false, "keeps": true} {
		t.Run(name, func(t *testing.T) {
			storetest.Suite{Keeps: keeps, Open: func(t *testing.T, clock func() time.Time) stint.Store {
				m := stint.NewMemory(stint.MemoryOptions{Clock: clock, KeepAll: keeps, MaxKeys: 1 << 20})
				t.Cleanup(func() { _ = m.Close() })
				return m
			}}.Run(t)
		})
	}
}
