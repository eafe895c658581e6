package redisstore

import (
	"context"
	"sync"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// tally is an observer that counts round trips and their claims.
type tally struct {
	mu     sync.Mutex
	trips  map[string]int // by result
	claims int
	shards map[string]bool
}

type ofTally struct{}

func (y *tally) Start(ctx context.Context, _ stint.Event) context.Context {
	return context.WithValue(ctx, ofTally{}, y)
}

func (y *tally) Observe(ctx context.Context, e stint.Event) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if ctx.Value(ofTally{}) != y || e.Kind != stint.EventStoreCall || e.Name != "redisstore" || e.Took <= 0 {
		y.trips["wrong"]++
	}
	y.trips[e.Result]++
	y.claims += e.Claims
	y.shards[e.Shard] = true
}

func newTally() *tally { return &tally{trips: map[string]int{}, shards: map[string]bool{}} }

// The round trips of many callers carry each claim once.
func TestEveryClaimIsInOneObservedRoundTrip(t *testing.T) {
	server, seen := redistest.Server(t), newTally()
	s := open(t, Options{Addrs: []string{server.Addr()}, Heartbeat: -1, Observer: seen})
	limit := named(t, "slow", stint.TokenBucket, 1000)
	const callers, calls = 16, 20
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
	_, _ = s.Take(context.Background(), stint.Claim{Key: "alone", Limit: limit, Cost: 1})
	if seen.claims != callers*calls+1 || len(seen.trips) != 1 || seen.trips["ok"] < 2 || seen.trips["ok"] > callers*calls+1 || len(seen.shards) != 1 {
		t.Errorf("%d claims in round trips %v to %v", seen.claims, seen.trips, seen.shards)
	}
}

func TestRoundTripThatFailsIsObserved(t *testing.T) {
	server, seen := redistest.Server(t), newTally()
	s := open(t, Options{Addrs: []string{server.Addr()}, Heartbeat: -1, Observer: seen})
	server.Kill()
	_, err := s.Take(t.Context(), stint.Claim{Key: "k", Limit: named(t, "slow", stint.TokenBucket, 1000), Cost: 1})
	if err == nil || seen.trips["ok"] > 0 || len(seen.trips) != 1 || seen.trips["wrong"] > 0 {
		t.Errorf("%v; observed %v", err, seen.trips)
	}
}

func TestMetricsAreThoseOfStats(t *testing.T) {
	s := open(t, Options{Addrs: []string{redistest.Server(t).Addr()}, Heartbeat: testBeat})
	eventually(t, "the clock has been compared", func() bool { return len(s.Stats().Clocks) == 1 })
	if _, err := s.Take(t.Context(), stint.Claim{Key: "k", Limit: named(t, "slow", stint.TokenBucket, 1000), Cost: 1}); err != nil {
		t.Fatal(err)
	}
	zero := (*Store)(nil).Metrics()
	for i, m := range s.Metrics() {
		if m.Name != zero[i].Name || m.Help == "" || len(m.Samples) != 1 {
			t.Errorf("%+v, of a nil store %+v", m, zero[i])
		}
		if m.Name == "store_up" && m.Samples[0].Value != 1 {
			t.Errorf("%+v", m)
		}
	}
}
