package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stintdev/stint/internal/redistest"
)

// quorumOf starts three servers, and returns them with the URL of the store on them.
func quorumOf(t *testing.T, options ...string) (servers []*redistest.Process, url string) {
	t.Helper()
	var addrs []string
	for range 3 {
		p := redistest.Server(t, options...)
		servers, addrs = append(servers, p), append(addrs, p.Addr())
	}
	return servers, "redis-quorum://" + strings.Join(addrs, ",")
}

func TestServersShareALimitOnAQuorum(t *testing.T) {
	servers, url := quorumOf(t)
	fronts := []*process{startShared(t, url, "--store-deadline", "1s"), startShared(t, url, "--store-deadline", "1s")}
	share := func() {
		t.Helper()
		inTime(t, func(key string) (wrong string, degraded bool) {
			for i := range 5 {
				_, answer := check(t, fronts[i%2], "/closed", key+t.Name())
				if isAllowed(answer) != (i < 3) {
					wrong = fmt.Sprintf("check %d of a limit of 3: %s", i, answer)
				}
				degraded = degraded || isDegraded(answer)
			}
			return wrong, degraded
		})
	}
	share()
	for _, line := range []string{
		"stint_store_up 1\n", "stint_store_nodes 2\n", `stint_clock_skew_seconds{shard=""}`,
		fmt.Sprintf("stint_store_server_up{server=%q} 1\n", servers[0].Addr()), fmt.Sprintf("stint_store_server_whole{server=%q} 1\n", servers[2].Addr()),
	} {
		fronts[0].awaitMetric(line)
	}
	servers[0].Kill()
	for i, front := range fronts {
		if _, answer := check(t, front, "/known", "another"); !isAllowed(answer) || isDegraded(answer) {
			t.Errorf("front %d with a server down: %s", i, answer)
		}
	}
	fronts[1].awaitMetric(fmt.Sprintf("stint_store_server_up{server=%q} 0\n", servers[0].Addr()))
	servers[1].Kill()
	if status, answer := check(t, fronts[0], "/open", "k"); status != http.StatusOK || !isAllowed(answer) || !isDegraded(answer) {
		t.Errorf("open: %d %s", status, answer)
	}
	if status, answer := check(t, fronts[0], "/closed", "k"); status != http.StatusServiceUnavailable || isAllowed(answer) || !isDegraded(answer) {
		t.Errorf("closed: %d %s", status, answer)
	}
	fronts[0].awaitMetric("stint_store_up 0\n")
}

func TestAQuorumIsManagedByCommands(t *testing.T) {
	servers, url := quorumOf(t, "--requirepass", "right")
	file := writeFile(t, filepath.Join(t.TempDir(), "password"), "right\n")
	store := func(args ...string) result {
		t.Helper()
		return command(t, nil, append([]string{"store"}, args...)...)
	}
	if got := store("init", url); got.status != exitFailed || !strings.Contains(got.errors, "STINT_STORE_PASSWORD_FILE") {
		t.Errorf("without the password: %+v", got)
	}
	if got := store("init", "--store-password-file", file, url); got.status != exitDone || !strings.Contains(got.out, "are a quorum") {
		t.Fatal(got)
	}
	if got := store("init", "--store-password-file", file, url); got.status != exitFailed || !strings.Contains(got.errors, servers[0].Addr()+" is a member already") {
		t.Errorf("again: %+v", got)
	}
	if got := store("repair", "--store-password-file", file, url); got.status != exitDone || strings.Count(got.out, "has all counts") != 3 {
		t.Errorf("%+v", got)
	}
	servers[2].Kill()
	if got := store("repair", "--store-password-file", file, url); got.status != exitFailed || !strings.Contains(got.out, servers[2].Addr()+" lacks counts") {
		t.Errorf("with a server down: %+v", got)
	}
	fresh := redistest.Server(t, "--requirepass", "right")
	if got := store("replace", "--store-password-file", file, "--old", servers[2].Addr(), "--new", fresh.Addr(), url); got.status != exitDone || !strings.Contains(got.out, "new URL") {
		t.Errorf("%+v", got)
	}
	after := strings.Replace(url, servers[2].Addr(), fresh.Addr(), 1)
	await(t, "the new server is repaired", func() (bool, string) {
		got := store("repair", "--store-password-file", file, after)
		return got.status == exitDone && strings.Contains(got.out, fresh.Addr()+" has all counts"), got.errors
	})
}

func TestMistakesAboutAQuorumAreNamed(t *testing.T) {
	const url = "redis-quorum://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"
	password := writeFile(t, filepath.Join(t.TempDir(), "password"), "x\n")
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"serve", "--store", "redis-quorum://h1,h2"}, exitUsage, "it names 2 servers"},
		{[]string{"serve", "--store", "redis-quorum://h1,h2,h1"}, exitUsage, "named twice"},
		{[]string{"serve", "--store", "redis-quorum://h1,h2,h3?durable=true"}, exitUsage, "unknown parameter"},
		{[]string{"serve", "--store", "redis-quorum://:secret@h1,h2,h3", "--store-password-file", password}, exitUsage, "remove it from the URL"},
		{[]string{"store", "init", "redis://h"}, exitUsage, "redis:// is not a quorum"},
		{[]string{"store", "init", "critical=" + url}, exitUsage, "this command uses one store"},
		{[]string{"store", "init", url}, exitFailed, "no connection to the server 127.0.0.1:1"},
		{[]string{"store", "repair", url}, exitFailed, "no connection to the server 127.0.0.1:1"},
		{[]string{"store", "replace", url}, exitUsage, "--old or --new is missing"},
		{[]string{"store", "replace", "--old", "h9", "--new", "h4", url}, exitFailed, "h9:6379 is not one of"},
		{[]string{"store", "replace", "--old", "127.0.0.1:1", "--new", "127.0.0.1:2", url}, exitFailed, "one of the servers already"},
		{[]string{"store", "migrate", url}, exitUsage, "without tables"},
		{[]string{"replay", "--store", "redis-quorum://h1", "--limit", "1/s", "--by", "key", "-"}, exitUsage, "it names 1 servers"},
	} {
		if got := command(t, nil, c.args...); got.status != c.status || !strings.Contains(got.errors, c.want) {
			t.Errorf("%v: %+v, want status %d and %q", c.args, got, c.status, c.want)
		}
	}
}

func TestReplayOnAQuorumDecidesAsInMemory(t *testing.T) {
	servers, url := quorumOf(t)
	for i, limit := range replayLimits[:3] {
		stdin := traffic(uint64(i), 100)
		want, wantSummary := replayed(t, stdin, "--limit", limit, "--by", "key")
		got, gotSummary := replayed(t, stdin, "--limit", limit, "--by", "key", "--store", url)
		if got != want || gotSummary != wantSummary {
			t.Errorf("%s: a quorum\n%s\nmemory\n%s", limit, gotSummary, wantSummary)
		}
	}
	await(t, "the replays have left no key", func() (bool, string) {
		keys := ""
		for _, s := range servers {
			keys += s.Must("KEYS", "*")
		}
		return strings.TrimSpace(keys) == "", keys
	})
}
