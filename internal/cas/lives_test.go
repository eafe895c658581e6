package cas_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/internal/cas/casmem"
	"github.com/stintdev/stint/storekit"
)

// covering is a memo that covers every horizon.
type covering struct{}

func (covering) Covers(time.Duration) bool { return true }

// heldSwaps is a backend that makes the swaps of a key once its gate is open, and notes their lives.
type heldSwaps struct {
	*casmem.Backend
	gates map[string]chan struct{}
	lives map[string]map[string]time.Duration
}

func (b *heldSwaps) Load(ctx context.Context, loads []cas.Load) (time.Time, error) {
	now, err := b.Backend.Load(ctx, loads)
	for i := range loads {
		loads[i].Item.Memo = covering{}
	}
	return now, err
}

func (b *heldSwaps) Swap(ctx context.Context, swaps []cas.Swap) (time.Time, error) {
	<-b.gates[swaps[0].Key]
	b.lives[swaps[0].Key] = swaps[0].Lives
	return b.Backend.Swap(ctx, swaps)
}

// A swap whose caller has left, and whose round another call has in use, has the lives of its own
// limits.
func TestASwapThatWasGivenUpKeepsItsLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		close(open)
		b := &heldSwaps{Backend: casmem.New(casmem.NewServer(nil)), lives: map[string]map[string]time.Duration{},
			gates: map[string]chan struct{}{"=a": make(chan struct{}), "=b": make(chan struct{}), "=c": open}}
		s := newStore(t, b, cas.Options{InFlight: 1, Heartbeat: -1})
		go func() { _, _ = s.Take(t.Context(), claim("a", "5/h", 1)) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = s.Take(ctx, claim("b", "5/h", 1)) }() // waits behind the swap of the first key
		synctest.Wait()
		close(b.gates["=a"])
		synctest.Wait()
		cancel()
		synctest.Wait()
		go func() { _, _ = s.Take(t.Context(), claim("c", "5/d", 1)) }()
		synctest.Wait()
		close(b.gates["=b"])
		synctest.Wait()
		scope := storekit.ScopeOf(claim("b", "5/h", 1).Limit).String()
		if got := b.lives["=b"]; len(got) != 1 || got[scope] != time.Hour {
			t.Errorf("the lives are %v", got)
		}
	})
}
