package server

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/cmd/stint/internal/penalty"
)

// penaltyObserver counts penalties and logs their start, at most once a second, with the
// number of suppressed lines.
type penaltyObserver struct {
	metrics *metrics.Metrics
	log     *slog.Logger

	second     atomic.Int64 // Unix time of the last line
	suppressed atomic.Int64
}

// Began implements [penalty.Observer].
func (o *penaltyObserver) Began(p *penalty.Punishment) {
	o.metrics.PenaltyBegan(p.Rule, p.Kind.String(), p.For)
	o.logBegan(p, time.Now())
}

// Denied implements [penalty.Observer].
func (o *penaltyObserver) Denied(rule string) { o.metrics.PenaltyDenied(rule) }

func (o *penaltyObserver) logBegan(p *penalty.Punishment, now time.Time) {
	last := o.second.Load()
	if now.Unix() == last || !o.second.CompareAndSwap(last, now.Unix()) {
		o.suppressed.Add(1)
		return
	}
	o.log.Info("penalty begins", "rule", p.Rule, "caller", impact.Shorten(p.Key), "kind", p.Kind, "for", p.For, "suppressed", o.suppressed.Swap(0))
}
