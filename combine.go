package stint

import "time"

// Combine returns the answer of a group as one decision, and the index of the
// claim that it is taken from (−1 for a group without claims, which is
// admitted).
//
// A group is admitted when every claim with Any 0 is allowed and, of each set
// of alternatives, at least one. Denied, the face is the denied claim with
// the greatest retry time; admitted, the one with the least remaining. A set
// of alternatives counts as one claim: denied, the one with the least retry
// time; admitted, of those charged the one with the most remaining. Of
// equals, the first. Delay is the greatest of those charged.
func Combine(claims []Claim, decisions []Decision) (index int, d Decision) {
	if index = bindingOf(claims, decisions); index < 0 {
		return index, Decision{Allowed: true}
	}
	if d = decisions[index]; d.Allowed {
		d.Delay = greatestDelay(decisions)
	}
	return index, d
}

// bindingOf is the index of the claim that a group's answer is taken from.
func bindingOf(claims []Claim, decisions []Decision) int {
	face := -1
	for i := range claims {
		f := i
		if set := claims[i].Any; set > 0 {
			if !firstOfSet(claims, i) {
				continue
			}
			f = setFace(claims, decisions, set)
		}
		if face < 0 || decides(&decisions[f], &decisions[face]) {
			face = f
		}
	}
	return face
}

// decides reports whether a claim decides rather than the one that has so far.
func decides(d, sofar *Decision) bool {
	if d.Allowed != sofar.Allowed {
		return !d.Allowed
	}
	if d.Allowed {
		return d.Remaining < sofar.Remaining
	}
	return d.RetryAfter > sofar.RetryAfter
}

func firstOfSet(claims []Claim, i int) bool {
	for _, c := range claims[:i] {
		if c.Any == claims[i].Any {
			return false
		}
	}
	return true
}

// setFace is the index of the claim that speaks for a set of alternatives.
func setFace(claims []Claim, decisions []Decision, set uint8) int {
	face := -1
	for i := range claims {
		if claims[i].Any != set {
			continue
		}
		if face < 0 || speaksForSet(&decisions[i], &decisions[face]) {
			face = i
		}
	}
	return face
}

func speaksForSet(d, sofar *Decision) bool {
	if d.Allowed != sofar.Allowed {
		return d.Allowed
	}
	if d.Allowed {
		return d.Remaining > sofar.Remaining
	}
	return d.RetryAfter < sofar.RetryAfter
}

// greatestDelay needs no look at which claims were charged: the others have
// none.
func greatestDelay(decisions []Decision) (delay time.Duration) {
	for i := range decisions {
		delay = max(delay, decisions[i].Delay)
	}
	return delay
}

// admitted reports whether the group as a whole may be charged.
func admitted(claims []Claim, decisions []Decision) bool {
	face := bindingOf(claims, decisions)
	return face < 0 || decisions[face].Allowed
}

// sameState reports whether two claims of a group would charge one state:
// the same key under limits of the same scope, whatever their numbers.
func sameState(a, b *Claim) bool {
	if a.Key != b.Key {
		return false
	}
	if a.Limit == b.Limit {
		return true
	}
	s, t := &a.Limit.n.spec, &b.Limit.n.spec
	return s.Name == t.Name && s.Rule == t.Rule && s.Namespace == t.Namespace && s.FromCaller == t.FromCaller
}
