// Command pictures draws how many requests each algorithm admits of the same load, as
// text for docs/choosing-an-algorithm.md. With a folder as argument it also writes the
// SVG files of docs/resilience.md, which show incidents in virtual time. Run it when the
// scenarios or a guide change: cd bench; go run ./pictures ../docs. It promises that the
// pictures show what the library does: its tests compare them.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/stintdev/stint"
)

// The requests: none until 8 s, then three each half second until 30 s. The
// limit is 10 in 10 s, whatever the algorithm.
const (
	column = 500 * time.Millisecond
	quiet  = 8 * time.Second
	end    = 30 * time.Second
	window = 10 * time.Second
	each   = 3
)

// start is a multiple of the window, like the beginnings of fixed windows.
var start = time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // Go has no constants of this type

type row struct {
	name string
	spec stint.Spec
}

func rows() []row {
	return []row{
		{"token_bucket", stint.Spec{Limit: 10, Window: window}},
		{"gcra, burst 2", stint.Spec{Algorithm: stint.GCRA, Limit: 10, Window: window, Capacity: 2}},
		{"fixed_window", stint.Spec{Algorithm: stint.FixedWindow, Limit: 10, Window: window}},
		{"sliding_window_counter, 1", stint.Spec{Algorithm: stint.SlidingWindowCounter, Limit: 10, Window: window}},
		{"sliding_window_counter, 10", stint.Spec{Algorithm: stint.SlidingWindowCounter, Limit: 10, Window: window, Buckets: 10}},
		{"sliding_window_log", stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: 10, Window: window}},
		{"leaky_bucket, queue 4", stint.Spec{Algorithm: stint.LeakyBucket, Limit: 10, Window: window, Queue: 4}},
		{"quota, from second 5", stint.Spec{Algorithm: stint.Quota, Limit: 10, Period: "10s", Anchor: "2026-03-01T00:00:05Z"}},
	}
}

func main() {
	err := draw(os.Stdout)
	if err == nil && len(os.Args) > 1 {
		err = write(os.Args[1])
	}
	if err != nil {
		log.Fatal(err)
	}
}

func draw(w io.Writer) error {
	_, _ = fmt.Fprintf(w, "%-28s%-20s%-20s%-22s%s\n", "", "0 s", "10 s", "20 s", "most in any 10 s")
	_, _ = fmt.Fprintf(w, "%-28s%s\n", "requests", line(asked()))
	for _, r := range rows() {
		acts, err := admitted(r.spec)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		_, _ = fmt.Fprintf(w, "%-28s%s  %d\n", r.name, line(acts), most(acts))
	}
	return nil
}

func asked() (acts []time.Duration) {
	for t := quiet; t < end; t += column {
		for range each {
			acts = append(acts, t)
		}
	}
	return acts
}

// admitted returns when the admitted requests may act.
func admitted(spec stint.Spec) (acts []time.Duration, err error) {
	limit, err := spec.Compile()
	if err != nil {
		return nil, err
	}
	var now time.Duration
	clock := func() time.Time { return start.Add(now) }
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{Clock: clock}), "picture", limit)
	if err != nil {
		return nil, err
	}
	for _, now = range asked() {
		d, err := limiter.Allow(context.Background(), "caller")
		if err != nil {
			return nil, err
		}
		if d.Allowed {
			acts = append(acts, now+d.Delay)
		}
	}
	return acts, nil
}

// line returns the number of requests that act in each half second.
func line(acts []time.Duration) string {
	counts := make([]int, end/column)
	for _, t := range acts {
		if t < end {
			counts[t/column]++
		}
	}
	var s strings.Builder
	for _, n := range counts {
		s.WriteByte(".123456789"[n])
	}
	return s.String()
}

// most returns the greatest number of acts in any time of one window, its end excluded.
func most(acts []time.Duration) (n int) {
	for i, from := range acts {
		k := i
		for k < len(acts) && acts[k] < from+window {
			k++
		}
		n = max(n, k-i)
	}
	return n
}
