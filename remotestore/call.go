package remotestore

import (
	"slices"

	"github.com/stintdev/stint"
)

// Bounds of one batch. They stay below the server's: 10,000 claims, 1,024 limits and
// one megabyte.
const (
	maxClaims      = 500 // except for one larger group; keeps the batch under maxLimits
	maxGroups      = 2000
	maxBytes       = 700_000 // of claims; the rest of the megabyte is for their limits
	maxGroupClaims = 9000
	maxLimits      = 1000
)

// call is the claims that one caller waits for. It copies them, because its caller may
// leave while they are at the server.
type call struct {
	claims []stint.Claim
	groups []callGroup
	bytes  int

	out  []stint.Decision
	errs []error // by group; nil without errors
	err  error   // of the whole call

	done  chan struct{} // receives one value when the call is answered
	state state         // guarded by the lock of its batcher
}

// callGroup is one group of a call.
type callGroup struct {
	claims int
	shadow bool
	group  int // its index among the caller's groups; -1: addOutcome made it
}

// addOne adds a group of one claim.
func (c *call) addOne(claim stint.Claim) {
	c.claims = append(c.claims, claim)
	c.groups = append(c.groups, callGroup{claims: 1})
	c.bytes += sizeOfClaim(&claim)
}

// add adds a group, whose index among the caller's groups is group.
func (c *call) add(g *stint.Group, group int) {
	c.claims = append(c.claims, g.Claims...)
	c.groups = append(c.groups, callGroup{len(g.Claims), g.Shadow, group})
	c.bytes += sizeOf(g)
}

// addOutcome adds a group without effect whose outcome is known: an empty one is
// admitted, and one whose cost exceeds its limit is denied. A shadow group depends on
// the nearest group before it that is not a shadow. When that group is not part of
// this call, the group added here stands in for it.
func (c *call) addOutcome(admitted bool) {
	if admitted {
		c.groups = append(c.groups, callGroup{group: -1})
		return
	}
	c.claims = append(c.claims, stint.Claim{Key: "-", Limit: denied(), Cost: 2})
	c.groups = append(c.groups, callGroup{claims: 1, group: -1})
}

// denied returns a limit that denies every cost of 2.
func denied() stint.Limit {
	limit, _ := stint.PerSecond(1).Compile() // it is valid
	return limit
}

// fits reports whether a group still fits.
func (c *call) fits(g *stint.Group) bool {
	return len(c.claims)+len(g.Claims) <= maxClaims && len(c.groups) < maxGroups && c.bytes+sizeOf(g) <= maxBytes
}

// fitsWith reports whether the call fits into a batch that already has this many
// claims, groups and bytes.
func (c *call) fitsWith(claims, groups, bytes int) bool {
	return claims+len(c.claims) <= maxClaims && groups+len(c.groups) <= maxGroups && bytes+c.bytes <= maxBytes
}

// room returns c.out with one entry for each claim.
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
