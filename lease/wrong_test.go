package lease_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/lease"
)

// counting wraps a store, and Unwrap returns that store.
type counting struct{ stint.Store }

func (c counting) Unwrap() stint.Store { return c.Store }

func TestWrongOrdersAreRefused(t *testing.T) {
	memory := stint.NewMemory(stint.MemoryOptions{})
	guarded, err := guard.New(memory, guard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = guarded.Close() }()
	leasing, err := lease.New(guarded, lease.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = leasing.Close() }()
	for name, c := range map[string]struct {
		store stint.Store
		want  string
	}{
		"nil":                 {nil, "the store is nil"},
		"a nil pointer":       {(*stint.Memory)(nil), "the store is nil"},
		"leases":              {leasing, "leases already"},
		"leases in a wrapper": {counting{leasing}, "leases already"},
	} {
		if _, err := lease.New(c.store, lease.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if leasing.Unwrap() != stint.Store(guarded) || guarded.Unwrap() != stint.Store(memory) {
		t.Error("the layers cannot be seen")
	}
}

func TestZeroValues(t *testing.T) {
	limit, err := stint.ParseLimit("100/m")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*lease.Store{"zero": {}, "nil": nil} {
		for _, cost := range []int64{1, 0, stint.Forget} {
			for _, how := range []stint.Consistency{stint.Strict, stint.Leased, stint.Partitioned} {
				claim := stint.Claim{Key: "k", Limit: limit, Cost: cost, Policy: stint.Policy{Consistency: how}}
				if _, err := s.Take(t.Context(), claim); !errors.As(err, new(*stint.Error)) {
					t.Errorf("%s: Take: %v", name, err)
				}
				if err := s.TakeGroups(t.Context(), []stint.Group{{Claims: []stint.Claim{claim}}}, make([]stint.Decision, 1)); !errors.As(err, new(*stint.Error)) {
					t.Errorf("%s: TakeGroups: %v", name, err)
				}
			}
		}
		if err := s.Close(); err != nil || s.Stats() != (lease.Stats{}) || s.Unwrap() != nil {
			t.Errorf("%s: %v, %+v", name, err, s.Stats())
		}
	}
}
