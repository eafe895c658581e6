package gateway

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/resilience/breaker"
)

// EjectionOptions says when an upstream that is worse than the others of its group gets no
// requests for a while.
type EjectionOptions struct {
	// Failures is the number of failures in a row after which an upstream is ejected.
	// Defaults to 5.
	Failures int

	// For is the time of the first ejection. One request then probes the upstream. If it
	// fails, the next ejection is twice as long, up to MaxFor. Defaults to 10 s and 5 min.
	// An upstream that has worked for MaxFor begins again with For.
	For, MaxFor time.Duration

	// MaxShare is the greatest share of the upstreams that is ejected at the same time,
	// at most 1. One of two or more may always be ejected, and never all. Defaults to
	// 0.5.
	MaxShare float64
}

func (o EjectionOptions) setDefaults() EjectionOptions {
	o.Failures = cmp.Or(o.Failures, 5)
	o.For = cmp.Or(o.For, 10*time.Second)
	o.MaxFor = cmp.Or(o.MaxFor, max(o.For, 5*time.Minute))
	o.MaxShare = cmp.Or(o.MaxShare, 0.5)
	return o
}

// most returns how many of n upstreams may be ejected at the same time.
func (o *EjectionOptions) most(n int) int64 {
	return int64(min(n-1, max(1, int(o.MaxShare*float64(n)))))
}

// ejector ejects one upstream. Its breaker opens whenever the upstream fails; the ejection
// is in force only if the group may eject another upstream at that time. A nil ejector
// ejects nothing.
type ejector struct {
	breaker *breaker.Breaker
	inForce atomic.Bool
}

func (gr *group) newEjector(u *upstream) (e *ejector, err error) {
	o := gr.options.Ejection
	e = &ejector{}
	e.breaker, err = breaker.New(breaker.Options{
		ConsecutiveFailures: o.Failures, OpenFor: o.For, MaxOpenFor: o.MaxFor, Growth: 2, Window: o.MaxFor,
		Clock: gr.now, OnChange: func(c breaker.Change) { gr.ejectorChanged(u, e, c) },
	})
	return e, err
}

func (gr *group) ejectorChanged(u *upstream, e *ejector, c breaker.Change) {
	log := gr.log.With("upstream", u.name, "group", gr.options.Name)
	o := gr.options.Ejection
	switch {
	case c.To == breaker.Open && (e.inForce.Load() || gr.reserveEjection(o.most(len(gr.upstreams)))):
		e.inForce.Store(true)
		gr.metrics.Ejections.Inc()
		log.Warn("upstream is ejected", "reason", c.Reason.String(), "failures", o.Failures, "for", c.OpenFor)
	case c.To == breaker.Open:
		log.Warn("upstream fails, but enough others are ejected", "ejected", gr.ejected.Load(), "upstreams", len(gr.upstreams))
	case c.To == breaker.Closed && e.inForce.Swap(false):
		gr.ejected.Add(-1)
		log.Info("upstream is no longer ejected")
	}
}

// reserveEjection counts another ejection, unless most are in force.
func (gr *group) reserveEjection(most int64) bool {
	if gr.ejected.Add(1) <= most {
		return true
	}
	gr.ejected.Add(-1)
	return false
}

// excludes reports whether the upstream gets no request now, not even a probe.
func (e *ejector) excludes() bool { return e.retryAfter() > 0 }

func (e *ejector) retryAfter() time.Duration {
	if e == nil || !e.inForce.Load() {
		return 0
	}
	return e.breaker.RetryAfter()
}

// begin asks the breaker for a request, and reports whether it is a probe. A refusal
// counts only if the ejection is in force and not bypassed.
func (e *ejector) begin(bypass bool) (c breaker.Call, probe, ok bool) {
	if e == nil {
		return c, false, true
	}
	probe = isProbing(e.breaker)
	if c, ok = e.breaker.Begin(); ok {
		return c, probe, true
	}
	return breaker.Call{}, false, bypass || !e.inForce.Load()
}
