package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stintdev/stint/internal/redistest"
)

// replayLimits has a limit of each algorithm, with numbers that deny some traffic.
var replayLimits = []string{
	`{"algorithm":"token_bucket","capacity":4,"refill_rate":"1.67"}`,
	`{"algorithm":"gcra","limit":10,"window":"3s","burst":3}`,
	`{"algorithm":"fixed_window","limit":4,"window":"3s"}`,
	`{"algorithm":"sliding_window_counter","limit":5,"window":"5s","buckets":5}`,
	`{"algorithm":"sliding_window_log","limit":5,"window":"4s"}`,
	`{"algorithm":"leaky_bucket","limit":3,"window":"1s","queue":3}`,
	`{"algorithm":"quota","limit":9,"period":"10s","anchor":"2026-01-31T00:00:00Z"}`,
}

// traffic returns events of a few keys, out of order and with refunds.
func traffic(seed uint64, n int) string {
	r := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	now := int64(1772521920000000)
	for range n {
		now += r.Int64N(300_000)
		t := now - max(0, r.Int64N(8)-6)*5_000_000
		fmt.Fprintf(&b, `{"t_us":%d,"key":"key%d","ip":"192.0.2.%d","path":"/p%d"`, t, r.IntN(4), r.IntN(3), r.IntN(3))
		switch r.IntN(8) {
		case 0:
			fmt.Fprintf(&b, `,"cost":%d`, r.IntN(6))
		case 1:
			fmt.Fprintf(&b, `,"cost":-1,"at_us":%d`, t-r.Int64N(1_000_000))
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// replayed runs a replay and returns its decisions and its summary.
func replayed(t *testing.T, stdin string, args ...string) (decisions, summary string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "decisions")
	got := runIn(t, stdin, append(append([]string{"replay", "--show-keys", "--decisions", file}, args...), "-")...)
	if got.status != exitDone {
		t.Fatalf("status %d: %s", got.status, got.errors)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), got.out
}

func wantSameReplay(t *testing.T, redis *redistest.Process, stdin string, args ...string) {
	t.Helper()
	redis.Must("SET", "stint:{key1}live", "left alone")
	want, wantSummary := replayed(t, stdin, args...)
	got, gotSummary := replayed(t, stdin, append([]string{"--store", "redis://" + redis.Addr()}, args...)...)
	if got != want {
		for i, line := range strings.Split(want, "\n") {
			if other := strings.Split(got, "\n"); i >= len(other) || other[i] != line {
				t.Fatalf("line %d\nredis  %s\nmemory %s", i+1, other[min(i, len(other)-1)], line)
			}
		}
	}
	if gotSummary != wantSummary || strings.Count(want, `"allowed":false`) == 0 {
		t.Errorf("redis\n%s\nmemory\n%s", gotSummary, wantSummary)
	}
	if keys := redis.Must("KEYS", "*"); strings.TrimSpace(keys) != "stint:{key1}live" {
		t.Errorf("keys are left:\n%s", keys)
	}
}

func TestReplayOnRedisDecidesAsInMemory(t *testing.T) {
	redis := redistest.Server(t)
	for i, limit := range replayLimits {
		wantSameReplay(t, redis, traffic(uint64(i), 400), "--limit", limit, "--by", "key")
		wantSameReplay(t, redis, traffic(uint64(i), 400), "--limit", limit, "--by", "key", "--reorder", "0")
	}
}

func TestReplayOfRulesOnRedisDecidesAsInMemory(t *testing.T) {
	redis := redistest.Server(t)
	var rules strings.Builder
	rules.WriteString("rules:\n  - {id: all, by: [ip], limits: [" + strings.Join(replayLimits, ", ") + "]}\n")
	for i, limit := range replayLimits {
		fmt.Fprintf(&rules, "  - {id: rule%d, match: {path: /p%d}, by: [api_key, path], limits: [%s], mode: %s}\n", i, i%3, limit, []string{"enforce", "shadow"}[i%2])
	}
	file := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), rules.String())
	wantSameReplay(t, redis, traffic(7, 1000), "--rules", file)
}

func TestChangesOfTheLimitAreReplayedOnRedisToo(t *testing.T) {
	redis := redistest.Server(t)
	lines := strings.SplitAfter(traffic(8, 300), "\n")
	lines[100] = strings.Replace(lines[100], "}", `,"limit":"9/s"}`, 1)
	lines[200] = strings.Replace(lines[200], "}", `,"limit":{"algorithm":"gcra","limit":1,"window":"1s"}}`, 1)
	wantSameReplay(t, redis, strings.Join(lines, ""), "--limit", "2/s", "--by", "key")
}

func TestInterruptedReplayDeletesItsKeys(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) { wantInterrupted(t, s) })
	}
}

// wantInterrupted checks that a signal ends a replay, which then deletes its keys.
func wantInterrupted(t *testing.T, s syscall.Signal) {
	t.Helper()
	redis := redistest.Server(t)
	p := startReplay(t, redis)
	await(t, "keys of the replay", func() (bool, string) {
		n := redis.Must("DBSIZE")
		return n != "0", n
	})
	for key := range strings.FieldsSeq(redis.Must("KEYS", "*")) {
		ms := redis.Must("PTTL", key)
		if !strings.HasPrefix(key, "stint:replay:") || len(ms) != len("3600000") {
			t.Errorf("key %s lives for %s ms", key, ms)
		}
	}
	p.signal(s)
	if status := p.exit(); status != exitFailed {
		t.Errorf("status %d", status)
	}
	p.wait("interrupted")
	if n := redis.Must("DBSIZE"); n != "0" {
		t.Errorf("%s keys are left: %s", n, redis.Must("KEYS", "*"))
	}
}

// startReplay starts a replay of traffic that never ends.
func startReplay(t *testing.T, redis *redistest.Process) *process {
	t.Helper()
	input, output, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { input.Close(); output.Close() })
	events := []byte(traffic(9, 500))
	go func() {
		for err := error(nil); err == nil; {
			_, err = output.Write(events)
		}
	}()
	return startProcessWith(t, input, nil, "replay", "--store", "redis://"+redis.Addr(), "--limit", "3/h", "--by", "key", "--reorder", "0", "-")
}

func TestReplayWithoutItsStoreFails(t *testing.T) {
	redis := redistest.Server(t)
	redis.Kill()
	got := runIn(t, traffic(1, 10), "replay", "--store", "redis://:secret@"+redis.Addr(), "--limit", "3/s", "--by", "key", "-")
	if got.status != exitFailed || !strings.Contains(got.errors, "no connection to the server") || strings.Contains(got.errors, "secret") {
		t.Errorf("status %d: %s", got.status, got.errors)
	}
}

func TestReplayReadsThePasswordFromTheFileOfTheEnvironment(t *testing.T) {
	redis := redistest.Server(t, "--requirepass", "secret")
	file := writeFile(t, filepath.Join(t.TempDir(), "password"), "secret\n")
	events := writeFile(t, filepath.Join(t.TempDir(), "events.jsonl"), traffic(1, 10))
	for _, files := range []string{file, file + ",critical=nowhere", "critical=nowhere,default=" + file} {
		got := command(t, []string{"STINT_STORE_PASSWORD_FILE=" + files}, "replay", "--store", "redis://"+redis.Addr(), "--limit", "3/s", "--by", "key", events)
		if got.status != exitDone || !strings.HasPrefix(got.out, "events") {
			t.Errorf("%s: status %d: %s", files, got.status, got.errors)
		}
	}
}

// A replay has one store, and decides rules that name another one as a server with that store.
func TestReplayOfRulesThatNameStores(t *testing.T) {
	dir, redis := t.TempDir(), "redis://"+redistest.Server(t).Addr()
	const text = `rules:
  - {id: all, by: [key], limit: 8, window: 3600}
  - {id: own, by: [key], limit: 5, window: 3600, store: critical, override: {key1: {limit: 2}}}
  - {id: slow, by: [key], algorithm: leaky_bucket, limit: 1/s, queue: 3, store: audit}
`
	named := writeFile(t, filepath.Join(dir, "named.yaml"), text)
	plain := writeFile(t, filepath.Join(dir, "plain.yaml"), regexp.MustCompile(`, store: \w+`).ReplaceAllString(text, ""))
	events := writeFile(t, filepath.Join(dir, "events.jsonl"), traffic(5, 200))
	want, _ := replayed(t, traffic(5, 200), "--rules", plain)
	if !strings.Contains(want, `"allowed":false`) {
		t.Fatal(want)
	}
	for _, store := range []string{memoryStore, redis} {
		if got, summary := replayed(t, traffic(5, 200), "--rules", named, "--store", store); got != want {
			t.Errorf("%s: %s", store, summary)
		}
	}
	compared := command(t, nil, "replay", "--rules", plain, "--against", named, events)
	if !regexp.MustCompile(`newly denied +0 .*\nnewly allowed +0 `).MatchString(compared.out) {
		t.Error(compared.out, compared.errors)
	}
	for _, args := range [][]string{{"replay", "--rules", named, "--store", "critical=" + redis, events}, {"store", "migrate", "critical=postgres://h/d"}} {
		if got := command(t, nil, args...); got.status != exitUsage || !strings.Contains(got.errors, "this command uses one store (give its URL without critical=)") {
			t.Errorf("%v: %+v", args, got)
		}
	}
}
