package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/stintdev/stint"
)

// flood sends many keys, each once, to a store that holds a twentieth of them, while some
// keys stay denied.
type flood struct {
	store   *stint.Memory
	limit   stint.Limit
	denied  keyText
	slipped int // how often a denied key was admitted
}

const (
	floodShare = 20  // the store holds one in this many keys
	deniedKeys = 256 // spread over the store, asked regularly
	floodLimit = 10
)

func newFlood(keys int) (*flood, error) {
	limit, err := compile(allowance{floodLimit, time.Hour})
	if err != nil {
		return nil, err
	}
	f := &flood{
		store: stint.NewMemory(stint.MemoryOptions{MaxKeys: keys / floodShare}), limit: limit,
		denied: newKeyText(deniedKeys),
	}
	for range floodLimit {
		f.askDenied()
	}
	f.slipped = 0
	return f, nil
}

func (f *flood) admits(key string) bool {
	d, err := f.store.Take(context.Background(), stint.Claim{Key: key, Limit: f.limit, Cost: 1})
	return err == nil && d.Allowed
}

func (f *flood) askDenied() {
	for i := range f.denied.len() {
		if f.admits(f.denied.key(i)) {
			f.slipped++
		}
	}
}

// pour sends n new keys, from number first on, and asks for the denied keys regularly.
func (f *flood) pour(first, n int) {
	const between = 50_000
	var key [keyLength]byte
	for i := range n {
		f.admits(string(writeKey(key[:], first+i)))
		if i%between == 0 {
			f.askDenied()
		}
	}
}

// flooded is the result of a flood.
type flooded struct {
	Took       time.Duration
	PeakPerKey float64 // bytes resident at most, for each key of the bound
	Slipped    int     // how often a denied key was admitted
	Stats      stint.MemoryStats
}

// pourAll floods a fresh store.
func pourAll(keys int) (w flooded, err error) {
	f, err := newFlood(keys)
	if err != nil {
		return w, err
	}
	start := time.Now()
	w.PeakPerKey, err = peakOf(func() { f.pour(deniedKeys, keys) }, keys/floodShare)
	w.Took, w.Slipped, w.Stats = time.Since(start), f.slipped, f.store.Stats()
	return w, err
}

// flooding sends twice as many keys as fill.
func flooding(ctx context.Context, o options, out io.Writer, b *bars) error {
	keys := 2 * o.keys
	bound := keys / floodShare
	var w flooded
	if err := apart(ctx, "flood", keys, &w); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nflood: %d keys against a bound of %d: %d held, %.1f bytes each, %d evicted, %d not stored, %.0f ns a call\n",
		keys, bound, w.Stats.Keys, w.PeakPerKey, w.Stats.Evictions, w.Stats.Unstored, float64(w.Took.Nanoseconds())/float64(keys))
	b.judge("flood: keys held", float64(w.Stats.Keys), float64(bound), "keys")
	b.judge("flood: memory at its peak", w.PeakPerKey, 64, "bytes for each key of the bound")
	b.judge("flood: keys under denial let through", float64(w.Slipped), 0, "times")
	return nil
}
