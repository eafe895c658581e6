package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
)

const (
	evictionPoll  = time.Second
	evictionQuiet = time.Minute // time without an eviction after which the next one is logged
)

// watchEvictions logs when the store begins to evict keys, until ctx ends. An evicted key
// gets a full allowance again. Evictions of caller-supplied limits are logged separately.
func watchEvictions(ctx context.Context, stats func() stint.MemoryStats, log *slog.Logger) {
	rules, callers, ids := losses{quiet: evictionQuiet}, losses{quiet: evictionQuiet}, losses{quiet: evictionQuiet}
	poll(ctx, func() {
		now := stats()
		if rules.grew(now.Evictions + now.Unstored) {
			log.Warn("store full: keys are evicted (give a greater --max-keys, or shorter windows)", "keys", now.Keys, "evictions", now.Evictions, "unstored", now.Unstored)
		}
		if c := now.Callers; callers.grew(c.Evictions + c.Refused) {
			log.Warn("the share of limits that callers bring is full: their keys are evicted, new ones may be refused, and rules are not affected (give a greater --max-caller-keys, or a --http-token-file)",
				"keys", c.Keys, "limits", c.Limits, "evictions", c.Evictions, "refused", c.Refused)
		}
		if ids.grew(now.Once.Refused) {
			warnOfRequestIDs(log, int64(now.Once.Bytes), now.Once.Refused)
		}
	})
}

func warnOfRequestIDs(log *slog.Logger, bytes int64, refused uint64) {
	log.Warn("the budget of request ids is used up: requests with a new id are refused, and all others are not affected (give a greater --max-request-id-bytes, or a --http-token-file)",
		"bytes", bytes, "refused", refused)
}

// watchBudget logs when a shared store begins to refuse caller-supplied limits or request
// ids, until ctx ends.
func watchBudget(ctx context.Context, stats func() metrics.SharedStats, log *slog.Logger) {
	refused, refusedIDs := losses{quiet: evictionQuiet}, losses{quiet: evictionQuiet}
	poll(ctx, func() {
		now := stats()
		if ids := now.RequestIDs; ids != nil && refusedIDs.grew(ids.Refused) {
			warnOfRequestIDs(log, ids.Bytes, ids.Refused)
		}
		if c := now.Callers; c != nil && refused.grew(c.Refused) {
			log.Warn("the budget of limits that callers bring is used up: new keys of them are refused, and rules are not affected (give a greater --max-caller-bytes, or a --http-token-file)",
				"bytes", c.Bytes, "refused", c.Refused)
		}
	})
}

// poll calls check every evictionPoll until ctx ends.
func poll(ctx context.Context, check func()) {
	tick := time.NewTicker(evictionPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			check()
		}
	}
}

// losses decides when the growth of a counter is worth a log line.
type losses struct {
	last  uint64
	quiet time.Duration // since the counter last grew
}

// grew reports whether the counter has grown for the first time since evictionQuiet. It
// is called every evictionPoll.
func (l *losses) grew(lost uint64) bool {
	l.quiet += evictionPoll
	if lost == l.last {
		return false
	}
	first := l.quiet > evictionQuiet
	l.last, l.quiet = lost, 0
	return first
}
