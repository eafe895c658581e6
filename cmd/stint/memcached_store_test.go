package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stintdev/stint/internal/memcachedtest"
)

func TestServersShareALimitInMemcached(t *testing.T) {
	servers := []*memcachedtest.Server{memcachedtest.Start(t), memcachedtest.Start(t)}
	fronts := []*process{
		startShared(t, "memcached://"+servers[0].Addr()+","+servers[1].Addr()),
		startShared(t, "memcached://"+servers[1].Addr()+","+servers[0].Addr()),
	}
	inTime(t, func(key string) (wrong string, degraded bool) {
		for i := range 5 {
			_, answer := check(t, fronts[i%2], "/closed", key)
			if isAllowed(answer) != (i < 3) {
				wrong = fmt.Sprintf("check %d of a limit of 3: %s", i, answer)
			}
			degraded = degraded || isDegraded(answer)
		}
		return wrong, degraded
	})
	for _, line := range []string{
		"stint_store_up 1\n", "stint_store_nodes 2\n", `stint_clock_skew_seconds{shard=""}`,
		fmt.Sprintf("stint_store_evictions_total{shard=%q} 0\n", servers[0].Addr()), fmt.Sprintf("stint_store_evictions_total{shard=%q} 0\n", servers[1].Addr()),
	} {
		fronts[0].awaitMetric(line)
	}
	for _, s := range servers {
		s.Kill()
	}
	if status, answer := check(t, fronts[0], "/open", "k"); status != http.StatusOK || !isAllowed(answer) || !isDegraded(answer) {
		t.Errorf("open: %d %s", status, answer)
	}
	if status, answer := check(t, fronts[0], "/closed", "k"); status != http.StatusServiceUnavailable || isAllowed(answer) || !isDegraded(answer) {
		t.Errorf("closed: %d %s", status, answer)
	}
	fronts[0].awaitMetric("stint_store_up 0\n")
	for _, s := range servers {
		s.Restart()
	}
	for _, front := range fronts {
		await(t, "the servers are back", func() (bool, string) { _, a := check(t, front, "/open", "k"); return !isDegraded(a), a })
	}
}

// A server that fails decides by on_store_failure, and the keys of the other go on.
func TestOneFrozenServerOfMemcached(t *testing.T) {
	servers := []*memcachedtest.Server{memcachedtest.Start(t), memcachedtest.Start(t)}
	p := startShared(t, "memcached://"+servers[0].Addr()+","+servers[1].Addr())
	await(t, "the servers are there", func() (bool, string) {
		for i := range 20 {
			if _, a := check(t, p, "/open", fmt.Sprint(i)); isDegraded(a) {
				return false, a
			}
		}
		return true, ""
	})
	servers[0].Freeze()
	degraded := 0
	for i := range 40 {
		if _, a := check(t, p, "/open", fmt.Sprint(i)); isDegraded(a) {
			degraded++
		}
	}
	if degraded < 5 || degraded > 35 {
		t.Errorf("%d of 40 keys are degraded", degraded)
	}
	open := fmt.Sprintf("stint_store_breaker_open{shard=%q} 1\n", servers[0].Addr())
	await(t, "the circuit opens", func() (bool, string) { // after enough failures, which few of the keys may meet
		for i := range 40 {
			check(t, p, "/open", fmt.Sprint(i))
		}
		text := p.metrics()
		return strings.Contains(text, open), text
	})
	servers[0].Thaw()
	await(t, "the server is back", func() (bool, string) {
		for i := range 40 {
			if _, a := check(t, p, "/open", fmt.Sprint("later", i)); isDegraded(a) {
				return false, a
			}
		}
		return true, ""
	})
}

func TestStartLogsWhyMemcachedIsNotReady(t *testing.T) {
	p := startShared(t, "memcached://"+memcachedtest.Start(t, "-C").Addr())
	p.wait("msg=ready")
	if log := strings.Join(p.logged(), "\n"); !strings.Contains(log, "start it without -C") {
		t.Error(log)
	}
}

func TestWrongStoresInMemcached(t *testing.T) {
	secret := writeFile(t, filepath.Join(t.TempDir(), "password"), "secret\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"serve", "--store", "memcached://"}, "a server is empty"},
		{[]string{"serve", "--store", "memcached://user:secret@h"}, "no credentials for Memcached"},
		{[]string{"serve", "--store", "memcached://h", "--store-password-file", secret}, "no password (leave it out)"},
		{[]string{"replay", "--store", "memcached://h/1", "--limit", "1/s", "--by", "key", "-"}, "has a path"},
		{[]string{"store", "migrate", "memcached://h"}, "a store without tables"},
	} {
		got := command(t, nil, c.args...)
		if got.status != exitUsage || !strings.Contains(got.errors, c.want) || strings.Contains(got.errors, "secret@") {
			t.Errorf("%v: status %d, %q, want %q", c.args, got.status, got.errors, c.want)
		}
	}
}

func TestReplayInMemcachedDecidesAsInMemory(t *testing.T) {
	servers := []*memcachedtest.Server{memcachedtest.Start(t), memcachedtest.Start(t)}
	args := []string{"--store", "memcached://" + servers[0].Addr() + "," + servers[1].Addr()}
	for i, limit := range replayLimits {
		stdin := traffic(uint64(i), 150)
		want, wantSummary := replayed(t, stdin, "--limit", limit, "--by", "key")
		got, gotSummary := replayed(t, stdin, append([]string{"--limit", limit, "--by", "key"}, args...)...)
		if got != want || gotSummary != wantSummary {
			t.Errorf("%s: Memcached\n%s\nmemory\n%s", limit, gotSummary, wantSummary)
		}
	}
}
