package lease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/lease"
)

// offBeside returns a node without leases over the store of a scene.
func offBeside(t *testing.T, s *scene) (*lease.Store, *far) {
	t.Helper()
	store := &far{Store: s.truth}
	off, err := lease.New(store, lease.Options{Time: -1})
	if err != nil {
		t.Fatal(err)
	}
	return off, store
}

func TestWithoutLeasesEveryCheckAsksTheStore(t *testing.T) {
	for _, how := range []stint.Consistency{stint.Strict, stint.Leased, stint.Partitioned} {
		play(t, func(s *scene) {
			off, store := offBeside(s.t, s)
			limit := s.limit(perMinute(50))
			claim := leased(limit, 1)
			claim.Policy.Consistency = how
			for i := range 60 {
				d, err := off.Take(s.t.Context(), claim)
				if err != nil || d.Allowed != (i < 50) || d.Allowed && d.Remaining != int64(49-i) {
					s.t.Fatalf("consistency %v, check %d: %+v, %v", how, i, d, err)
				}
			}
			out := make([]stint.Decision, 1)
			for range 10 {
				if err := off.TakeGroups(s.t.Context(), []stint.Group{{Claims: []stint.Claim{claim}}}, out); err != nil || out[0].Allowed {
					s.t.Fatalf("consistency %v: %+v, %v", how, out, err)
				}
			}
			if store.calls != 70 || off.Stats() != (lease.Stats{}) {
				s.t.Errorf("consistency %v: %d calls, %+v", how, store.calls, off.Stats())
			}
			if err := off.Close(); err != nil {
				s.t.Error(err)
			}
			if _, err := off.Take(s.t.Context(), claim); err != nil {
				s.t.Error("after Close:", err)
			}
		})
	}
}

// A node with leases and a node without them never admit more than a partitioned limit
// allows.
func TestNodesWithoutLeasesKeepPartitionedLimits(t *testing.T) {
	play(t, func(s *scene) {
		off, _ := offBeside(s.t, s)
		limit := s.limit(stint.Spec{Rule: "r", Limit: 600, Window: time.Minute, Capacity: 600})
		claim := leased(limit, 1)
		claim.Policy.Consistency = stint.Partitioned
		allowed := 0
		const long = 20 * time.Second
		for range long / (10 * time.Millisecond) {
			for _, node := range []*lease.Store{s.Store, off} {
				d, err := node.Take(s.t.Context(), claim)
				if err != nil {
					s.t.Fatal(err)
				}
				if d.Allowed {
					allowed++
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		if most := 600 + 10*25; allowed > most || allowed < 600 { // the store's calls take time too
			s.t.Errorf("%d were admitted, want 600 to %d", allowed, most)
		}
		if err := off.Close(); err != nil {
			s.t.Error(err)
		}
	})
}
