package envoyrls

import (
	"context"
	"slices"

	"github.com/stintdev/stint"
)

// match is one descriptor of a request together with one limit that it matches. A
// descriptor that several limits apply to has several matches.
type match struct {
	of    int    // index of the descriptor
	limit *limit // nil: no limit applies
	key   string
	cost  int64
	claim int   // index of its claim and decision
	left  int64 // with Options.CountAll: the limit minus the count after the request
}

// applies reports whether the limit is counted.
func (m *match) applies() bool { return m.limit != nil && !m.limit.unlimited }

// plan is a request as claims on a store. Enforced limits are one group, and the
// observed limits of each descriptor are a shadow of it. With Options.CountAll each
// limit is a group of its own. A plan is used by one call at a time.
type plan struct {
	all, stop, quota bool // see Options
	lone             bool // exactly one descriptor is in quota mode; it is then enforced like any other
	nearRatio        float64
	matches          []match
	claims           []stint.Claim
	groups           []stint.Group
	shadows          [][]stint.Claim // shadows of the group
	decisions        []stint.Decision
	places           map[state]int // index of each enforced claim; used only for many
}

// borrow returns a plan from the pool.
func (s *Service) borrow() *plan {
	p, ok := s.plans.Get().(*plan)
	if !ok {
		p = new(plan)
	}
	p.all, p.stop, p.quota, p.nearRatio = s.options.CountAll, s.options.StopWhenOver, s.options.Quota, s.options.NearRatio
	return p
}

// release clears the plan, which identifies callers, and puts it back into the pool.
func (s *Service) release(p *plan) {
	clear(p.matches)
	clear(p.claims)
	clear(p.groups)
	clear(p.shadows)
	if len(p.places) > 0 { // clearing costs time even if the map is empty
		clear(p.places)
	}
	p.matches, p.claims, p.groups, p.shadows, p.decisions = p.matches[:0], p.claims[:0], p.groups[:0], p.shadows[:0], p.decisions[:0]
	s.plans.Put(p)
}

// replace drops each limit that another limit of the request replaces, even if that
// one is itself replaced.
func (p *plan) replace() {
	var replaced map[string]bool
	for i := range p.matches {
		if l := p.matches[i].limit; l != nil && len(l.replaces) > 0 {
			if replaced == nil {
				replaced = make(map[string]bool, len(l.replaces))
			}
			for _, name := range l.replaces {
				replaced[name] = true
			}
		}
	}
	for i := range p.matches {
		if m := &p.matches[i]; m.applies() && replaced[m.limit.name] {
			m.limit = nil
		}
	}
}

// inQuota reports whether a limit is in quota mode. Shadow mode takes precedence.
func (p *plan) inQuota(l *limit) bool { return (p.quota || l.quota) && !l.shadow }

// observes reports whether a limit is counted but does not deny by itself.
func (p *plan) observes(l *limit) bool { return l.shadow || p.inQuota(l) && !p.lone }

// quotas returns how many descriptors are in quota mode.
func (p *plan) quotas() (n int) {
	of := -1
	for i := range p.matches {
		if m := &p.matches[i]; m.applies() && m.of != of && p.inQuota(m.limit) {
			of = m.of
			n++
		}
	}
	return n
}

// together makes one group of the limits that can deny. The limits of each descriptor
// that cannot deny observe it, and are charged only if the group is. Several descriptors
// in quota mode deny only if all of them are over, which is known after they are
// counted. The group then stays charged although the request is denied.
func (p *plan) together() {
	for i := range p.matches {
		if m := &p.matches[i]; m.applies() && !p.observes(m.limit) {
			m.claim = p.claim(m)
		}
	}
	enforced := len(p.claims)
	for i := range p.matches {
		if m := &p.matches[i]; m.applies() && p.observes(m.limit) {
			m.claim = len(p.claims)
			p.claims = append(p.claims, m.make())
		}
	}
	p.group(enforced)
}

// group makes the first enforced claims a group, and the observed claims of each
// descriptor a shadow of it.
func (p *plan) group(enforced int) {
	if len(p.claims) == 0 {
		return
	}
	of := -1
	for i := range p.matches {
		m := &p.matches[i]
		switch {
		case !m.applies() || !p.observes(m.limit):
		case m.of != of:
			of = m.of
			p.shadows = append(p.shadows, p.claims[m.claim:m.claim+1])
		default:
			last := &p.shadows[len(p.shadows)-1]
			*last = p.claims[m.claim-len(*last) : m.claim+1]
		}
	}
	p.groups = append(p.groups, stint.Group{Claims: p.claims[:enforced:enforced], Shadows: p.shadows})
}

// state identifies what a claim counts in. Claims of equal state share a counter.
type state struct{ key, kind string }

// fewClaims is how many claims are searched linearly. More are searched by a map,
// because a request may have a thousand descriptors.
const fewClaims = 8

// claim adds a claim and returns its index. Two claims of one state become one, for
// the sum of their costs under the smaller limit.
func (p *plan) claim(m *match) int {
	c := m.make()
	if i := p.place(m); i < len(p.claims) {
		same := &p.claims[i]
		same.Cost = max(-stint.MaxCost, min(stint.MaxCost, same.Cost+c.Cost))
		if c.Limit.Max() < same.Limit.Max() {
			same.Limit = c.Limit
		}
		return i
	}
	p.claims = append(p.claims, c)
	return len(p.claims) - 1
}

// place returns the index of the claim with the same state as a, or the index for a new claim if
// there is none.
func (p *plan) place(m *match) int {
	if len(p.matches) > fewClaims {
		if p.places == nil {
			p.places = map[state]int{}
		}
		s := state{m.key, m.limit.kind}
		if _, known := p.places[s]; !known {
			p.places[s] = len(p.claims)
		}
		return p.places[s]
	}
	for i := range p.matches {
		b := &p.matches[i]
		if b == m {
			break
		}
		if b.applies() && !p.observes(b.limit) && b.key == m.key && b.limit.kind == m.limit.kind {
			return b.claim
		}
	}
	return len(p.claims)
}

// make returns the claim of a limit.
func (m *match) make() stint.Claim {
	cost := m.cost
	if m.limit.banned && cost > 0 {
		cost = max(2, cost) // the limit allows one
	}
	return m.claimOf(m.limit.counted, cost)
}

func (m *match) claimOf(l stint.Limit, cost int64) stint.Claim {
	return stint.Claim{Key: m.key, Limit: l, Cost: cost, Policy: m.limit.policy.Policy}
}

// decide takes the claims from the store.
func (p *plan) decide(ctx context.Context, store stint.Store) error {
	if len(p.groups) == 0 {
		return nil
	}
	if p.all && p.stop && len(p.groups) > 1 {
		if err := p.peek(ctx, store); err != nil || p.asksEnvoy() {
			return err
		}
	}
	return p.take(ctx, store)
}

// take has the shorter path of stores for one claim, which is what most requests have.
func (p *plan) take(ctx context.Context, store stint.Store) (err error) {
	p.decisions = slices.Grow(p.decisions[:0], len(p.claims))[:len(p.claims)]
	if len(p.claims) == 1 && len(p.groups[0].Claims) == 1 {
		p.decisions[0], err = store.Take(ctx, p.claims[0])
		return err //nolint:wrapcheck // translated at the edge
	}
	return store.TakeGroups(ctx, p.groups, p.decisions) //nolint:wrapcheck // translated at the edge
}

// asksEnvoy reports whether the response is an error, so that Envoy decides: the store
// failed, some limit has no failure policy, and no limit that has one denies the request. A
// limit in shadow mode never decides, so it asks nothing.
func (p *plan) asksEnvoy() (asks bool) {
	for i := range p.matches {
		m := &p.matches[i]
		if !m.applies() || m.limit.shadow || p.decisions[m.claim].Allowed {
			continue
		}
		if m.limit.policy.asksEnvoy {
			asks = asks || p.decisions[m.claim].Degraded
		} else if !p.observes(m.limit) {
			return false
		}
	}
	return asks
}

// countFailed counts the limits of a request that is answered with an error.
func (p *plan) countFailed() {
	for i := range p.matches {
		m := &p.matches[i]
		if m.applies() && p.decisions[m.claim].Degraded && !p.decisions[m.claim].Allowed {
			m.limit.counters.Failed.Inc()
		}
	}
}
