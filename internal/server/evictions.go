package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/stintdev/stint"
)

const (
	evictionPoll  = time.Second
	evictionQuiet = time.Minute // without an eviction, after which the next is news again
)

// watchEvictions logs when the store begins to give up keys, until ctx ends:
// from then on a caller whose key was given up has its whole allowance again.
func watchEvictions(ctx context.Context, stats func() stint.MemoryStats, log *slog.Logger) {
	tick := time.NewTicker(evictionPoll)
	defer tick.Stop()
	var last uint64
	quiet := evictionQuiet
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := stats()
		lost := now.Evictions + now.Unstored
		quiet += evictionPoll
		if lost == last {
			continue
		}
		if quiet > evictionQuiet {
			log.Warn("store full: keys are evicted (give a greater --max-keys, or shorter windows)", "keys", now.Keys, "evictions", now.Evictions, "unstored", now.Unstored)
		}
		last, quiet = lost, 0
	}
}
