package remotestore

import (
	"slices"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/coalesce"
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

// pending is the claims that one caller waits for. It copies them, because its caller may
// leave while they are at the server.
type pending struct {
	coalesce.Call[pending]

	claims []stint.Claim
	groups []pendingGroup
	bytes  int

	out  []stint.Decision
	errs []error // by group; nil without errors
	err  error   // of the whole call
}

// pendingGroup is one group of a pending call.
type pendingGroup struct {
	claims int
	shadow bool
	group  int // its index among the caller's groups; -1: addOutcome made it
}

// addOne adds a group of one claim.
func (c *pending) addOne(claim stint.Claim) {
	c.claims = append(c.claims, claim)
	c.groups = append(c.groups, pendingGroup{claims: 1})
	c.bytes += sizeOfClaim(&claim)
}

// add adds a group, whose index among the caller's groups is group.
func (c *pending) add(g *stint.Group, group int) {
	c.claims = append(c.claims, g.Claims...)
	c.groups = append(c.groups, pendingGroup{len(g.Claims), g.Shadow, group})
	c.bytes += sizeOf(g)
}

// addOutcome adds a group without effect whose outcome is known: an empty one is
// admitted, and one whose cost exceeds its limit is denied. A shadow group depends on
// the nearest group before it that is not a shadow. When that group is not part of
// this call, the group added here stands in for it.
func (c *pending) addOutcome(admitted bool) {
	if admitted {
		c.groups = append(c.groups, pendingGroup{group: -1})
		return
	}
	c.claims = append(c.claims, stint.Claim{Key: "-", Limit: denied(), Cost: 2})
	c.groups = append(c.groups, pendingGroup{claims: 1, group: -1})
}

// denied returns a limit that denies every cost of 2.
func denied() stint.Limit {
	limit, _ := stint.PerSecond(1).Compile() // it is valid
	return limit
}

// fits reports whether a group still fits.
func (c *pending) fits(g *stint.Group) bool {
	return len(c.claims)+len(g.Claims) <= maxClaims && len(c.groups) < maxGroups && c.bytes+sizeOf(g) <= maxBytes
}

// room returns c.out with one entry for each claim.
func (c *pending) room() []stint.Decision {
	c.out = slices.Grow(c.out[:0], len(c.claims))[:len(c.claims)]
	return c.out
}

func (c *pending) errorOf(group int) error {
	if c.errs == nil {
		return nil
	}
	return c.errs[group]
}

func (c *pending) fail(group int, err error) {
	if c.errs == nil {
		c.errs = make([]error, len(c.groups))
	}
	c.errs[group] = err
}
