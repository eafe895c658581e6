package guard

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
)

// unconfirmed counts the charges that too few replicas confirmed in time. Such a charge
// stands, and no breaker opens for it, so without a log line nobody would learn that the
// loss of a server can lose charges that a rule wanted to keep.
//
// The first such charge is logged at once. Further ones are logged once a minute, with
// their number, until a minute passes without any.
type unconfirmed struct {
	count   atomic.Uint64 // since the last line
	logging atomic.Bool   // a goroutine logs the count
}

const unconfirmedEvery = time.Minute

// noteUnconfirmed counts a call that failed with err, if too few replicas confirmed it.
func (s *Store) noteUnconfirmed(err error) {
	var e *stint.Error
	if !errors.As(err, &e) || e.Kind != stint.KindReplicas {
		return
	}
	s.unconfirmed.count.Add(1)
	if !s.unconfirmed.logging.Swap(true) {
		s.shards.background.run(s.logUnconfirmed)
	}
}

func (s *Store) logUnconfirmed(ctx context.Context) {
	u := &s.unconfirmed
	for {
		for n := u.count.Swap(0); n > 0; n = u.count.Swap(0) {
			s.options.Logger.LogAttrs(ctx, slog.LevelWarn, "charges were not confirmed by enough replicas in time: they stand, the failure policy decided their checks, and a failover may lose them",
				slog.Uint64("count", n))
			pause(ctx, unconfirmedEvery)
		}
		u.logging.Store(false)
		if u.count.Load() == 0 || u.logging.Swap(true) {
			return // a charge that was counted meanwhile has its goroutine
		}
	}
}
