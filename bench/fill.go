package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// filling is the cost of holding many keys.
type filling struct {
	BytesPerKey, PeakPerKey        float64
	Median, P9999, Slowest, FullGC time.Duration
}

// fillOne makes one call to a fresh contestant for each of n new keys. Its garbage is
// collected as in a server whose heap holds other data too: here the text of the keys.
func fillOne(c contestant, n int) (f filling, err error) {
	empty, err := residentIdle()
	if err != nil {
		return f, err
	}
	keys, calls := newKeyText(n), newLatencies(n)
	t, err := c.build(heldLong())
	if err != nil {
		return f, err
	}
	if f.PeakPerKey, err = peakOf(func() { calls.fill(t, keys) }, n); err != nil {
		return f, err
	}
	f.Median, f.P9999, f.Slowest = calls.quantiles()
	f.FullGC = fullGC()
	if c.keepsKeys {
		f.PeakPerKey += keyLength
	}
	keys, calls = "", nil
	held, err := residentIdle()
	f.BytesPerKey = float64(held-empty) / float64(n)
	runtime.KeepAlive(t)
	return f, err
}

// peakOf returns the greatest growth of resident memory during work, in bytes per key.
func peakOf(work func(), keys int) (float64, error) {
	before, err := residentIdle()
	if err != nil {
		return 0, err
	}
	if err := resetPeak(); err != nil {
		return 0, err
	}
	work()
	_, peak, err := resident()
	return float64(peak-before) / float64(keys), err
}

// fullGC returns the median time of a full collection.
func fullGC() time.Duration {
	var times []float64
	for range 5 {
		start := time.Now()
		runtime.GC()
		times = append(times, float64(time.Since(start)))
	}
	return time.Duration(median(times))
}

// latencies holds the duration of each call in nanoseconds.
type latencies []uint32

// newLatencies writes to every page, so that no call pays for a page fault.
func newLatencies(n int) latencies {
	l := make(latencies, n)
	for i := range l {
		l[i] = 1
	}
	return l
}

// fill times each call by itself. Every figure includes one read of the clock.
func (l latencies) fill(t take, keys keyText) {
	base := time.Now()
	last := time.Since(base)
	for i := range l {
		t(keys.key(i))
		now := time.Since(base)
		l[i] = uint32(min(now-last, 1<<32-1))
		last = now
	}
}

func (l latencies) quantiles() (middle, p9999, slowest time.Duration) {
	slices.Sort(l)
	return time.Duration(l[len(l)/2]), time.Duration(l[len(l)-1-len(l)/10_000]), time.Duration(l[len(l)-1])
}

// fill measures every contestant in a separate process, so that the memory of one does not
// affect the next.
func fill(ctx context.Context, o options, out io.Writer, b *bars) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\nfill: %d keys\t\n\tbytes a key\tat peak\tmedian call\tp99.99\tslowest\tfull GC\t\n", o.keys)
	for _, c := range contestants() {
		var f filling
		if err := apart(ctx, "fill:"+c.name, o.keys, &f); err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%.1f\t%.1f\t%v\t%v\t%v\t%v\t\n", c.name, f.BytesPerKey, f.PeakPerKey,
			f.Median, f.P9999, f.Slowest, f.FullGC.Round(time.Microsecond))
		if c.name == stintName {
			b.judgeFilling(f)
		}
	}
	return table.Flush()
}

// resident returns the resident memory of this process, and its peak since resetPeak, in
// bytes.
func resident() (now, peak int64, err error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, fmt.Errorf("memory is measured on Linux alone: %w", err)
	}
	if now, err = statusBytes(string(status), "VmRSS:"); err != nil {
		return 0, 0, err
	}
	peak, err = statusBytes(string(status), "VmHWM:")
	return now, peak, err
}

// resetPeak resets the peak to the current resident memory.
func resetPeak() error { return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// residentIdle returns the resident memory after the collector has returned what it can
// to the system.
func residentIdle() (int64, error) {
	debug.FreeOSMemory()
	now, _, err := resident()
	return now, err
}

// statusBytes parses a line such as "VmRSS:         1234 kB".
func statusBytes(status, field string) (int64, error) {
	_, rest, found := strings.Cut(status, field)
	line, _, _ := strings.Cut(rest, "\n")
	kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(line), " kB"), 10, 64)
	if !found || err != nil {
		return 0, fmt.Errorf("/proc/self/status has no %s in kB", field)
	}
	return kilobytes << 10, nil
}
