package envoyrls

import (
	"context"
	"iter"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/emergency"
)

// Decided describes a decided request for Options.Decided. It is valid during the call.
type Decided struct {
	Rule     string // the domain, or [emergency.Rule]; empty if no limit applied
	Limit    string // name of the binding limit in the configuration, such as domain.key_value
	Key      string // that the binding limit counts; without one, that of the first descriptor
	Cost     int64
	Allowed  bool // the answer to Envoy
	Degraded bool // an enforced limit was decided without the store
	// Decision is that of the binding limit, with the numbers of the configuration.
	Decision stint.Decision

	plan   *plan // nil: an emergency has decided
	shadow bool  // Options.Shadow
}

// Limits returns the names of all limits that applied, in the order of the descriptors, and
// whether each would have denied the request but only observes.
func (d *Decided) Limits() iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		if d.plan == nil {
			return
		}
		denied := d.plan.denied()
		for i := range d.plan.matches {
			m := &d.plan.matches[i]
			if !m.applies() {
				continue
			}
			observed := d.shadow || d.plan.onlyObserves(m.limit, denied)
			if !yield(m.limit.path, observed && !d.plan.decisions[m.claim].Allowed) {
				return
			}
		}
	}
}

// decided reports a request that the limits of its domain have decided.
func (s *Service) decided(ctx context.Context, p *plan, request *pb.RateLimitRequest, allowed bool) {
	if s.options.Decided == nil || allowed && s.options.DeniedOnly {
		return
	}
	d := Decided{Allowed: allowed, Decision: stint.Decision{Allowed: allowed}, plan: p, shadow: s.options.Shadow}
	if m := p.binding(); m != nil {
		d.Rule, d.Limit, d.Key, d.Cost = request.GetDomain(), m.limit.path, m.key, m.cost
		d.Decision = m.limit.described(p.decisions[m.claim])
	} else {
		first := request.GetDescriptors()[0]
		d.Key, d.Cost = key(request.GetDomain(), first.GetEntries(), nil), hits(request, first)
	}
	d.Degraded = p.degraded()
	s.options.Decided(ctx, &d)
}

// degraded reports whether an enforced limit was decided without the store.
func (p *plan) degraded() bool {
	for i := range p.matches {
		if m := &p.matches[i]; m.applies() && !m.limit.shadow && p.decisions[m.claim].Degraded {
			return true
		}
	}
	return false
}

// decidedByEmergency reports a request that an emergency denies.
func (s *Service) decidedByEmergency(ctx context.Context, c *stint.Claim, d *stint.Decision) {
	if s.options.Decided == nil {
		return
	}
	s.options.Decided(ctx, &Decided{
		Rule: emergency.Rule, Limit: c.Limit.Name(), Key: c.Key, Cost: c.Cost,
		Allowed: s.options.Shadow, Degraded: d.Degraded, Decision: *d,
	})
}

// binding returns the match whose limit decides the request: of those that can deny it, or else
// of all, the one that denies for longest, or that has the least left. It returns nil if no limit
// applies.
func (p *plan) binding() (binding *match) {
	denied := p.denied()
	for i := range p.matches {
		m := &p.matches[i]
		if !m.applies() {
			continue
		}
		if binding == nil {
			binding = m
			continue
		}
		observes, observed := p.onlyObserves(m.limit, denied), p.onlyObserves(binding.limit, denied)
		if observed && !observes || observed == observes && p.nearer(m, binding) {
			binding = m
		}
	}
	return binding
}

// onlyObserves reports whether a limit has no part in the answer to a request that is denied or
// not.
func (p *plan) onlyObserves(l *limit, denied bool) bool { return l.shadow || p.inQuota(l) && !denied }

// described returns a decision with the numbers of the configuration: with Options.CountAll the
// store counts past the limit, and knows no time of a retry.
func (l *limit) described(d stint.Decision) stint.Decision {
	d.Limit, d.Remaining = int64(l.info.GetRequestsPerUnit()), int64(l.remaining(&d))
	if !d.Allowed && d.RetryAfter == 0 {
		d.RetryAfter = l.reset(&d)
	}
	return d
}
