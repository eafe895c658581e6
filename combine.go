package stint

import "time"

// Combine returns the answer of a group as one decision, and the index of its
// binding claim: the claim that the answer is taken from. A group without
// claims is admitted, and its index is −1.
//
// A group is admitted when every claim with Any 0 is allowed and at least one
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

// decides reports whether a claim binds in place of the one that has bound so
// far.
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

// setFace returns the index of the claim that represents a set of alternatives.
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
	face := bindingOf(claims, decisions)
	return face < 0 || decisions[face].Allowed
}

// sameState reports whether two claims of a group would charge one state: the
// same key under limits of the same scope. The numbers of the limits do not
// matter.
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
