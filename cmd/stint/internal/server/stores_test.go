package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
)

// A node with several stores says of each server whose it is. It is up if all of its stores
// are, and its last error is the latest of all.
func TestNodesNameTheirStores(t *testing.T) {
	down := metrics.SharedStats{
		Lease: &metrics.LeaseStats{Keys: 1, Held: 5}, Clocks: []metrics.ClockStats{{Skew: time.Second}},
		Breakers: []metrics.BreakerStats{{Shard: "10.0.0.5:6379", Open: true}},
	}
	calls := metrics.NewStoreCalls(false)
	calls.Observe(context.Background(), stint.Event{Kind: stint.EventStoreCall, Err: &stint.Error{Code: stint.CodeTimeout}})
	s := run(t, Config{
		Shared: func() metrics.SharedStats {
			return metrics.SharedStats{Up: true, Lease: &metrics.LeaseStats{Keys: 2, Held: 7}, Breakers: []metrics.BreakerStats{{}}}
		},
		Stores:      []metrics.StoreReader{{Name: "critical", Calls: calls, Shared: func() metrics.SharedStats { return down }}},
		KeptCharges: func() uint64 { return 3 },
	})
	got := statusOf(t, s)
	if got.StoreUp || got.LastError == nil || got.LastError.Kind != "critical: timeout" || got.Leases == nil || got.Leases.Keys != 3 || got.Leases.Tokens != 12 {
		t.Errorf("%+v", got)
	}
	if len(got.Clocks) != 1 || got.Clocks[0].Shard != "critical" || len(got.Breakers) != 2 || got.Breakers[0].Shard != "default" || got.Breakers[1].Shard != "critical 10.0.0.5:6379" {
		t.Errorf("%+v, %+v", got.Clocks, got.Breakers)
	}
	if health := s.get("http", "/readyz?verbose").body; !strings.HasSuffix(health, "\nstore default: up\nstore critical: down\n") {
		t.Error(health)
	}
	text := s.get("admin", "/metrics").body
	for _, line := range []string{
		`stint_store_up{store="critical"} 0`, `stint_store_up{store="default"} 1`, "stint_store_kept_charges_total 3",
		`stint_store_errors_total{kind="timeout",shard="",store="critical"} 1`, `stint_store_breaker_open{shard="10.0.0.5:6379",store="critical"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Error("no line", line)
		}
	}
}
