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
// What it gives up of callers' own limits is told apart.
func watchEvictions(ctx context.Context, stats func() stint.MemoryStats, log *slog.Logger) {
	tick := time.NewTicker(evictionPoll)
	defer tick.Stop()
	rules, callers := losses{quiet: evictionQuiet}, losses{quiet: evictionQuiet}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := stats()
		if rules.areNews(now.Evictions + now.Unstored) {
			log.Warn("store full: keys are evicted (give a greater --max-keys, or shorter windows)", "keys", now.Keys, "evictions", now.Evictions, "unstored", now.Unstored)
		}
		if c := now.Callers; callers.areNews(c.Evictions + c.Refused) {
			log.Warn("the share of limits that callers bring is full: their keys are evicted, new ones may be refused, and no rule is concerned (give a greater --max-caller-keys, or a --http-token-file)",
				"keys", c.Keys, "limits", c.Limits, "evictions", c.Evictions, "refused", c.Refused)
		}
	}
}

// losses tells when a count that grows is news.
type losses struct {
	last  uint64
	quiet time.Duration
}

func (l *losses) areNews(lost uint64) bool {
	l.quiet += evictionPoll
	if lost == l.last {
		return false
	}
	news := l.quiet > evictionQuiet
	l.last, l.quiet = lost, 0
	return news
}
