package failuretest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/leasecheck"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/lease"
	"github.com/stintdev/stint/redisstore"
)

// The environment variables of a process that leases, and of the file for its trace.
const (
	envLeaseURL   = "FAILURETEST_LEASE_URL"
	envLeaseTrace = "FAILURETEST_LEASE_TRACE"
)

// leasedLimits admit less than the load requests.
var leasedLimits = []stint.Spec{
	{Rule: "lease", Name: "bucket", Limit: 1000, Window: time.Second},
	{Rule: "lease", Name: "fixed", Algorithm: stint.FixedWindow, Limit: 500, Window: 500 * time.Millisecond},
	{Rule: "lease", Name: "log", Algorithm: stint.SlidingWindowLog, Limit: 400, Window: 500 * time.Millisecond},
	{Rule: "lease", Name: "counter", Algorithm: stint.SlidingWindowCounter, Buckets: 4, Limit: 500, Window: 800 * time.Millisecond},
}

func leasedClaims(t *testing.T) (claims []stint.Claim) {
	t.Helper()
	for _, spec := range leasedLimits {
		l, err := spec.Compile()
		if err != nil {
			t.Fatal(err)
		}
		claims = append(claims, stint.Claim{Key: "hot", Limit: l, Cost: 1, Policy: stint.Policy{Consistency: stint.Leased}})
	}
	return claims
}

// Four processes lease from one server, and are killed and replaced. Their traces
// together must obey the limits.
func TestProcessesThatLeaseAreKilled(t *testing.T) {
	skipShort(t)
	p := redistest.Server(t)
	claims, dir := leasedClaims(t), t.TempDir()
	var running []*exec.Cmd
	traces := 0
	begin := func() *exec.Cmd {
		traces++
		return leasingProcess(t, p.Addr(), filepath.Join(dir, fmt.Sprint(traces)))
	}
	for range 4 {
		running = append(running, begin())
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		<-time.After(300 * time.Millisecond)
		i := rng.IntN(len(running))
		_ = running[i].Process.Kill()
		_ = running[i].Wait() // the error is that the test killed it
		running[i] = begin()
	}
	for _, one := range running {
		_ = one.Process.Kill()
		_ = one.Wait()
	}
	checkTraces(t, claims, dir, traces)
}

func leasingProcess(t *testing.T, addr, trace string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestLeasingProcess$")
	cmd.Env = append(os.Environ(), envLeaseURL+"="+addr, envLeaseTrace+"="+trace)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	redistest.Await(t, func() error {
		if written, err := os.Stat(trace); err != nil || written.Size() == 0 {
			return errors.New("a process that leases writes nothing")
		}
		return nil
	})
	return cmd
}

// TestLeasingProcess is the work of one process, until it is killed.
func TestLeasingProcess(t *testing.T) {
	addr, path := os.Getenv(envLeaseURL), os.Getenv(envLeaseTrace)
	if addr == "" {
		t.Skip("is started by TestProcessesThatLeaseAreKilled")
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	store := newStore(t, single(addr))
	trace := &traceFile{file: file}
	leased, err := lease.New(&tracedStore{store, trace}, lease.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	for i, c := range leasedClaims(t) {
		callers.Go(func() { ask(t.Context(), leased, c, i, trace) })
	}
	callers.Wait()
}

// ask makes some thousand checks a second, for at most a minute.
func ask(ctx context.Context, store stint.Store, c stint.Claim, index int, trace *traceFile) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 60_000 {
		<-tick.C
		asked := time.Now().UnixMicro()
		d, err := store.Take(ctx, c)
		if err == nil && d.Allowed && !d.Degraded {
			trace.writef("admit %d %d %d %d %d\n", index, asked, time.Now().UnixMicro(), c.Cost, d.At)
		}
	}
}

// traceFile writes one line at a time, so that a killed process leaves whole lines.
type traceFile struct {
	mutex sync.Mutex
	file  *os.File
}

func (f *traceFile) writef(format string, args ...any) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	_, _ = fmt.Fprintf(f.file, format, args...)
}

// tracedStore records the tokens that it fetches before anybody can spend them.
type tracedStore struct {
	*redisstore.Store
	trace *traceFile
}

func (s *tracedStore) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	d, err := s.Store.Take(ctx, c)
	if err == nil {
		s.note(&c, &d)
	}
	return d, err
}

func (s *tracedStore) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	err := s.Store.TakeGroups(ctx, groups, out)
	for i := range groups { // each group has one claim
		if err == nil {
			s.note(&groups[i].Claims[0], &out[i])
		}
	}
	return err
}

func (s *tracedStore) note(c *stint.Claim, d *stint.Decision) {
	for i, spec := range leasedLimits {
		switch {
		case spec.Name != c.Limit.Name():
		case c.Cost < 0:
			s.trace.writef("return %d %d %d\n", i, c.At, -c.Cost)
		case d.Allowed && c.Cost+d.Granted > 0:
			s.trace.writef("charge %d %d %d\n", i, d.At, c.Cost+d.Granted)
		}
	}
}

// checkTraces reads the traces of all processes, and checks each limit.
func checkTraces(t *testing.T, claims []stint.Claim, dir string, n int) {
	t.Helper()
	traces := make([]leasecheck.Trace, len(claims))
	for i := range traces {
		traces[i] = leasecheck.Trace{Limit: claims[i].Limit, Lease: lease.DefaultTime, Stretch: lease.DefaultTime}
	}
	for i := range n {
		readTrace(t, filepath.Join(dir, fmt.Sprint(1+i)), traces)
	}
	for i := range traces {
		tr := &traces[i]
		t.Logf("%s: %d admitted, %d charges, %d returns, %d tokens stranded", claims[i].Limit.Name(),
			len(tr.Admissions), len(tr.Charges), len(tr.Returns), tr.Stranded())
		if err := tr.Tokens(); err != nil {
			t.Errorf("%s: %v", claims[i].Limit, err)
		}
		if err := tr.Bound(); err != nil {
			t.Errorf("%s: %v", claims[i].Limit, err)
		}
		if len(tr.Admissions) < 100 || len(tr.Charges) > len(tr.Admissions) {
			t.Errorf("%s: hardly anything was leased, so nothing was tested", claims[i].Limit)
		}
	}
}

func readTrace(t *testing.T, path string, traces []leasecheck.Trace) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var i int
		var a leasecheck.Admission
		line := lines.Text()
		if n, _ := fmt.Sscanf(line, "admit %d %d %d %d %d", &i, &a.Asked, &a.When, &a.Cost, &a.At); n == 5 {
			traces[i].Admissions = append(traces[i].Admissions, a)
			continue
		}
		var at, cost int64
		if n, _ := fmt.Sscanf(line, "charge %d %d %d", &i, &at, &cost); n == 3 {
			traces[i].Charges = append(traces[i].Charges, leasecheck.Charge{When: at, At: at, Cost: cost})
			continue
		}
		if n, _ := fmt.Sscanf(line, "return %d %d %d", &i, &at, &cost); n != 3 {
			t.Errorf("%s: %q", path, line)
			continue
		}
		traces[i].Returns = append(traces[i].Returns, leasecheck.Return{At: at, Cost: cost})
	}
}
