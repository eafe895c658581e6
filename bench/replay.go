package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// replayRules has four rules, which all match every event.
const replayRules = `rules:
  - {id: everything, by: [ip], limit: 600/m}
  - {id: callers, by: [api_key], algorithm: gcra, limit: 100, window: 1m, burst: 200}
  - {id: orders, match: {path_prefix: /v1/orders}, by: [api_key, path], algorithm: fixed_window, limit: 1000, window: 1h}
  - {id: reads, match: {methods: [GET]}, by: [ip, method], algorithm: sliding_window_counter, limit: 5000, window: 1h}
`

// The promises for a replay: ten million events under four rules, and the memory
// for each key of a limit.
const (
	replayEvents      = 10_000_000
	replaySeconds     = 20
	replayBytesPerKey = 64
)

// replayed is what a replay took.
type replayed struct {
	elapsed time.Duration
	peak    int64 // resident memory at its greatest, in bytes
	events  int64
	keys    int64
}

// replaying measures stint replay on recordings of as many events as -keys says.
func replaying(ctx context.Context, o options, out io.Writer, b *bars) error {
	dir, err := os.MkdirTemp("", "stint-bench-")
	if err != nil {
		return err
	}
	rules, recording := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "events.jsonl")
	err = os.WriteFile(rules, []byte(replayRules), 0o600)
	if err == nil {
		err = replayBoth(ctx, o, out, b, rules, recording)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

func replayBoth(ctx context.Context, o options, out io.Writer, b *bars, rules, recording string) error {
	random := rand.New(rand.NewPCG(1, 2))
	err := record(recording, o.keys, func(i int) string {
		u := random.Float64()
		caller := int(1e6 * u * u * u)
		return fmt.Sprintf(`{"t_us":%d,"api_key":"user:%d","ip":"10.%d.%d.%d","method":"GET","path":"/v1/orders/%d"}`,
			1_772_521_925_000_000+i*100, caller, caller>>16&255, caller>>8&255, caller&255, caller%10)
	})
	if err != nil {
		return err
	}
	traffic, err := replayOne(ctx, o, "--rules", rules, recording)
	if err != nil {
		return err
	}
	err = record(recording, o.keys, func(i int) string { return fmt.Sprintf(`{"t_us":%d,"key":"user:%d"}`, 1_772_521_925_000_000+i*100, i) })
	if err != nil {
		return err
	}
	keys, err := replayOne(ctx, o, "--limit", "10/m", "--by", "key", "--reorder", "0", recording) // no events wait beside the keys
	if err != nil {
		return err
	}
	perKey := float64(keys.peak) / float64(keys.keys)
	fmt.Fprintf(out, "\nreplay: %d events of JSON lines\nfour rules  %.1f s, %.0f events a second, %d MB\nnew keys    %.1f s, %.0f events a second, %.1f bytes a key at the peak\n",
		o.keys, traffic.elapsed.Seconds(), traffic.rate(), traffic.peak>>20, keys.elapsed.Seconds(), keys.rate(), perKey)
	b.judge("replay: four rules, for 10,000,000 events", replayEvents/traffic.rate(), replaySeconds, "s")
	b.judge("replay: memory at its peak", perKey, replayBytesPerKey, "bytes a key")
	return nil
}

func (r replayed) rate() float64 { return float64(r.events) / r.elapsed.Seconds() }

// record writes a file of lines.
func record(path string, lines int, line func(i int) string) error {
	file, err := os.Create(path) //nolint:gosec // a file of this program
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(file, 1<<20)
	for i := range lines {
		_, _ = w.WriteString(line(i)) // Flush returns the first error
		_ = w.WriteByte('\n')
	}
	return errors.Join(w.Flush(), file.Close())
}

// replayOne runs one replay on two CPUs.
func replayOne(ctx context.Context, o options, args ...string) (r replayed, err error) {
	c := exec.CommandContext(ctx, o.stint, append([]string{"replay", "--json"}, args...)...)
	c.Env = append(os.Environ(), "GOMAXPROCS=2")
	c.Stderr = os.Stderr
	start := time.Now()
	text, err := c.Output()
	if err != nil {
		return r, fmt.Errorf("replay: %w", err)
	}
	r.elapsed = time.Since(start)
	used, ok := c.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return r, errors.New("replay: the system does not report what a process used")
	}
	r.peak = used.Maxrss << 10 // Linux counts in kilobytes
	if o.busy {
		r.elapsed = (c.ProcessState.UserTime() + c.ProcessState.SystemTime()) / 2
	}
	var summary struct {
		Events int64 `json:"events"`
		Keys   int64 `json:"keys"`
	}
	if err = json.Unmarshal(text, &summary); err != nil {
		return r, fmt.Errorf("replay: %w", err)
	}
	r.events, r.keys = summary.Events, summary.Keys
	return r, nil
}
