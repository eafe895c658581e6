package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stintdev/stint/internal/redistest"
)

// wantOneLimit checks that two servers on the store together admit a limit of 3.
func wantOneLimit(t *testing.T, store string) {
	t.Helper()
	servers := []*process{startShared(t, store), startShared(t, store)}
	inTime(t, func(key string) (wrong string, degraded bool) {
		for i := range 8 {
			status, answer := check(t, servers[i%2], "/closed", key)
			if isAllowed(answer) != (i < 3) {
				wrong = fmt.Sprintf("check %d: %d %s", i, status, answer)
			}
			degraded = degraded || isDegraded(answer)
		}
		return wrong, degraded
	})
}

// wantReplay checks that a replay decides on the store as in memory, and leaves no
// keys on its servers.
func wantReplay(t *testing.T, store string, servers []*redistest.Process) {
	t.Helper()
	events := traffic(3, 300)
	want, _ := replayed(t, events, "--limit", "2/s", "--by", "key")
	if got, _ := replayed(t, events, "--limit", "2/s", "--by", "key", "--store", store); got != want {
		t.Error("the decisions differ from those in memory")
	}
	for _, s := range servers {
		if keys := s.Must("KEYS", "stint:replay:*"); keys != "" {
			t.Errorf("keys are left: %s", keys)
		}
	}
}

func TestClusterIsOneStore(t *testing.T) {
	if testing.Short() {
		t.Skip("forms a Cluster")
	}
	cluster := redistest.Cluster(t, 3, 0)
	store := "redis-cluster://" + strings.Join(cluster.Addrs(), ",")
	wantOneLimit(t, store)
	wantReplay(t, store, cluster.Masters())
	p := startShared(t, store)
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		check(t, p, "/open", key)
	}
	text := p.metrics()
	for _, master := range cluster.Masters() {
		if !strings.Contains(text, `stint_store_breaker_open{shard="`+master.Addr()+`"} 0`) {
			t.Errorf("no breaker for %s", master.Addr())
		}
	}
}

func TestSentinelsNameTheStore(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for Sentinels")
	}
	sentinel := redistest.Sentinel(t)
	store := "redis-sentinel://" + strings.Join(sentinel.Addrs(), ",") + "/" + sentinel.Name
	wantOneLimit(t, store)
	wantReplay(t, store, sentinel.Servers)
}

var aclLine = regexp.MustCompile(`(?m)^ACL SETUSER stint .*$`)

// The documented user of Redis has every right that a server needs.
func TestDocumentedUserHasTheNeededRights(t *testing.T) {
	text, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	redis := redistest.Server(t)
	redis.Must(strings.Fields(strings.ReplaceAll(aclLine.FindString(string(text)), "PASSWORD", "secret"))...)
	p := startShared(t, "redis://stint:secret@"+redis.Addr(), "--log-level", "debug")
	for _, limit := range replayLimits {
		inTime(t, func(key string) (wrong string, degraded bool) {
			for range 8 {
				degraded = degraded || isDegraded(post(t, p, "/v1/take", `{"key":"`+key+`","limit":`+limit+`}`))
			}
			return "", degraded
		})
		post(t, p, "/v1/take", `{"key":"k","limit":`+limit+`,"cost":-1}`)
	}
	post(t, p, "/v1/take", `{"key":"k","limits":[`+strings.Join(replayLimits, ",")+`],"cost":0}`)
	p.awaitMetric("stint_clock_skew_seconds{")
	for _, line := range p.logged() {
		if strings.Contains(line, "NOPERM") {
			t.Error(line)
		}
	}
	if log := redis.Must("ACL", "LOG"); log != "" {
		t.Errorf("refused: %s", log)
	}
}
