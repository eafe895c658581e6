package failuretest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/redisstore"
)

const (
	processes = 8
	tries     = 50_000 // checks of all processes together
	hot       = 20_000 // tokens of the limit
	callers   = 32     // callers in each process
)

// The environment variables of one of several processes.
const (
	envURL       = "FAILURETEST_URL"
	envAlgorithm = "FAILURETEST_ALGORITHM"
)

// hotLimits are limits that admit exactly hot requests within a test.
var hotLimits = map[string]stint.Spec{
	"token_bucket":           {Limit: 1, Window: 24 * time.Hour, Capacity: hot},
	"fixed_window":           {Algorithm: stint.FixedWindow, Limit: hot, Window: stint.MaxWindow},
	"sliding_window_counter": {Algorithm: stint.SlidingWindowCounter, Limit: hot, Window: stint.MaxWindow},
	"quota":                  {Algorithm: stint.Quota, Limit: hot, Period: "400d", Anchor: "2026-01-01T00:00:00Z"},
	"leaky_bucket":           {Algorithm: stint.LeakyBucket, Limit: 1, Window: 24 * time.Hour, Queue: hot - 1},
	"sliding_window_log":     {Algorithm: stint.SlidingWindowLog, Limit: stint.MaxLogLimit, Window: 24 * time.Hour},
}

func hotClaim(t *testing.T, algorithm string) stint.Claim {
	t.Helper()
	spec := hotLimits[algorithm]
	spec.Rule, spec.Name = "exact", algorithm
	limit, err := spec.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return stint.Claim{Key: "hot", Limit: limit, Cost: 1}
}

// Eight processes check one key at the same time, far more often than its limit
// admits.
func TestManyProcessesAdmitExactlyTheLimit(t *testing.T) {
	if url := os.Getenv(envURL); url != "" {
		beOne(t, url, os.Getenv(envAlgorithm))
		return
	}
	skipShort(t)
	single := redistest.Server(t)
	for algorithm := range hotLimits {
		t.Run("single/"+algorithm, func(t *testing.T) { exactly(t, "redis://"+single.Addr(), algorithm) })
	}
	t.Run("sentinel", func(t *testing.T) {
		s := redistest.Sentinel(t)
		exactly(t, "redis-sentinel://"+strings.Join(s.Addrs(), ",")+"/"+s.Name, "token_bucket")
	})
	t.Run("cluster", func(t *testing.T) {
		c := redistest.Cluster(t, 3, 0)
		exactly(t, "redis-cluster://"+strings.Join(c.Addrs(), ","), "token_bucket")
	})
}

func exactly(t *testing.T, url, algorithm string) {
	t.Helper()
	all := make([]*process, processes)
	for i := range all {
		all[i] = begin(t, url, algorithm)
	}
	for _, p := range all {
		p.expect(t, "ready\n")
	}
	begun := time.Now()
	for _, p := range all {
		_ = p.in.Close() // starts the process
	}
	var admitted, failed int64
	for _, p := range all {
		var a, f int64
		if _, err := fmt.Sscanf(p.line(t), "admitted %d failed %d", &a, &f); err != nil {
			t.Fatal(err)
		}
		admitted, failed = admitted+a, failed+f
	}
	took, want := time.Since(begun), hotClaim(t, algorithm).Limit.Max()
	t.Logf("%d tries of %d processes in %v (%.0f a second): %d admitted, %d failed", tries, processes, took.Round(time.Millisecond), tries/took.Seconds(), admitted, failed)
	if admitted != want || failed != 0 {
		t.Errorf("%d admitted and %d failed, want %d and none", admitted, failed, want)
	}
}

// beOne is the work of each process.
func beOne(t *testing.T, url, algorithm string) {
	o, err := redisstore.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.Timeout = 30 * time.Second // the test needs every answer
	store, claim := newStore(t, o), hotClaim(t, algorithm)
	awaitAnswer(t, store, claim)
	fmt.Println("ready")
	_, _ = io.ReadAll(os.Stdin)
	var admitted, failed atomic.Int64
	var all sync.WaitGroup
	left := atomic.Int64{}
	left.Store(tries / processes)
	for range callers {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				d, err := store.Take(context.Background(), claim)
				if err != nil {
					failed.Add(1)
				} else if d.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	all.Wait()
	fmt.Printf("admitted %d failed %d\n", admitted.Load(), failed.Load())
}

// process runs this test binary again.
type process struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func begin(t *testing.T, url, algorithm string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestManyProcessesAdmitExactlyTheLimit$", "-test.count=1")
	cmd.Env = append(os.Environ(), envURL+"="+url, envAlgorithm+"="+algorithm)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	return &process{in, bufio.NewReader(out)}
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("a process wrote %q and ended: %v", line, err)
	}
	return line
}

func (p *process) expect(t *testing.T, want string) {
	t.Helper()
	if line := p.line(t); line != want {
		t.Fatalf("a process wrote %q, want %q", line, want)
	}
}
