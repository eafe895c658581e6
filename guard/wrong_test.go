package guard_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/lease"
	"github.com/stintdev/stint/storekit"
)

// sharded is a store of several servers that knows its nodes.
type sharded struct{ stint.Store }

func (sharded) Shards() storekit.Shards { return oneShard{} }
func (sharded) NodeCount() int          { return 3 }

// counting wraps a store and shows which.
type counting struct{ stint.Store }

func (c counting) Unwrap() stint.Store { return c.Store }

// countingAll passes on what the store below knows.
type countingAll struct{ sharded }

func (c countingAll) Unwrap() stint.Store { return c.sharded }

func memory() stint.Store { return stint.NewMemory(stint.MemoryOptions{}) }

func TestWrongOrdersAreRefused(t *testing.T) {
	leasing := func(s stint.Store) stint.Store {
		l, err := lease.New(s, lease.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	guarded := func(s stint.Store) stint.Store { return mustNew(t, s, guard.Options{}) }
	for name, c := range map[string]struct {
		store stint.Store
		want  string
	}{
		"nil":                       {nil, "the store is nil"},
		"a nil pointer":             {(*stint.Memory)(nil), "the store is nil"},
		"leases":                    {leasing(memory()), "lease.New(guard.New(store))"},
		"leases of several servers": {leasing(sharded{memory()}), "lease.New(guard.New(store))"},
		"leases of a guard":         {leasing(guarded(memory())), "lease.New(guard.New(store))"},
		"leases in a wrapper":       {counting{leasing(memory())}, "lease.New(guard.New(store))"},
		"a guard":                   {guarded(memory()), "guarded already"},
		"a guard in a wrapper":      {counting{guarded(memory())}, "guarded already"},
		"observed shards":           {stint.ObserveStore(sharded{memory()}, "redis", observer(func(stint.Event) {})), "set Options.Observer"},
		"hidden shards":             {counting{sharded{memory()}}, "hides the shards"},
		"hidden shards, twice":      {counting{counting{sharded{memory()}}}, "hides the shards"},
	} {
		if _, err := guard.New(c.store, guard.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for name, store := range map[string]stint.Store{
		"a memory": memory(), "several servers": sharded{memory()}, "a wrapper": counting{memory()}, "a wrapper that passes all on": countingAll{sharded{memory()}},
		"an observed memory": stint.ObserveStore(memory(), "memory", observer(func(stint.Event) {})),
	} {
		if _, err := guard.New(store, guard.Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := guard.New(memory(), guard.Options{Local: func() stint.Store { return nil }}); err == nil || !strings.Contains(err.Error(), "Local") {
		t.Errorf("local decisions without a store: %v", err)
	}
}

func TestZeroValues(t *testing.T) {
	limit, err := stint.ParseLimit("1/m")
	if err != nil {
		t.Fatal(err)
	}
	claim := stint.Claim{Key: "k", Limit: limit, Cost: 1}
	for name, s := range map[string]*guard.Store{"zero": {}, "nil": nil} {
		if _, err := s.Take(t.Context(), claim); !errors.As(err, new(*stint.Error)) {
			t.Errorf("%s: Take: %v", name, err)
		}
		if err := s.TakeGroups(t.Context(), []stint.Group{{Claims: []stint.Claim{claim}}}, make([]stint.Decision, 1)); !errors.As(err, new(*stint.Error)) {
			t.Errorf("%s: TakeGroups: %v", name, err)
		}
		if err := s.Close(); err != nil || s.Up() || len(s.Stats().Shards) != 0 || s.Unwrap() != nil {
			t.Errorf("%s: it is up, or has shards", name)
		}
	}
}
