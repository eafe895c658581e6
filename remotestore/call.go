package remotestore

import (
	"slices"

	"github.com/stintdev/stint"
)

// Bounds of one call to the server, which allows 10,000 claims, 1,024 limits and
// a megabyte.
const (
	maxClaims      = 500 // unless one group has more, so that their limits fit
	maxGroups      = 2000
	maxBytes       = 700_000 // of claims; their limits have the rest
	maxGroupClaims = 9000
	maxLimits      = 1000
)

// call is the claims that one caller waits for. It keeps copies: its caller may
// leave while they are on their way.
type call struct {
	claims []stint.Claim
	groups []callGroup
	bytes  int

	out  []stint.Decision
	errs []error // by group; nil when there are none
	err  error   // of the whole call

	done  chan struct{} // gets one when the call has landed
	state state         // under the lock of its lane
}

// callGroup is one group of a call.
type callGroup struct {
	claims int
	shadow bool
	group  int // its place among those of the caller; -1: it is a fate
}

// addOne makes the call carry one claim.
func (c *call) addOne(claim stint.Claim) {
	c.claims = append(c.claims, claim)
	c.groups = append(c.groups, callGroup{claims: 1})
	c.bytes += sizeOfClaim(&claim)
}

// add adds a group, and says which of the caller's it is.
func (c *call) add(g *stint.Group, group int) {
	c.claims = append(c.claims, g.Claims...)
	c.groups = append(c.groups, callGroup{len(g.Claims), g.Shadow, group})
	c.bytes += sizeOf(g)
}

// addOutcome adds what a shadow group that follows observes: a group that is
// admitted, or one that is denied. Neither charges anything.
func (c *call) addOutcome(admitted bool) {
	if admitted {
		c.groups = append(c.groups, callGroup{group: -1})
		return
	}
	c.claims = append(c.claims, stint.Claim{Key: "-", Limit: denied(), Cost: 2})
	c.groups = append(c.groups, callGroup{claims: 1, group: -1})
}

// denied is a limit that a cost of 2 never fits into.
func denied() stint.Limit {
	limit, _ := stint.PerSecond(1).Compile() // which is valid
	return limit
}

// fits reports whether a group still fits.
func (c *call) fits(g *stint.Group) bool {
	return len(c.claims)+len(g.Claims) <= maxClaims && len(c.groups) < maxGroups && c.bytes+sizeOf(g) <= maxBytes
}

// fitsWith reports whether a call fits into a flight that has so many already.
func (c *call) fitsWith(claims, groups, bytes int) bool {
	return claims+len(c.claims) <= maxClaims && groups+len(c.groups) <= maxGroups && bytes+c.bytes <= maxBytes
}

// room makes room for the decisions.
func (c *call) room() []stint.Decision {
	c.out = slices.Grow(c.out[:0], len(c.claims))[:len(c.claims)]
	return c.out
}

func (c *call) errorOf(group int) error {
	if c.errs == nil {
		return nil
	}
	return c.errs[group]
}

func (c *call) fail(group int, err error) {
	if c.errs == nil {
		c.errs = make([]error, len(c.groups))
	}
	c.errs[group] = err
}
