package envoyrls

import (
	"fmt"
	"sync"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/layered"
	"github.com/stintdev/stint/redisstore/redisopen"
)

// admission is a request that a node admitted, at a time between its start and its end.
type admission struct{ began, ended time.Time }

// leasingNode is a node with its own leases on a Redis server.
type leasingNode struct {
	*serving

	store      *layered.Store
	admissions []admission
	requests   int
}

func newLeasingNode(t *testing.T, redis, config string, options ...func(*Options)) *leasingNode {
	t.Helper()
	store, err := redisopen.Open(t.Context(), redis, redisopen.Options{Guard: guard.Options{Deadline: 10 * time.Second}, Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	options = append(options, func(o *Options) { o.Store = store })
	return &leasingNode{serving: serve(t, config, options...), store: store}
}

// ask sends requests from several callers until a time. Answers after it do not count.
func (n *leasingNode) ask(callers int, until time.Time) {
	var wait sync.WaitGroup
	var mu sync.Mutex
	for range callers {
		wait.Go(func() {
			var admitted []admission
			requests := 0
			pace := time.NewTicker(200 * time.Microsecond)
			defer pace.Stop()
			for ; time.Now().Before(until); <-pace.C {
				began := time.Now()
				response, err := n.ShouldRateLimit(n.t.Context(), request("d", "user=1"))
				if err != nil {
					n.t.Error(err)
					return
				}
				requests++
				if ended := time.Now(); response.GetOverallCode() == pb.RateLimitResponse_OK && ended.Before(until) {
					admitted = append(admitted, admission{began, ended})
				}
			}
			mu.Lock()
			defer mu.Unlock()
			n.requests += requests
			n.admissions = append(n.admissions, admitted...)
		})
	}
	wait.Wait()
}

// Redis counts by the clock of this machine. An admission belongs to a window for certain
// if it began and ended within it.
func admittedInWindows(nodes []*leasingNode, window time.Duration) (all map[int64]int, total int) {
	all = map[int64]int{}
	for _, n := range nodes {
		for _, a := range n.admissions {
			total++
			if w := a.began.UnixNano() / int64(window); w == a.ended.UnixNano()/int64(window) {
				all[w]++
			}
		}
	}
	return all, total
}

// Three nodes lease one fixed window, with more demand than it has. Together they admit at
// most its limit in each window, and most requests need no call to Redis. With CountAll it
// is the same: a leased limit is never counted past its end.
func TestNodesThatLeaseAFixedWindowAdmitItsLimit(t *testing.T) {
	const limit = 500
	const windows = 1
	for name, options := range map[string][]func(*Options){"together": nil, "each": {countAll}} {
		t.Run(name, func(t *testing.T) {
			redis := redistest.Server(t)
			config := fmt.Sprintf("domain: d\ndescriptors:\n  - {key: user, rate_limit: {unit: second, requests_per_unit: %d, consistency: leased}}\n", limit)
			var nodes []*leasingNode
			for range 3 {
				nodes = append(nodes, newLeasingNode(t, "redis://"+redis.Addr(), config, options...))
			}
			until := time.Now().Truncate(time.Second).Add((windows + 1) * time.Second)
			var wait sync.WaitGroup
			for _, n := range nodes {
				wait.Go(func() { n.ask(4, until) })
			}
			wait.Wait()
			admitted, total := admittedInWindows(nodes, time.Second)
			for w, n := range admitted {
				if n > limit {
					t.Errorf("%d requests were admitted in window %d, more than %d", n, w, limit)
				}
			}
			if most := (windows + 1) * limit; total > most {
				t.Errorf("%d requests were admitted in %d windows, more than %d", total, windows+1, most)
			}
			requests, local := 0, uint64(0)
			for _, n := range nodes {
				s := n.store.Stats().Lease
				requests, local = requests+n.requests, local+s.Local+s.Denied
			}
			t.Logf("%d requests, %d admitted, %d decided without a call", requests, total, local)
			if local == 0 || total < limit {
				t.Errorf("of %d requests, %d were decided without a call, and %d admitted", requests, local, total)
			}
		})
	}
}

// A limit without a consistency is leased if that is the default.
func TestLeasesCanBeTheDefault(t *testing.T) {
	redis := redistest.Server(t)
	n := newLeasingNode(t, "redis://"+redis.Addr(), "domain: d\ndescriptors:\n  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1000000}}\n",
		func(o *Options) { o.Consistency = stint.Leased })
	n.ask(4, time.Now().Add(300*time.Millisecond))
	if s := n.store.Stats().Lease; s.Local == 0 || len(n.admissions) < n.requests-4 { // the last request of each caller may end too late
		t.Errorf("%d of %d requests were admitted, %d of them from a lease", len(n.admissions), n.requests, s.Local)
	}
}
