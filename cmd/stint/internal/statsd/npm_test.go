package statsd

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint/internal/testserver"
)

// patience bounds the wait for a collector.
const patience = 20 * time.Second

// TestNPMStatsD sends to the collector of the npm package statsd, which knows no tags, and
// asks its management port what it has counted.
func TestNPMStatsD(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed (run scripts/install-test-servers)")
	}
	if _, err := os.Stat("testdata/npm/node_modules/statsd/stats.js"); err != nil {
		t.Skip("the npm package statsd is not installed (run scripts/install-test-servers)")
	}
	port, management := testserver.FreePort(t, "udp"), testserver.FreePort(t, "tcp")
	startNode(t, node, port, management)

	registry := prometheus.NewRegistry()
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requests_total", Help: "-"}, []string{"rule", "decision"})
	level := prometheus.NewGauge(prometheus.GaugeOpts{Name: "level", Help: "-"})
	registry.MustRegister(requests, level)
	c := open(t, Options{Address: fmt.Sprintf("127.0.0.1:%d?tags=none", port)})
	level.Set(-5)
	for i := range 500 {
		requests.WithLabelValues("orders.v1", []string{"allow", "deny"}[i%5/4]).Inc()
		if i%50 == 0 {
			c.send(registry, time.Now().Add(patience))
		}
	}
	end(t, c, registry)
	want := map[string]string{"requests_total.decision.allow.rule.orders_v1": "400", "requests_total.decision.deny.rule.orders_v1": "100"}
	eventually(t, func() bool {
		counters, gauges := ask(t, management, "counters"), ask(t, management, "gauges")
		for name, value := range want {
			if counters[name] != value {
				return false
			}
		}
		return gauges["level"] == "-5" && counters["statsd.bad_lines_seen"] == "0"
	})
}

// startNode runs the collector until the end of the test.
func startNode(t *testing.T, node string, port, management int) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config.js")
	text := fmt.Sprintf(`{port: %d, address: "127.0.0.1", mgmt_port: %d, mgmt_address: "127.0.0.1", flushInterval: 3600000, backends: []}`, port, management)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, node, "testdata/npm/node_modules/statsd/stats.js", config)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = command.Wait() })
	eventually(t, func() bool {
		conn, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", management))
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// ask returns what the collector has counted.
func ask(t *testing.T, management int, what string) map[string]string {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", management))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintln(conn, what); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	pair := regexp.MustCompile(`'?([\w.]+)'?: (-?[0-9.]+)`)
	for scanner := bufio.NewScanner(conn); scanner.Scan() && !strings.HasPrefix(scanner.Text(), "END"); {
		for _, found := range pair.FindAllStringSubmatch(scanner.Text(), -1) {
			values[found[1]] = found[2]
		}
	}
	return values
}

func open(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// end runs a client that is at its end already, so that it sends what is left.
func end(t *testing.T, c *Client, registry prometheus.Gatherer) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.Run(ctx, registry)
}

func eventually(t *testing.T, done func() bool) {
	t.Helper()
	late := time.After(patience)
	for !done() {
		select {
		case <-late:
			t.Fatal("it does not happen")
		case <-time.After(20 * time.Millisecond):
		}
	}
}
