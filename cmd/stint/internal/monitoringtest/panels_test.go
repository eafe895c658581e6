//go:build linux

package monitoringtest

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stintdev/stint/internal/memcachedtest"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/internal/testserver"
)

// rules has a rule for each panel of the dashboard Rules.
const rules = `
blacklist: [banned]
rules:
  - {id: login, match: {path: /login}, by: [api_key], limits: [{name: burst, limit: 5, window: 1m}, {name: day, limit: 1000, window: 24h}], penalty: {after: 3, window: 1m, cool_down: 1s}}
  - {id: hot, match: {path: /hot}, by: [api_key], algorithm: token_bucket, limit: 1000/s, consistency: leased}
  - {id: trial, match: {path: /login}, mode: shadow, by: [api_key], limit: 1/m}
`

// gatewayConfig has an upstream that answers and one that does not. %[1]s is the first.
const gatewayConfig = `
upstreams:
  good: {servers: http://%[1]s, bulkhead: {limit: 10}, breaker: {minimum_calls: 5}, retry: {attempts: 2, on: [connect, 503]}}
  dead: {servers: http://127.0.0.1:1, breaker: {minimum_calls: 5}, retry: {attempts: 2, on: [connect]}}
routes:
  - {path_prefix: /dead/, upstream: dead, name: dead, fallback: {status: 200, body: ok}}
  - {upstream: good, name: good}
`

// Every query of every panel returns a series from a Prometheus that scrapes real servers
// to which all that the dashboards show has happened.
func TestEachPanelShowsSomething(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Prometheus and servers")
	}
	t.Parallel()
	shared := shareStore(t)
	p := startPrometheus(t, "", map[string][]string{
		"stint":       {shared.scraped.Listener.Addr().String(), inMemory(t), withStores(t), withCanary(t)},
		"application": {application(t)},
	})
	shared.suffer(t)
	pending := queries(t)
	redistest.Await(t, func() error {
		pending = slices.DeleteFunc(pending, func(q query) bool {
			series, err := p.query(q.expr)
			if err != nil {
				t.Errorf("%s: %v", q.where, err)
			}
			return err != nil || series > 0 || q.mayBeEmpty
		})
		if len(pending) > 0 {
			return fmt.Errorf("no series from %d queries: %v", len(pending), pending)
		}
		return nil
	})
}

// query is an expression of a dashboard.
type query struct {
	where, expr string
	mayBeEmpty  bool // as a mark on a dashboard, where nothing has changed
}

func queries(t *testing.T) (all []query) {
	t.Helper()
	for _, d := range dashboards(t) {
		for _, panel := range d.Panels {
			for _, target := range panel.Targets {
				all = append(all, query{d.Title + ", " + panel.Title, asGrafana(target.Expr), false})
			}
		}
		for _, a := range d.Annotations.List {
			all = append(all, query{d.Title + ", annotation", asGrafana(a.Expr), true})
		}
	}
	return all
}

// asGrafana fills in the variables of a dashboard as Grafana does when all is chosen.
func asGrafana(expr string) string {
	return regexp.MustCompile(`\$\w+`).ReplaceAllStringFunc(expr, func(name string) string {
		if name == "$__rate_interval" {
			return "30s"
		}
		return ".*"
	})
}

// sharing is a server with a shared store, and with a gateway in front of upstreams that
// fail.
type sharing struct {
	scraped *scraped
	redis   *redistest.Process
	rules   string // the file
}

func shareStore(t *testing.T) *sharing {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/fail") {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(upstream.Close)
	dir := t.TempDir()
	s := &sharing{redis: redistest.Server(t), rules: filepath.Join(dir, "rules.yaml")}
	gateway := filepath.Join(dir, "gateway.yaml")
	write(t, s.rules, rules)
	write(t, gateway, fmt.Sprintf(gatewayConfig, upstream.Listener.Addr()))
	addr, front, resp := testserver.FreeAddr(t), testserver.FreeAddr(t), testserver.FreeAddr(t)
	args := []string{
		"--http", addr, "--rules", s.rules, "--store", "redis://" + s.redis.Addr(), "--resp", resp,
		"--gateway", front, "--gateway-config", gateway, "--gateway-adapt", "gradient", "--gateway-refuse-for", "1s",
		"--decision-log", filepath.Join(dir, "decisions.jsonl"), "--decision-log-rate", "1",
	}
	s.scraped = scrapedThrough(t, serve(t, args...))
	paths := []string{"/login", "/hot", "/nothing"}
	repeat(t, func(n int) {
		check(addr, fmt.Sprintf("key%d", n%7), paths[n%len(paths)])
		check(addr, "banned", "/login")
		throttle(resp)
		for _, path := range []string{"/login", "/fail", "/dead/x"} {
			get("http://" + front + path)
		}
	})
	return s
}

// suffer changes the rules, stops the store and starts it again, and breaks the rules. It
// waits until a scrape has shown each.
func (s *sharing) suffer(t *testing.T) {
	t.Helper()
	awaitPage(t, s.scraped, `(?m)^stint_rules_version 1$`)
	write(t, s.rules, rules+"# changed\n")
	awaitPage(t, s.scraped, `(?m)^stint_rules_version 2$`)
	s.redis.Kill()
	awaitPage(t, s.scraped, `(?m)^stint_store_up 0$`)
	s.redis.Restart()
	write(t, s.rules, "rules: [{id: 7, limit: nonsense}]\n")
	awaitPage(t, s.scraped, `(?m)^stint_rules_reloads_total\{result="error"\} [1-9]`)
}

// inMemory starts a server whose memory is too small for its callers.
func inMemory(t *testing.T) (admin string) {
	t.Helper()
	addr := testserver.FreeAddr(t)
	admin = serve(t, "--http", addr, "--max-keys", "1000", "--hot-key-rate", "10")
	repeat(t, func(n int) {
		check(addr, fmt.Sprintf("invented%d", n), "/")
		check(addr, "hot", "/")
	})
	return admin
}

// withStores starts a server with several stores, of which one can evict items.
func withStores(t *testing.T) (admin string) {
	t.Helper()
	return serve(t, "--store", "memcached://"+memcachedtest.Start(t).Addr(), "--store", "near=memory")
}

// withCanary starts a server with a canary, of whose callers the new rules deny more.
func withCanary(t *testing.T) (admin string) {
	t.Helper()
	addr, source := testserver.FreeAddr(t), "redis://"+redistest.Server(t).Addr()
	admin = serve(t, "--http", addr, "--rules", source, "--store", source)
	for _, change := range []struct{ query, limit string }{{"", "1000/h"}, {"?canary=0.5&abort_above=1", "1/h"}} {
		text := "rules: [{id: tried, by: [api_key], limit: " + change.limit + "}]\n"
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+admin+"/rules"+change.query, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "text/yaml")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", r.URL, resp.Status)
		}
	}
	repeat(t, func(n int) { check(addr, fmt.Sprintf("key%d", n%20), "/") })
	return admin
}

// throttle sends one take over the Redis protocol.
func throttle(addr string) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = conn.Write([]byte("CL.THROTTLE user 5 100 60\r\n"))
	_, _ = conn.Read(make([]byte, 100))
}

func get(url string) {
	if resp, err := http.Get(url); err == nil {
		_ = resp.Body.Close()
	}
}
