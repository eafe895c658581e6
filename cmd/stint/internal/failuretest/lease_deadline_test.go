package failuretest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/lease"
)

// frozen is a store that answers until it is frozen, and then never.
type frozen struct {
	stint.Store

	now chan struct{} // closed: the store is frozen
}

func (s *frozen) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	if err := s.freeze(ctx); err != nil {
		return stint.Decision{}, err
	}
	return s.Store.Take(ctx, c)
}

func (s *frozen) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if err := s.freeze(ctx); err != nil {
		return err
	}
	return s.Store.TakeGroups(ctx, groups, out)
}

func (s *frozen) freeze(ctx context.Context) error {
	select {
	case <-s.now:
	default:
		return nil
	}
	<-ctx.Done()
	return &stint.Error{Code: stint.CodeTimeout, Kind: "timeout", Problem: "no answer", Err: ctx.Err()}
}

// A check of a leased key that finds no local tokens first waits for the call of
// another check. That wait counts: no check of a frozen store takes longer than one
// deadline.
func TestLeasedChecksOfAFrozenStoreEndInTime(t *testing.T) {
	for _, deadline := range []time.Duration{20 * time.Millisecond, guard.DefaultDeadline, 200 * time.Millisecond} {
		for _, mode := range []stint.Consistency{stint.Leased, stint.Partitioned} {
			t.Run(fmt.Sprint(deadline, "/", mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { leasedChecksEndInTime(t, deadline, mode) })
			})
		}
	}
}

func leasedChecksEndInTime(t *testing.T, deadline time.Duration, mode stint.Consistency) {
	memory := stint.NewMemory(stint.MemoryOptions{})
	defer memory.Close()
	store := &frozen{memory, make(chan struct{})}
	g, err := guard.New(store, guard.Options{Deadline: deadline})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	leased, err := lease.New(g, lease.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer leased.Close()
	limit, err := stint.Spec{Limit: 1000, Window: time.Second}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	c := stint.Claim{Key: "k", Limit: limit, Cost: 1, Policy: stint.Policy{Consistency: mode}}
	for range 500 { // enough to lease the key
		if _, err := leased.Take(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	close(store.now)
	var checks sync.WaitGroup
	for range 4000 { // more than the local tokens
		checks.Go(func() {
			begun := time.Now()
			d, err := leased.Take(t.Context(), c)
			if took := time.Since(begun); err != nil || took > deadline {
				t.Errorf("a check took %v, want at most %v: %+v, %v", took, deadline, d, err)
			}
		})
		time.Sleep(50 * time.Microsecond)
	}
	checks.Wait()
}
