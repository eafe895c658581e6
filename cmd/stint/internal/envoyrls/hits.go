package envoyrls

// Hits are the counters that Envoy's own service has for each limit. They add up the costs
// of requests, which it calls hits.
type Hits struct {
	Total  HitCounter // hits of requests that the limit applies to
	Within HitCounter // hits of requests within the limit
	Near   HitCounter // hits above Options.NearRatio of the limit, up to it
	Over   HitCounter // hits above the limit
	Shadow HitCounter // hits above a limit in shadow mode, which are among Over, too
}

// HitCounter is a metric that adds up hits. The counters of Prometheus implement it.
type HitCounter interface{ Add(hits float64) }

// countHits counts the hits of all limits. It divides a request that crosses the limit, as
// Envoy's service does: what fits is near the limit, and the rest over it.
func (p *plan) countHits() {
	for i := range p.matches {
		m := &p.matches[i]
		if !m.applies() || m.limit.counters.Hits == nil || m.cost <= 0 {
			continue
		}
		hits, d := m.limit.counters.Hits, &p.decisions[m.claim]
		hits.Total.Add(float64(m.cost))
		most := int64(m.limit.info.GetRequestsPerUnit())
		near := int64(float64(most) * p.nearRatio)
		before := p.before(m, most)
		after := before + m.cost
		if d.Degraded { // nothing is known of the count
			before, after = most, most+m.cost
		}
		switch {
		case d.Allowed:
			hits.Within.Add(float64(m.cost))
			if !d.Degraded && after > near {
				hits.Near.Add(float64(after - max(near, before)))
			}
		case before >= most:
			m.limit.countOver(m.cost)
		default:
			m.limit.countOver(after - most)
			hits.Near.Add(float64(most - max(near, before)))
		}
	}
}

// countOver counts hits above the limit.
func (l *limit) countOver(n int64) {
	l.counters.Hits.Over.Add(float64(n))
	if l.shadow {
		l.counters.Hits.Shadow.Add(float64(n))
	}
}

// before returns the count of a limit before the request, at least 0.
func (p *plan) before(m *match, most int64) int64 {
	d := &p.decisions[m.claim]
	switch {
	case m.limit.all.Valid() && p.claims[m.claim].Cost == 0: // another limit was over, so this one only peeked
		return max(0, most-m.left)
	case m.limit.all.Valid():
		return max(0, most-m.left-m.cost)
	case d.Allowed:
		return max(0, most-d.Remaining-m.cost)
	}
	return max(0, most-d.Remaining) // a limit that decides by itself charges no denial
}
