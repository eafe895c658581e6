package stint

import "time"

// Combine returns the answer of a group as one decision, and the index of its
// binding claim: the claim that the answer is taken from. A group without
// claims is admitted, and its index is −1.
//
// A group is admitted when every claim with AnyOf 0 is allowed and at least one
// claim of each set of alternatives is. In a denied group, the denied claim
// with the greatest retry time binds. In an admitted group, the claim with the
// least remaining binds.
//
// A set of alternatives counts as one claim. When the set denies, its claim
// with the least retry time represents it; when it admits, the charged claim
// with the most remaining does. Of equal claims, the first binds. Delay is the
// greatest delay of the charged claims.
func Combine(claims []Claim, decisions []Decision) (index int, d Decision) {
	if index = bindingOf(claims, decisions); index < 0 {
		return index, Decision{Allowed: true}
	}
	if d = decisions[index]; d.Allowed {
		d.Delay = greatestDelay(decisions)
	}
	return index, d
}

// bindingOf returns the index of the binding claim of a group; −1 for a group
// without claims.
func bindingOf(claims []Claim, decisions []Decision) int {
	binding := -1
	for i := range claims {
		at := i
		if set := claims[i].AnyOf; set > 0 {
			if !firstOfSet(claims, i) {
				continue
			}
			at = bindingOfSet(claims, decisions, set)
		}
		if binding < 0 || binds(&decisions[at], &decisions[binding]) {
			binding = at
		}
	}
	return binding
}

// binds reports whether a claim binds in place of the one that has bound so far.
func binds(d, sofar *Decision) bool {
	if d.Allowed != sofar.Allowed {
		return !d.Allowed
	}
	if d.Allowed {
		return d.Remaining < sofar.Remaining
	}
	return d.RetryAfter > sofar.RetryAfter
}

// firstOfSet reports whether claim i is the first of its set of alternatives.
func firstOfSet(claims []Claim, i int) bool {
	for _, c := range claims[:i] {
		if c.AnyOf == claims[i].AnyOf {
			return false
		}
	}
	return true
}

// bindingOfSet returns the index of the claim that represents a set of
// alternatives.
func bindingOfSet(claims []Claim, decisions []Decision, set uint8) int {
	binding := -1
	for i := range claims {
		if claims[i].AnyOf != set {
			continue
		}
		if binding < 0 || representsSet(&decisions[i], &decisions[binding]) {
			binding = i
		}
	}
	return binding
}

// representsSet reports whether an alternative represents its set in place of
// the one that has so far.
func representsSet(d, sofar *Decision) bool {
	if d.Allowed != sofar.Allowed {
		return d.Allowed
	}
	if d.Allowed {
		return d.Remaining > sofar.Remaining
	}
	return d.RetryAfter < sofar.RetryAfter
}

// greatestDelay returns the greatest delay of the charged claims. Claims that
// were not charged have no delay, so it need not tell them apart.
func greatestDelay(decisions []Decision) (delay time.Duration) {
	for i := range decisions {
		delay = max(delay, decisions[i].Delay)
	}
	return delay
}

// admitted reports whether the group may be charged.
func admitted(claims []Claim, decisions []Decision) bool {
	binding := bindingOf(claims, decisions)
	return binding < 0 || decisions[binding].Allowed
}
