package server

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/internal/impact"
	"github.com/stintdev/stint/internal/penalty"
)

// penaltyLog tells whom rules punish: one a second, since they may be many at
// once, and how many it has kept to itself since then.
type penaltyLog struct {
	log    *slog.Logger
	second atomic.Int64 // the last that a line was written in, Unix time
	untold atomic.Int64
}

func (l *penaltyLog) began(p *penalty.Punishment, now time.Time) {
	last := l.second.Load()
	if now.Unix() == last || !l.second.CompareAndSwap(last, now.Unix()) {
		l.untold.Add(1)
		return
	}
	l.log.Info("penalty begins", "rule", p.Rule, "caller", impact.Shorten(p.Key), "kind", kindOf(p), "for", p.For, "untold", l.untold.Swap(0))
}

// kindOf is what logs and metrics call a punishment.
func kindOf(p *penalty.Punishment) string {
	if p.Ban {
		return "ban"
	}
	return "cool_down"
}
