package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// filling is what it took a contestant to hold many keys.
type filling struct {
	BytesPerKey, PeakPerKey        float64
	Median, P9999, Slowest, FullGC time.Duration
}

// fillOne gives a fresh contestant n keys it has never seen, one call each.
// What it allocates meanwhile is collected as it would be in a server, whose
// heap also holds other things: here the text of the keys.
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

// peakOf is by how many bytes a key the resident memory grew at most during
// work.
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

// fullGC is the median time of a whole collection, both processors helping.
func fullGC() time.Duration {
	var times []float64
	for range 5 {
		start := time.Now()
		runtime.GC()
		times = append(times, float64(time.Since(start)))
	}
	return time.Duration(median(times))
}

// latencies is how long each call took, in nanoseconds.
type latencies []uint32

// newLatencies has every page in memory, so that none is paid for later.
func newLatencies(n int) latencies {
	l := make(latencies, n)
	for i := range l {
		l[i] = 1
	}
	return l
}

// fill times each call on its own. Reading the clock is in every figure.
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

// fill fills every contestant, each in a process of its own: what one leaves
// behind is not in the way of the next.
func fill(o options, out io.Writer, b *bars) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\nfill: %d keys\t\n\tbytes a key\tat peak\tmedian call\tp99.99\tslowest\tfull GC\t\n", o.keys)
	for _, c := range contestants() {
		f, err := fillApart(c.name, o.keys)
		if err != nil {
			return fmt.Errorf("filling %s: %w", c.name, err)
		}
		fmt.Fprintf(table, "%s\t%.1f\t%.1f\t%v\t%v\t%v\t%v\t\n", c.name, f.BytesPerKey, f.PeakPerKey,
			f.Median, f.P9999, f.Slowest, f.FullGC.Round(time.Microsecond))
		if c.name == stintName {
			b.judgeFilling(f)
		}
	}
	return table.Flush()
}

// fillApart is fillOne in a process of its own.
func fillApart(name string, keys int) (f filling, err error) {
	return f, apart("fill:"+name, keys, &f)
}
