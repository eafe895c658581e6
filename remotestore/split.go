package remotestore

import (
	"context"
	"fmt"

	"github.com/stintdev/stint"
)

// split sends the groups of one TakeGroups, in as many calls as their size needs.
type split struct {
	store    *Store
	groups   []stint.Group
	out      []stint.Decision
	errs     []error // by group; nil while there are no errors
	admitted bool    // outcome of the nearest earlier group that is not Shadow
}

func (j *split) run(ctx context.Context) error {
	clear(j.out)
	for from, at := 0, 0; from < len(j.groups); {
		c := j.store.borrow()
		to := j.load(c, from)
		n := countClaims(j.groups[from:to])
		if err := j.store.send(ctx, c); err != nil {
			return j.broken(from, err)
		}
		j.unload(c, from, j.out[at:at+n])
		j.store.release(c)
		from, at = to, at+n
	}
	if j.errs == nil {
		return nil
	}
	return &stint.GroupsError{Errs: j.errs}
}

// load puts the groups that fit into a call, at least one, and returns the index of
// the first that is left. An invalid group is replaced by a denied one, so that the
// shadow groups after it are decided as if it had been denied.
func (j *split) load(c *pending, from int) (to int) {
	if j.groups[from].Shadow {
		c.addOutcome(j.admitted)
	}
	for to = from; to < len(j.groups) && (to == from || c.fits(&j.groups[to])); to++ {
		g := &j.groups[to]
		if err := check(g); err == nil {
			c.add(g, to)
		} else {
			j.fail(to, err)
			if !g.Shadow {
				c.addOutcome(false)
			}
		}
	}
	return to
}

// unload copies the decisions of a call, whose groups begin at from, into out.
func (j *split) unload(c *pending, from int, out []stint.Decision) {
	decisions := c.out
	for i := range c.groups {
		g := &c.groups[i]
		own := decisions[:g.claims]
		decisions = decisions[g.claims:]
		if g.group < 0 {
			j.admitted = g.claims == 0
			continue
		}
		for ; from < g.group; from++ {
			out = out[len(j.groups[from].Claims):]
		}
		copy(out, own)
		err := c.errorOf(i)
		if err != nil {
			j.fail(g.group, err)
		}
		if !g.shadow {
			_, face := stint.Combine(j.groups[g.group].Claims, own)
			j.admitted = err == nil && face.Allowed
		}
	}
}

func (j *split) fail(group int, err error) {
	if j.errs == nil {
		j.errs = make([]error, len(j.groups))
	}
	j.errs[group] = err
}

// broken ends the split when the call that begins with group from failed. The groups
// before it keep their decisions; that group and all after it get the error.
func (j *split) broken(from int, err error) error {
	if from == 0 {
		return err
	}
	for i := from; i < len(j.groups); i++ {
		j.fail(i, err)
	}
	return &stint.GroupsError{Errs: j.errs}
}

// check returns an error if a group is invalid or too large for one call.
func check(g *stint.Group) error {
	if err := g.Validate(); err != nil {
		return err
	}
	if n := len(g.Claims); n > maxClaims && (n > maxGroupClaims || sizeOf(g) > maxBytes || limitsOf(g) > maxLimits) || sizeOf(g) > maxBytes {
		return &stint.Error{Code: stint.CodeInvalid, Problem: fmt.Sprintf("group: its %d claims do not fit into one call to the server", n), Mend: "make it smaller"}
	}
	return nil
}

// sizeOf estimates how many bytes a group takes in a call.
func sizeOf(g *stint.Group) (n int) {
	for i := range g.Claims {
		n += sizeOfClaim(&g.Claims[i])
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

// limitsOf returns how many different limits a group has.
func limitsOf(g *stint.Group) int {
	limits := map[stint.Limit]bool{}
	for i := range g.Claims {
		limits[g.Claims[i].Limit] = true
		if l := g.Claims[i].Local; l != nil {
			limits[l.Limit] = true
		}
	}
	return len(limits)
}
