package remotetest

import (
	"context"
	"testing"
	"time"

	"github.com/stintdev/stint/remotestore"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/server"
)

// replicated is a store that blocks claims that wait for replicas until the test
// releases them.
type replicated struct {
	stint.Store

	let chan struct{}
}

func (s *replicated) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	for _, g := range groups {
		for _, c := range g.Claims {
			if c.Policy.Replicas > 0 && c.Cost > 0 {
				<-s.let
				return s.Store.TakeGroups(ctx, groups, out)
			}
		}
	}
	return s.Store.TakeGroups(ctx, groups, out)
}

// Claims that wait for replicas never delay other claims: they travel in calls of
// their own. A peek does not wait for replicas.
func TestClaimsThatWaitForReplicasHoldUpNoOthers(t *testing.T) {
	memory := stint.NewMemory(stint.MemoryOptions{})
	t.Cleanup(func() { _ = memory.Close() })
	store := &replicated{Store: memory, let: make(chan struct{})}
	s := open(t, remotestore.Options{Addr: serve(t, server.Config{Store: store}), Timeout: patience})
	c := stint.Claim{Key: "k", Limit: counted(t, 1000), Cost: 1, Policy: stint.Policy{Replicas: 1}}
	const waiters = 100
	ended := make(chan error, waiters)
	for range waiters {
		go func() {
			_, err := s.Take(context.Background(), c)
			ended <- err
		}()
	}
	await(t, "claims that wait for replicas", func() bool { return s.Queued() > 0 })

	peek, plain := c, c
	peek.Cost, plain.Policy.Replicas = 0, 0
	ctx, cancel := context.WithTimeout(t.Context(), patience/2)
	defer cancel()
	for range 10 {
		for _, c := range []stint.Claim{peek, plain} {
			if d, err := s.Take(ctx, c); err != nil || !d.Allowed {
				t.Fatalf("%+v: %+v, %v", c.Policy, d, err)
			}
		}
	}
	if err := s.TakeGroups(ctx, []stint.Group{{Claims: []stint.Claim{plain}}}, make([]stint.Decision, 1)); err != nil {
		t.Fatal(err)
	}
	close(store.let)
	for range waiters {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatal("claims that wait for replicas do not end")
		}
	}
}
