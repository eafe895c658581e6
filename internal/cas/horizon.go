package cas

import (
	"iter"
	"slices"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// horizonOf returns the longest time after which a state of the limits of the calls, and a
// group that they remember, equals a fresh one. An item lacks nothing that matters to the
// calls if it has all writes of that time.
func horizonOf(calls []*call) (longest time.Duration) {
	for _, c := range calls {
		if c.once {
			longest = max(longest, stint.RememberFor)
		}
	}
	for l := range limitsOf(calls) {
		longest = max(longest, lifeOf(l))
	}
	return longest
}

// livesOf returns the longest life of a state for the scope of each limit of the calls.
func livesOf(calls []*call) map[string]time.Duration {
	lives := map[string]time.Duration{}
	for l := range limitsOf(calls) {
		scope := storekit.ScopeOf(l).String()
		lives[scope] = max(lives[scope], lifeOf(l))
	}
	return lives
}

// limitsOf returns the valid limits of the calls. Runs of the same limit are one.
func limitsOf(calls []*call) iter.Seq[stint.Limit] {
	return func(yield func(stint.Limit) bool) {
		var last stint.Limit
		for _, c := range calls {
			for i := range c.groups {
				for part := range c.groups[i].Parts() {
					claims := c.groups[i].Part(part)
					for j := range claims {
						l := claims[j].Limit
						if l == last || !l.Valid() {
							continue
						}
						if last = l; !yield(l) {
							return
						}
					}
				}
			}
		}
	}
}

// lifeOf returns the longest time after which a state of the limit equals a fresh one.
func lifeOf(l stint.Limit) time.Duration {
	n := l.Numbers()
	switch n.Algorithm {
	case stint.TokenBucket, stint.GCRA, stint.LeakyBucket:
		return time.Duration(n.Fill) * time.Microsecond
	case stint.SlidingWindowCounter:
		return time.Duration(n.Window+n.Width) * time.Microsecond
	}
	return l.Window()
}

// chargesNew reports whether a group of the calls would charge fresh states of its limits.
// It is an estimate: claims of one limit may exceed it together.
func chargesNew(calls []*call) bool {
	for _, c := range calls {
		for i := range c.groups {
			if g := &c.groups[i]; !g.Dry && !slices.ContainsFunc(g.Claims, chargesNothingNew) {
				return true
			}
		}
	}
	return false
}

// chargesNothingNew reports whether a claim leaves a fresh state of its limit as it is.
func chargesNothingNew(c stint.Claim) bool {
	return !c.Limit.Valid() || c.Cost <= 0 || c.Cost > c.Limit.Max()
}
