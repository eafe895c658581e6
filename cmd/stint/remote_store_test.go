package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestServersShareALimitInAStintServer(t *testing.T) {
	counting := startServer(t, nil)
	store := "stint://" + counting.addr("grpc")
	fronts := []*process{startShared(t, store), startShared(t, store)}
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
	fronts[0].awaitMetric("stint_store_up 1\n")
	if text := counting.metrics(); !strings.Contains(text, `stint_check_duration_seconds_count{surface="grpc"} `) {
		t.Error("the server that counts does not count its calls")
	}
}

func TestRulesDecideWhileTheStintServerIsDown(t *testing.T) {
	counting := startServer(t, nil)
	addr := counting.addr("grpc")
	p := startShared(t, "stint://"+addr)
	p.awaitMetric("stint_store_up 1\n")
	counting.signal(syscall.SIGKILL)
	counting.exit()
	for i := range 5 {
		if status, answer := check(t, p, "/open", "k"); status != http.StatusOK || !isAllowed(answer) || !isDegraded(answer) {
			t.Errorf("open: %d %s", status, answer)
		}
		if status, answer := check(t, p, "/closed", "k"); status != http.StatusServiceUnavailable || isAllowed(answer) || !isDegraded(answer) {
			t.Errorf("closed: %d %s", status, answer)
		}
		if status, answer := check(t, p, "/local", "k"); status != http.StatusOK || isAllowed(answer) != (i < 3) || !isDegraded(answer) {
			t.Errorf("local, check %d: %d %s", i, status, answer)
		}
	}
	p.awaitMetric("stint_store_up 0\n")
	startServer(t, nil, "--grpc", addr)
	await(t, "the server is back", func() (bool, string) { _, a := check(t, p, "/open", "k"); return !isDegraded(a), a })
	p.awaitMetric("stint_store_up 1\n")
}

func TestStintServerRequiresItsTokenOfNodes(t *testing.T) {
	folder := t.TempDir()
	right := writeFile(t, filepath.Join(folder, "right"), "s3cret+/token\n")
	wrong := writeFile(t, filepath.Join(folder, "wrong"), "another")
	counting := startServer(t, nil, "--http-token-file", right)
	for file, works := range map[string]bool{right: true, wrong: false} {
		p := startShared(t, "stint://"+counting.addr("grpc"), "--store-password-file", file, "--log-level", "debug")
		await(t, "an answer", func() (bool, string) { _, a := check(t, p, "/open", "k"); return isDegraded(a) != works, a })
		if !works {
			await(t, "the kind of error", func() (bool, string) {
				check(t, p, "/open", "k")
				text := p.metrics()
				return strings.Contains(text, `stint_store_errors_total{kind="noauth",shard=""} `), text
			})
			p.wait("the store accepts no checks yet")
		}
		if log := strings.Join(p.logged(), "\n"); strings.Contains(log, "s3cret") {
			t.Errorf("the log shows the token:\n%s", log)
		}
	}
}

func TestWrongSettingsOfAStintServer(t *testing.T) {
	token := writeFile(t, filepath.Join(t.TempDir(), "token"), "t")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--store", "stint://"}, "names no host"},
		{[]string{"--store", "stint://h:1/5"}, "nothing may follow the host"},
		{[]string{"--store", "stint://user:t@h"}, "a server has no users"},
		{[]string{"--store", "stint://h?tls_ca=f"}, "begin the URL with stints://"},
		{[]string{"--store", "stint://h?wait=1s"}, "use timeout, tls_ca"},
		{[]string{"--store", "stints://h?tls_ca=/nothing/there"}, "tls_ca: open /nothing/there"},
		{[]string{"--store", "stint://:t@h", "--store-password-file", token}, "remove it from the URL"},
		{[]string{"--store", "stint://h", "--store-clock", "node"}, "counts by its own clock"},
		{[]string{"--store", "stint://h", "--key-prefix", "blue"}, "key-prefix: a Stint server has its own"},
		{[]string{"--store", "stant://h"}, "stint serve also takes stint://"},
	} {
		got := command(t, nil, append([]string{"serve", "--http", "127.0.0.1:0", "--grpc", "off", "--admin", "127.0.0.1:0"}, c.args...)...)
		if got.status != exitUsage || !strings.Contains(got.errors, c.want) {
			t.Errorf("%v: status %d, %q, want %q", c.args, got.status, got.errors, c.want)
		}
	}
}

// A Stint server as the store does not count its nodes, so a node without --nodes
// logs a warning.
func TestNodeOfAStintServerWarnsWithoutNodes(t *testing.T) {
	counting := startServer(t, nil)
	for _, c := range []struct {
		args  []string
		warns bool
	}{{nil, true}, {[]string{"--nodes", "1"}, false}, {[]string{"--nodes", "3"}, false}} {
		p := startShared(t, "stint://"+counting.addr("grpc"), c.args...)
		if warned := strings.Contains(strings.Join(p.logged(), "\n"), "give --nodes"); warned != c.warns {
			t.Errorf("%v: warned is %v:\n%s", c.args, warned, strings.Join(p.logged(), "\n"))
		}
	}
	if text := strings.Join(counting.logged(), "\n"); strings.Contains(text, "give --nodes") {
		t.Errorf("a memory store:\n%s", text)
	}
}
