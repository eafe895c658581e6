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
	errs []error // error of each group; nil without errors
	err  error   // the error of the whole call
}

// pendingGroup is one group as the protocol has it: a part of one of the caller's groups.
type pendingGroup struct {
	claims int
	shadow bool // charged only if the nearest group before it that is no shadow was admitted
	part   int  // its number among the parts of the caller's groups; −1: addLeader made it
	place  int  // index of its first decision among the caller's

	once *stint.Once // not nil: the group may be repeated
}

// addOne adds a group of one claim.
func (c *pending) addOne(claim stint.Claim) {
	c.claims = append(c.claims, claim)
	c.groups = append(c.groups, pendingGroup{claims: 1})
	c.bytes += sizeOfClaim(&claim)
}

// add adds a part of a group.
func (c *pending) add(claims []stint.Claim, g pendingGroup) {
	g.claims = len(claims)
	c.claims = append(c.claims, claims...)
	c.groups = append(c.groups, g)
	c.bytes += sizeOf(claims)
	if g.once != nil {
		c.bytes += len(g.once.ID) + len(g.once.Body) + 4
	}
}

// addLeader adds a group whose outcome is known and that charges nothing: an empty one
// is admitted, and one whose cost exceeds its limit is denied. In the protocol a shadow
// depends on the nearest group before it that is no shadow, and no group is dry. So this
// group goes before the parts of a dry group, and before shadows whose own group is
// invalid or in an earlier call.
func (c *pending) addLeader(admitted bool) {
	if admitted {
		c.add(nil, pendingGroup{part: -1})
	} else {
		c.add([]stint.Claim{{Key: "-", Limit: denied(), Cost: 2}}, pendingGroup{part: -1})
	}
}

// denied returns a limit that denies every cost of 2.
func denied() stint.Limit {
	limit, _ := stint.PerSecond(1).Compile() // this limit is valid
	return limit
}

// fits reports whether the claims still fit.
func (c *pending) fits(claims []stint.Claim) bool {
	return len(c.claims)+len(claims) <= maxClaims && len(c.groups) < maxGroups && c.bytes+sizeOf(claims) <= maxBytes
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
