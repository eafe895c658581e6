package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/cmd/stint/internal/topkeys"
)

// countKeys returns a store that counts the keys of its claims. Without a sketch it returns
// the store itself.
func countKeys(store stint.Store, keys *topkeys.Sketch, shadows *topkeys.Shadows) stint.Store {
	if keys == nil {
		return store
	}
	return topkeys.NewStore(store, keys, shadows)
}

const (
	hotInterval = time.Second
	hotPause    = time.Minute // between two log lines about one key
	hotLines    = 10          // log lines about hot keys in hotPause
)

// watchKeys ends the intervals of the sketches and logs hot keys, until ctx ends.
func watchKeys(ctx context.Context, keys *topkeys.Sketch, shadows *topkeys.Shadows, log *slog.Logger) {
	l := hotLog{log: log, logged: map[topkeys.Key]time.Time{}}
	tick := time.NewTicker(hotInterval)
	defer tick.Stop()
	began := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			now := time.Now()
			l.note(keys.EndInterval(now.Sub(began)), now)
			shadows.EndInterval(now.Sub(began))
			began = now
		}
	}
}

// hotLog logs each hot key at most once in hotPause, and at most hotLines keys in that time.
type hotLog struct {
	log        *slog.Logger
	logged     map[topkeys.Key]time.Time // by rule and key; at most hotLines entries
	suppressed int
}

// note logs the hot keys of an interval, which come with the busiest first.
func (l *hotLog) note(hot []topkeys.Key, now time.Time) {
	for key, at := range l.logged {
		if now.Sub(at) >= hotPause {
			delete(l.logged, key)
		}
	}
	for _, key := range hot {
		id := topkeys.Key{Rule: key.Rule, Key: key.Key}
		if _, known := l.logged[id]; known {
			continue
		}
		if len(l.logged) >= hotLines {
			l.suppressed++
			continue
		}
		l.logged[id] = now
		l.log.Warn("hot key", "rule", key.Rule, "key", impact.Shorten(key.Key), "per_second", key.PerSecond, "suppressed", l.suppressed)
		l.suppressed = 0
	}
}
