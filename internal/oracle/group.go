package oracle

import "github.com/stintdev/stint"

// group decides the claims of one group, and charges them if it is admitted
// and may charge.
func (m *Model) group(now int64, claims []stint.Claim, mayCharge bool) (out []stint.Decision, admitted bool) {
	outcomes := make([]outcome, len(claims))
	for i, c := range claims {
		l := m.limit(c.Limit)
		outcomes[i] = l.decide(now, c, m.lookup(m.identify(c)))
		out = append(out, outcomes[i].alone)
	}
	admitted = admits(claims, out)
	if !admitted || !mayCharge {
		return out, admitted
	}
	for i, c := range claims {
		if !out[i].Allowed {
			continue // a denied alternative of a set that admits
		}
		out[i] = outcomes[i].charged
		if outcomes[i].writes {
			m.write(now, m.identify(c), m.limit(c.Limit), outcomes[i].after)
		}
	}
	return out, true
}

// admits reports whether every claim with Any 0 is allowed, and at least one
// claim of each set of alternatives.
func admits(claims []stint.Claim, decisions []stint.Decision) bool {
	admitting := map[uint8]bool{}
	for i, c := range claims {
		if c.AnyOf != 0 {
			admitting[c.AnyOf] = admitting[c.AnyOf] || decisions[i].Allowed
		} else if !decisions[i].Allowed {
			return false
		}
	}
	for _, one := range admitting {
		if !one {
			return false
		}
	}
	return true
}
