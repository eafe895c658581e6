package server

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
)

// statusOf returns the state of the only node of a server.
func statusOf(t *testing.T, s *running) *ruleset.NodeStatus {
	t.Helper()
	var body struct{ Nodes []ruleset.Node }
	if err := json.Unmarshal([]byte(s.get("admin", "/nodes").body), &body); err != nil || len(body.Nodes) != 1 || body.Nodes[0].Status == nil {
		t.Fatalf("%+v, %v", body, err)
	}
	return body.Nodes[0].Status
}

func TestNodesSayHowTheyAre(t *testing.T) {
	before := time.Now().Add(-time.Second)
	s := run(t, Config{MaxKeys: 10_000})
	s.post("http", "/v1/check", `{"attributes":{"api_key":"k","path":"/"}}`)
	got := statusOf(t, s)
	if got.Started.Before(before) || !got.StoreUp || got.LastError != nil || got.Memory == nil || got.Memory.MaxKeys != 10_000 || got.Leases != nil || got.Clocks != nil {
		t.Errorf("%+v", got)
	}
	shared := metrics.SharedStats{Lease: &metrics.LeaseStats{Keys: 3, Held: 70}}
	for i := range 40 {
		name := fmt.Sprint("shard", i)
		shared.Clocks = append(shared.Clocks, metrics.ClockStats{Shard: name, Skew: -time.Duration(i) * time.Millisecond})
		shared.Breakers = append(shared.Breakers, metrics.BreakerStats{Shard: name, Open: i == 39})
	}
	s = run(t, Config{Store: failing{code: stint.CodeUnavailable}, Shared: func() metrics.SharedStats { return shared }})
	s.post("http", "/v1/take", `{"key":"k","limit":"1/m"}`)
	got = statusOf(t, s)
	if got.StoreUp || got.Memory != nil || got.LastError == nil || got.LastError.Kind == "" || got.Leases == nil || got.Leases.Tokens != 70 || got.MoreShards != 8 {
		t.Errorf("%+v", got)
	}
	if len(got.Clocks) != announcedShards || got.Clocks[0].SkewMS != -39 || len(got.Breakers) != announcedShards || !got.Breakers[0].Open {
		t.Errorf("%+v %+v", got.Clocks[:1], got.Breakers[:1])
	}
}
