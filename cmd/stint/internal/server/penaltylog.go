package server

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/cmd/stint/internal/penalty"
)

// penaltyLog logs the start of penalties, at most one a second, with the number of
// suppressed lines.
type penaltyLog struct {
	log    *slog.Logger
	second atomic.Int64 // Unix time of the last line
	untold atomic.Int64
}

func (l *penaltyLog) began(p *penalty.Punishment, now time.Time) {
	last := l.second.Load()
	if now.Unix() == last || !l.second.CompareAndSwap(last, now.Unix()) {
		l.untold.Add(1)
		return
	}
	l.log.Info("penalty begins", "rule", p.Rule, "caller", impact.Shorten(p.Key), "kind", kindOf(p), "for", p.For, "suppressed", l.untold.Swap(0))
}

// kindOf is what logs and metrics call a punishment.
func kindOf(p *penalty.Punishment) string {
	if p.Ban {
		return "ban"
	}
	return "cool_down"
}
