//go:build linux

package monitoringtest

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/internal/testserver"
)

// A failure reaches the receiver of Alertmanager within this number of scrapes.
const scrapesToAlert = 3

// A server of the store stops, and one of whose clock is wrong takes its place: each
// reaches the receiver. It is not the server with the heartbeat of nodes, whose failure and
// clock are the easiest to see.
func TestAlertsReachTheirReceiver(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Prometheus and a Cluster")
	}
	t.Parallel()
	receiver := startAlertmanager(t)
	cluster := redistest.Cluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	addr := testserver.FreeAddr(t)
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, rules, "rules: [{id: all, by: [api_key], limit: 1000/s}]\n")
	stint := scrapedThrough(t, serve(t, "--http", addr, "--rules", rules, "--store", "redis-cluster://"+cluster.Nodes[0].Addr()))
	startPrometheus(t, receiver.alertmanager, map[string][]string{"stint": {stint.Listener.Addr().String()}})
	repeat(t, func(n int) { check(addr, "key"+strconv.Itoa(n%100), "/") })

	victim := otherThan(cluster, cluster.Owner(cluster.Slot("stint:nodes")))
	awaitPage(t, stint, `(?m)^stint_store_up 1$`)
	from := stint.count()
	victim.Kill()
	labels := receiver.await(t, "StintStoreDown")
	if n := stint.since(from, regexp.MustCompile(`(?m)^stint_store_up 0$`)); n == 0 || n > scrapesToAlert {
		t.Errorf("the store is down: the alert arrived after %d scrapes", n)
	}
	t.Logf("the store is down: %v", labels)

	victim.RestartWithClock(2 * time.Second)
	skew := regexp.MustCompile(fmt.Sprintf(`(?m)^stint_clock_skew_seconds\{shard="%s"\} [12](\.[0-9]+)?$`, regexp.QuoteMeta(victim.Addr())))
	labels = receiver.await(t, "StintClockSkew")
	if n := stint.since(from, skew); n == 0 || n > scrapesToAlert {
		t.Errorf("a clock is wrong: the alert arrived after %d scrapes", n)
	}
	if labels["shard"] != victim.Addr() {
		t.Errorf("the clock of %s is wrong, and the alert has %v", victim.Addr(), labels)
	}
}

// Requests of Envoy's rate limit service that a failure policy decides burn the error budget,
// although each of them is admitted.
func TestDegradedRequestsOfEnvoyReachTheReceiver(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Prometheus")
	}
	t.Parallel()
	receiver := startAlertmanager(t)
	store := redistest.Server(t)
	addr, limits := testserver.FreeAddr(t), t.TempDir()
	write(t, filepath.Join(limits, "shop.yaml"), "domain: shop\ndescriptors: [{key: user, rate_limit: {unit: second, requests_per_unit: 1000, on_store_failure: open}}]\n")
	admin := serve(t, "--http", addr, "--envoy-config", limits, "--store", "redis://"+store.Addr())
	startPrometheus(t, receiver.alertmanager, map[string][]string{"stint": {admin}})
	store.Kill()
	repeat(t, func(n int) {
		post("http://"+addr+"/json", fmt.Sprintf(`{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"u%d"}]}]}`, n%100))
	})
	if labels := receiver.await(t, "StintAvailabilityBurn"); labels["job"] != "stint" {
		t.Errorf("the alert has %v", labels)
	}
}

func otherThan(c *redistest.ClusterServers, not *redistest.Process) *redistest.Process {
	for _, p := range c.Nodes {
		if p != not {
			return p
		}
	}
	return nil
}

// awaitPage waits until a scrape shows a line that matches.
func awaitPage(t *testing.T, s *scraped, line string) {
	t.Helper()
	pattern := regexp.MustCompile(line)
	redistest.Await(t, func() error {
		if s.since(0, pattern) == 0 {
			return fmt.Errorf("no scrape has a line %s", line)
		}
		return nil
	})
}
