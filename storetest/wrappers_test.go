package storetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/lease"
	"github.com/stintdev/stint/storekit"
	"github.com/stintdev/stint/storetest"
)

func guarded(t *testing.T, store stint.Store, clock func() time.Time) stint.Store {
	t.Helper()
	s, err := guard.New(store, guard.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestGuardOfAHealthyStoreKeepsTheContract(t *testing.T) {
	storetest.Suite{Runs: 20, Open: func(t *testing.T, clock func() time.Time) stint.Store {
		return guarded(t, stint.NewMemory(stint.MemoryOptions{Clock: clock}), clock)
	}}.Run(t)
}

// The keys of the suite are of many shards, and so are its groups.
func TestGuardOfHealthyShardsKeepsTheContract(t *testing.T) {
	storetest.Suite{Runs: 10, Open: func(t *testing.T, clock func() time.Time) stint.Store {
		return guarded(t, manyShards{stint.NewMemory(stint.MemoryOptions{Clock: clock})}, clock)
	}}.Run(t)
}

// manyShards is a memory store that says it is sixteen.
type manyShards struct{ stint.Store }

func (manyShards) Shards() storekit.Shards { return hexShards{} }

// hexShards names the shards of keys by the last character of a key.
type hexShards struct{}

func (hexShards) Of(c *stint.Claim) string            { return string("0123456789abcdef"[c.Key[len(c.Key)-1]%16]) }
func (hexShards) Probe(context.Context, string) error { return nil }
func (hexShards) Stop(string)                         {}
func (hexShards) Start(string)                        {}

// Without leases the Store behaves like the store that it wraps.
func TestLeaseDecidesStrictClaimsByTheContract(t *testing.T) {
	storetest.Suite{Runs: 10, Open: func(t *testing.T, clock func() time.Time) stint.Store {
		s, err := lease.New(stint.NewMemory(stint.MemoryOptions{Clock: clock}), lease.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}}.Run(t)
}
