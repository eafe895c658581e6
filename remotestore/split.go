package remotestore

import (
	"context"
	"fmt"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// split sends the groups of one TakeGroups, in as many calls as their size needs.
type split struct {
	store  *Store
	groups []stint.Group
	out    []stint.Decision
	errs   storekit.Errors

	next   cursor
	leader int  // index in the call of the group that next is part of; −1: the call does not have it
	charge bool // the shadows of that group may be charged; known before the next call
}

// cursor locates a part of a group.
type cursor struct {
	group int // index of the group
	part  int // number of the part within the group
	of    int // number of the part among the parts of all groups
	place int // index of its first decision
}

func (j *split) run(ctx context.Context) error {
	clear(j.out)
	for j.next.group < len(j.groups) {
		from := j.next.of
		c := j.store.borrow()
		if j.load(c); len(c.groups) > 0 {
			if err := j.store.send(ctx, c); err != nil {
				return j.broken(from, err)
			}
			j.unload(c)
		}
		j.store.release(c)
	}
	return j.errs.Err()
}

// load puts the parts that fit into a call, at least one.
func (j *split) load(c *pending) {
	j.leader = -1
	for ; j.next.group < len(j.groups); j.next.group, j.next.part = j.next.group+1, 0 {
		g := &j.groups[j.next.group]
		if j.next.part == 0 {
			j.leader, j.charge = -1, !g.Dry
		}
		for j.next.part < g.Parts() {
			claims := g.Part(j.next.part)
			if len(c.groups) > 0 && !c.fits(claims) {
				return
			}
			var once *stint.Once
			if j.next.part == 0 && g.Repeatable() {
				once = g.Once
			}
			j.loadPart(c, claims, once, g.Dry || j.next.part > 0)
			j.next.part, j.next.of, j.next.place = j.next.part+1, j.next.of+1, j.next.place+len(claims)
		}
	}
}

// loadPart adds one part of a group to a call, or records why it is invalid. shadow
// says that the part is charged with the leader of the call, if at all. once is not nil for
// a group that may be repeated.
func (j *split) loadPart(c *pending, claims []stint.Claim, once *stint.Once, shadow bool) {
	err := check(claims)
	if err == nil {
		err = once.Validate()
	}
	if err != nil {
		j.errs.Set(j.next.of, j.groups, err)
		j.charge = j.charge && j.next.part > 0 // the shadows of an invalid group are not charged
		return
	}
	if shadow && j.leader < 0 {
		j.leader = len(c.groups)
		c.addLeader(j.charge)
	}
	if !shadow {
		j.leader = len(c.groups)
	}
	c.add(claims, pendingGroup{shadow: shadow, part: j.next.of, place: j.next.place, once: once})
}

// unload copies the decisions and errors of a call to their places. If the call ends
// within a group, unload notes whether the shadows that are left may be charged.
func (j *split) unload(c *pending) {
	claims, decisions := c.claims, c.out
	for i := range c.groups {
		g := &c.groups[i]
		own := decisions[:g.claims]
		if g.part >= 0 {
			copy(j.out[g.place:], own)
			j.errs.Set(g.part, j.groups, c.errorOf(i))
			if i == j.leader && j.next.part > 0 {
				_, binding := stint.Combine(claims[:g.claims], own)
				j.charge = c.errorOf(i) == nil && binding.Allowed && (len(own) == 0 || !own[0].Repeated)
			}
		}
		claims, decisions = claims[g.claims:], decisions[g.claims:]
	}
}

// broken ends the split when the call that begins with a part failed. The parts before
// it keep their decisions; that part and all after it get the error.
func (j *split) broken(from int, err error) error {
	if from == 0 {
		return err
	}
	_, parts := stint.Sizes(j.groups)
	for i := from; i < parts; i++ {
		j.errs.Set(i, j.groups, err)
	}
	return j.errs.Err()
}

// check returns an error if the claims of a part are invalid or too large for one call.
func check(claims []stint.Claim) error {
	if err := stint.ValidateClaims(claims); err != nil {
		return err
	}
	if n := len(claims); n > maxClaims && (n > maxGroupClaims || sizeOf(claims) > maxBytes || limitsOf(claims) > maxLimits) || sizeOf(claims) > maxBytes {
		return &stint.Error{Code: stint.CodeInvalid, Problem: fmt.Sprintf("group: its %d claims do not fit into one call to the server", n), Mend: "make it smaller"}
	}
	return nil
}

// sizeOf estimates how many bytes the claims take in a call.
func sizeOf(claims []stint.Claim) (n int) {
	for i := range claims {
		n += sizeOfClaim(&claims[i])
	}
	return n
}

func sizeOfClaim(c *stint.Claim) int {
	const others = 76 // of all other columns, each at its longest
	n := len(c.Key) + others
	if c.Local != nil {
		n += len(c.Local.Key)
	}
	return n
}

// limitsOf returns how many different limits the claims have.
func limitsOf(claims []stint.Claim) int {
	limits := map[stint.Limit]bool{}
	for i := range claims {
		limits[claims[i].Limit] = true
		if l := claims[i].Local; l != nil {
			limits[l.Limit] = true
		}
	}
	return len(limits)
}
