package remotetest

import (
	"context"
	"sync"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/server"
	"github.com/stintdev/stint/remotestore"
)

// tally is an observer that counts calls and their claims.
type tally struct {
	mu      sync.Mutex
	results map[string]int
	claims  int
}

func (y *tally) Start(ctx context.Context, _ stint.Event) context.Context { return ctx }

func (y *tally) Observe(_ context.Context, e stint.Event) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if e.Kind != stint.EventStoreCall || e.Name != "remotestore" || e.Took <= 0 {
		y.results["wrong"]++
	}
	y.results[e.Result]++
	y.claims += e.Claims
}

// The calls to the server carry each claim once.
func TestEveryClaimIsInOneObservedCall(t *testing.T) {
	seen := &tally{results: map[string]int{}}
	addr := serve(t, server.Config{Store: stint.NewMemory(stint.MemoryOptions{})})
	s := open(t, remotestore.Options{Addr: addr, Observer: seen})
	limit := mustLimit(t, "1000/h")
	const callers, calls = 8, 20
	var done sync.WaitGroup
	for range callers {
		done.Go(func() {
			for range calls {
				if _, err := s.Take(t.Context(), stint.Claim{Key: "k", Limit: limit, Cost: 1}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
	if seen.claims != callers*calls || len(seen.results) != 1 || seen.results["ok"] == 0 {
		t.Errorf("%d claims in calls %v", seen.claims, seen.results)
	}
	if m := s.Metrics(); m[0].Name != "store_up" || m[0].Samples[0].Value != 1 || m[1].Samples[0].Value != 0 {
		t.Errorf("%+v", m)
	}
	if m := (*remotestore.Store)(nil).Metrics(); len(m) != 2 || m[0].Samples[0].Value != 0 {
		t.Errorf("of a nil store: %+v", m)
	}
}
