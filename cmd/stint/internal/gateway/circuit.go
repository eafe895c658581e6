package gateway

import (
	"time"

	"github.com/stintdev/stint/resilience/breaker"
)

// circuit holds the two circuit breakers that may guard an upstream. Both learn from the
// same outcomes, and have different purposes.
//
// The breaker of [GroupOptions.Breaker] protects the upstream: it opens when too large a
// share of the requests fails, and is never bypassed. While the breakers of all upstreams
// are open, the group sends nothing.
//
// The ejector of [GroupOptions.Ejection] protects clients from an upstream that is worse
// than the others: it opens after failures in a row. That helps only as long as the
// others can take the requests, so it is bypassed if too many upstreams are ejected
// already, and in a panic (see group.leastBusy).
//
// The zero value guards nothing.
type circuit struct {
	breaker   *breaker.Breaker // nil: none
	ejector   *ejector         // nil: none
	witnesses *witnesses       // nil if the upstream is not guarded
}

// guard makes the circuit of an upstream of the group.
func (gr *group) guard(u *upstream) (err error) {
	o, c := &gr.options, &u.circuit
	if o.Breaker == nil && o.Ejection == nil {
		return nil
	}
	c.witnesses = newWitnesses()
	if o.Breaker != nil {
		b := *o.Breaker
		b.Clock = gr.now
		b.OnChange = func(change breaker.Change) { gr.breakerChanged(u, change) }
		if c.breaker, err = breaker.New(b); err != nil {
			return err
		}
	}
	if o.Ejection != nil {
		c.ejector, err = gr.newEjector(u)
	}
	return err
}

func (gr *group) breakerChanged(u *upstream, c breaker.Change) {
	switch c.To {
	case breaker.Open:
		gr.metrics.Openings.Inc()
		gr.log.Warn("circuit of an upstream is open", "upstream", u.name, "group", gr.options.Name, "reason", c.Reason.String(),
			"failures", c.Counts.Failures, "responses", c.Counts.Calls, "for", c.OpenFor)
	case breaker.Closed:
		gr.log.Info("circuit of an upstream is closed", "upstream", u.name, "group", gr.options.Name)
	}
}

// open reports whether the breaker refuses requests now.
func (c *circuit) open() bool {
	s := c.breaker.State()
	return s == breaker.ForcedOpen || s == breaker.Open && c.breaker.RetryAfter() > 0
}

// usable reports whether a request may be sent now, apart from probes.
func (c *circuit) usable() bool { return !c.open() && !c.ejector.excludes() }

// retryAfter returns how long the circuit will refuse requests.
func (c *circuit) retryAfter() time.Duration {
	return max(c.breaker.RetryAfter(), c.ejector.retryAfter())
}

// permit is the permission to send one request to an upstream. Its holder ends it.
type permit struct {
	failures int // as health.claim returns it
	breaker  breaker.Call
	ejection breaker.Call
	probe    bool // the request probes an upstream whose breaker or ejector was open
}

// claim asks the circuit breakers for a request. If bypass is set, the ejector is not
// obeyed.
func (c *circuit) claim(bypass bool) (p permit, ok bool) {
	if c.witnesses == nil {
		return p, true
	}
	if p.ejection, p.probe, ok = c.ejector.begin(bypass); !ok {
		return p, false
	}
	p.probe = p.probe || isProbing(c.breaker)
	if p.breaker, ok = c.breaker.Begin(); !ok {
		p.ejection.Ignore()
	}
	return p, ok
}

// isProbing reports whether the next call of a breaker would be a probe.
func isProbing(b *breaker.Breaker) bool {
	s := b.State()
	return s == breaker.Open || s == breaker.HalfOpen
}

// end tells the circuit breakers what the request showed about the upstream.
func (p *permit) end(o breaker.Outcome) {
	p.breaker.End(o)
	p.ejection.End(o)
}
