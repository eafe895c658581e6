package cas

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
)

// call is what one caller asks of one lane: groups that are decided in order, in one
// atomic step. It owns copies of the claims, because a round may still read them after the
// caller has left.
type call struct {
	ctx    context.Context //nolint:containedctx // of the caller, who waits or leaves
	groups []stint.Group   // their claims have the keys of items
	keys   []string        // of the items, in ascending order
	claims int
	once   bool // a group may be repeated

	out []stint.Decision
	err error // of TakeGroups; its parts are those of groups

	phase atomic.Uint32
	done  chan struct{} // receives one value if the call waits for another caller's round
	round *round        // guarded by the lane's lock: the round that has the call; nil: it is queued

	// What a call of one claim has in its slices, which is nearly every call.
	single struct {
		claim [1]stint.Claim
		group [1]stint.Group
		key   [1]string
		out   [1]stint.Decision
	}
}

// The phases of a call.
const (
	unsent uint32 = iota // nothing of it is under way: its caller may leave, and is not charged
	sent                 // it may be charged
	left                 // its caller has left: it must not be charged
)

// newCallOf returns a call of one claim, which is valid.
func (s *Store) newCallOf(ctx context.Context, claim *stint.Claim) *call {
	c, ok := s.calls.Get().(*call)
	if !ok {
		c = &call{}
	}
	c.ctx, c.claims = ctx, 1
	one := &c.single
	one.claim[0] = *claim
	one.key[0] = keyOf(claim)
	one.claim[0].Key = one.key[0]
	one.group[0].Claims = one.claim[:]
	c.groups, c.keys, c.out = one.group[:], one.key[:], one.out[:]
	return c
}

// newCall copies groups into a call.
func newCall(ctx context.Context, groups []stint.Group) *call {
	claims, _ := stint.Sizes(groups)
	c := &call{ctx: ctx, out: make([]stint.Decision, claims), claims: claims, groups: slices.Clone(groups)}
	all := make([]stint.Claim, 0, claims)
	own := func(claims []stint.Claim) []stint.Claim {
		from := len(all)
		all = append(all, claims...)
		for i := from; i < len(all); i++ {
			if all[i].Validate() == nil {
				all[i].Key = keyOf(&all[i])
				c.addKey(all[i].Key)
			}
		}
		return all[from:len(all):len(all)]
	}
	for i := range c.groups {
		g := &c.groups[i]
		c.once = c.once || g.Once != nil
		g.Claims = own(g.Claims)
		if len(g.Shadows) > 0 {
			g.Shadows = slices.Clone(g.Shadows)
			for j := range g.Shadows {
				g.Shadows[j] = own(g.Shadows[j])
			}
		}
	}
	slices.Sort(c.keys)
	c.keys = slices.Compact(c.keys)
	return c
}

func (c *call) addKey(key string) {
	if n := len(c.keys); n == 0 || c.keys[n-1] != key { // claims on one key come in runs
		c.keys = append(c.keys, key)
	}
}

// lane returns the key of the lane of the call.
func (c *call) lane() string {
	switch {
	case len(c.keys) == 1:
		return c.keys[0]
	case slices.ContainsFunc(c.keys, fromCaller):
		return acrossLaneCaller
	}
	return acrossLane
}

// begin marks the call as one that may be charged. It returns false if its caller has left
// or has no time left.
func (c *call) begin(r *round, now time.Time) bool {
	if deadline, ok := c.ctx.Deadline(); ok && !now.Before(deadline) || c.ctx.Err() != nil {
		if c.phase.CompareAndSwap(unsent, left) {
			c.err = ended(c.ctx, r, false)
		}
		return false
	}
	return c.phase.CompareAndSwap(unsent, sent)
}

// back marks a call as unsent: it is certain that it was not charged.
func (c *call) back() { c.phase.CompareAndSwap(sent, unsent) }

// leave is called when the caller's context has ended. It returns whether the call may be
// charged.
func (c *call) leave() (mayBeCharged bool) { return !c.phase.CompareAndSwap(unsent, left) }
