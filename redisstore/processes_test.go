package redisstore

import (
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

const (
	processes      = 8
	eachProcess    = 50_000 / processes
	eachGoroutine  = eachProcess / goroutinesEach
	goroutinesEach = 25
	admittedInAll  = 10_000
	processOptions = "STINT_TEST_PROCESS" // the servers that a child is to ask
)

// TestProcessesAdmitTheLimit says that eight processes which ask for one key
// 50,000 times in all are allowed exactly its limit.
func TestProcessesAdmitTheLimit(t *testing.T) {
	if servers := os.Getenv(processOptions); servers != "" {
		childAttempts(t, servers)
		return
	}
	t.Run("one server", func(t *testing.T) {
		processesAdmit(t, Options{Addrs: []string{redistest.Server(t).Addr()}})
	})
	t.Run("Sentinel", func(t *testing.T) {
		s := redistest.Sentinel(t)
		processesAdmit(t, Options{Topology: Sentinel, Addrs: s.Addrs(), Master: s.Name})
	})
	t.Run("Cluster", func(t *testing.T) {
		processesAdmit(t, Options{Topology: Cluster, Addrs: redistest.Cluster(t, 3, 0).Addrs()})
	})
}

func processesAdmit(t *testing.T, o Options) {
	t.Helper()
	servers, err := json.Marshal(childOptions{o.Topology, o.Addrs, o.Master})
	if err != nil {
		t.Fatal(err)
	}
	counts := make(chan int, processes)
	for range processes {
		go func() {
			c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProcessesAdmitTheLimit$", "-test.v")
			c.Env = append(os.Environ(), processOptions+"="+string(servers))
			out, err := c.CombinedOutput()
			_, rest, _ := strings.Cut(string(out), "allowed=")
			count, _, _ := strings.Cut(rest, ";")
			n, bad := strconv.Atoi(count)
			if err != nil || bad != nil {
				t.Errorf("a process ended with %v:\n%s", err, out)
			}
			counts <- n
		}()
	}
	allowed := 0
	for range processes {
		allowed += <-counts
	}
	if allowed != admittedInAll {
		t.Errorf("%d processes were allowed %d of 50000 checks, want %d", processes, allowed, admittedInAll)
	}
}

// childOptions are the part of Options that a child is told.
type childOptions struct {
	Topology Topology
	Addrs    []string
	Master   string
}

func childAttempts(t *testing.T, servers string) {
	t.Helper()
	var o childOptions
	if err := json.Unmarshal([]byte(servers), &o); err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{Topology: o.Topology, Addrs: o.Addrs, Master: o.Master})
	n := attempts(t, goroutinesEach, eachGoroutine, s, stint.Claim{Key: "one", Limit: perHour(t, admittedInAll), Cost: 1})
	t.Logf("allowed=%d;", n)
}
