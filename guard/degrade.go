package guard

import "github.com/stintdev/stint"

// degradeClaim decides a claim without the store.
func (s *Store) degradeClaim(c stint.Claim, o outcome) (stint.Decision, error) {
	if err := c.Validate(); err != nil {
		return stint.Decision{}, err
	}
	if !canDegrade(&c) {
		return stint.Decision{}, o.err
	}
	switch c.Policy.OnFailure {
	case stint.FailClosed:
		return s.denied(&c, o.shard), nil
	case stint.FailLocal, stint.FailLastKnown:
		return s.takeLocal(c, o.shard)
	}
	return s.allowed(&c, o.shard), nil
}

// degrade decides a part of a group without the store. charge is false for a shadow
// whose group is denied, which is then allowed without a look at the local state. dry
// decides locally as well, and charges nothing.
func (gc *groupCall) degrade(o *outcome, out []stint.Decision, charge, dry bool) error {
	if err := stint.ValidateClaims(o.claims); err != nil {
		return err
	}
	policy, ok := policyOf(o.claims)
	switch {
	case !ok:
		return o.err
	case policy == stint.FailClosed:
		gc.guard.deny(o.claims, out, o.shard)
	case decidesLocally(policy) && (charge || dry):
		return gc.takeLocal(o.claims, out, o.shard, dry)
	default:
		gc.guard.allow(o.claims, out, o.shard)
	}
	return nil
}

// canDegrade reports whether a failure policy can decide a claim. Only the store can
// reset. Only a state that holds the take can refund: the store, or the local state.
func canDegrade(c *stint.Claim) bool {
	return c.Cost >= 0 || decidesLocally(c.Policy.OnFailure) && c.Cost != stint.Forget
}

// decidesLocally reports whether a claim with this policy is decided in memory.
func decidesLocally(f stint.OnFailure) bool {
	return f == stint.FailLocal || f == stint.FailLastKnown
}

// policyOf returns the strictest failure policy among the claims of a group: closed
// before local or last known, and those before open. It returns false if a claim needs the
// store, as a reset does.
func policyOf(claims []stint.Claim) (policy stint.OnFailure, ok bool) {
	for i := range claims {
		c := &claims[i]
		if !canDegrade(c) {
			return policy, false
		}
		if policy != stint.FailClosed && c.Policy.OnFailure != stint.FailOpen {
			policy = c.Policy.OnFailure
		}
	}
	return policy, true
}

// allowed returns the decision of an open claim. It shows the limit as unused, because
// the usage is unknown.
func (s *Store) allowed(c *stint.Claim, sh *shard) stint.Decision {
	s.degradedOf(sh).open.Add(1)
	return s.unused(c)
}

func (s *Store) unused(c *stint.Claim) stint.Decision {
	limit := c.Limit.Max()
	return stint.Decision{Allowed: true, Degraded: true, Limit: limit, Remaining: limit, At: s.now()}
}

// denied returns the decision of a closed claim.
func (s *Store) denied(c *stint.Claim, sh *shard) stint.Decision {
	s.degradedOf(sh).closed.Add(1)
	return stint.Decision{Degraded: true, Unavailable: true, Limit: c.Limit.Max(), RetryAfter: s.retryAfter(sh), At: s.now()}
}

func (s *Store) allow(claims []stint.Claim, out []stint.Decision, sh *shard) {
	for i := range claims {
		out[i] = s.allowed(&claims[i], sh)
	}
}

// deny denies the closed claims, and so the group.
func (s *Store) deny(claims []stint.Claim, out []stint.Decision, sh *shard) {
	for i := range claims {
		if closes(claims, &claims[i]) {
			out[i] = s.denied(&claims[i], sh)
		} else {
			out[i] = s.unused(&claims[i])
		}
	}
}

// closes reports whether a claim is denied in a closed group: it is closed, or it is an
// alternative (the same AnyOf) to a closed claim, which it would otherwise replace.
func closes(claims []stint.Claim, c *stint.Claim) bool {
	if c.Policy.OnFailure == stint.FailClosed {
		return true
	}
	for i := range claims {
		if c.AnyOf > 0 && claims[i].AnyOf == c.AnyOf && claims[i].Policy.OnFailure == stint.FailClosed {
			return true
		}
	}
	return false
}
