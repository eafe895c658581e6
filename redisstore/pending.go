package redisstore

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/coalesce"
	"github.com/stintdev/stint/storekit"
)

// pending is one caller's request to one batcher: groups of one slot, decided in order.
// It owns copies of the claims and space for the answers, because the batch may
// still read and write them after the caller has given up.
type pending struct {
	coalesce.Call[pending]

	slot     uint16
	replicas uint8         // number of replicas that must confirm a charge
	slow     bool          // needs take.lua; plain.lua cannot decide it
	charged  atomic.Bool   // the server has charged it and the wait for replicas is left
	once     *onceCall     // not nil: the only group may be repeated, and has a script call of its own
	groups   []groupToSend // at least one
	claims   []stint.Claim // the claims of all groups

	out  []stint.Decision // the decision of each claim
	errs []error          // the error of each group

	same *pending // in a batch: the next pending call that shares the same line
	then *pending // the next call of a chain, which travels with this one and is decided after it

	one struct { // inline space for one claim, which suffices for most calls
		group    [1]groupToSend
		claim    [1]stint.Claim
		decision [1]stint.Decision
		err      [1]error
	}
}

// groupToSend is one part of a group in a call. Parts are groups to the script.
type groupToSend struct {
	claims   []stint.Claim
	flags    groupFlags
	replicas uint8 // number of replicas that must confirm a charge; 0 for a shadow, which must not delay its group
}

// replicasOf returns how many replicas must confirm the charge of the claims. It
// returns 0 if they charge nothing.
func replicasOf(claims []stint.Claim) (n uint8) {
	for i := range claims {
		n = max(n, replicasOfClaim(&claims[i]))
	}
	return n
}

func replicasOfClaim(c *stint.Claim) uint8 {
	if c.Cost > 0 || c.Extra > 0 && c.Cost == 0 {
		return c.Policy.Replicas
	}
	return 0
}

// pendingPool keeps pending calls for reuse.
type pendingPool struct{ pool sync.Pool }

func (p *pendingPool) get() *pending {
	if c, ok := p.pool.Get().(*pending); ok {
		return c
	}
	c := &pending{}
	c.Init(c)
	c.groups, c.claims, c.out, c.errs = c.one.group[:0], c.one.claim[:0], c.one.decision[:0], c.one.err[:0]
	return c
}

// put recycles a call. Neither a batcher nor a caller may hold it.
func (p *pendingPool) put(c *pending) {
	if len(c.claims) == 1 && len(c.groups) == 1 { // clear is slow for one element
		c.claims[0], c.groups[0], c.errs[0] = stint.Claim{}, groupToSend{}, nil
	} else {
		c.clearAll()
	}
	c.groups, c.claims = c.groups[:0], c.claims[:0]
	c.out, c.errs = c.out[:0], c.errs[:0]
	if c.replicas > 0 {
		c.charged.Store(false)
	}
	c.replicas, c.Keep, c.slow, c.once, c.same, c.then = 0, false, false, nil, nil, nil
	p.pool.Put(c)
}

// clearAll clears a call of several claims or groups, so that the pool holds no
// references to them.
func (c *pending) clearAll() {
	clear(c.claims)
	clear(c.groups)
	clear(c.errs)
	clear(c.one.claim[:]) // append may have moved the slices away from one
	clear(c.one.group[:])
}

// add appends copies of the claims of a group.
func (c *pending) add(a groupToSend) {
	from := len(c.claims)
	c.claims = append(c.claims, a.claims...)
	a.claims = c.claims[from:len(c.claims):len(c.claims)]
	c.replicas = max(c.replicas, a.replicas)
	c.slow = c.slow || !plainGroup(a.claims, a.flags)
	c.groups = append(c.groups, a)
	c.errs = append(c.errs, nil)
	for range a.claims {
		c.out = append(c.out, stint.Decision{})
	}
}

// addOne is add for a call of one group with one claim.
func (c *pending) addOne(claim *stint.Claim) {
	c.claims, c.groups = c.claims[:1], c.groups[:1]
	c.out, c.errs = c.out[:1], c.errs[:1]
	c.claims[0], c.groups[0].claims = *claim, c.claims
	c.replicas, c.slow = replicasOfClaim(claim), !quickClaim(claim)
	c.groups[0].replicas = c.replicas
}

// plain reports whether equal calls may share one line of the batch. For such a line
// the script charges as many of the calls as fit, in order.
func (c *pending) plain() bool {
	if len(c.claims) != 1 || len(c.groups) != 1 || c.groups[0].flags != 0 || c.once != nil {
		return false
	}
	claim := &c.claims[0]
	if claim.MaxDelay != 0 && claim.Limit.Algorithm() == stint.LeakyBucket {
		return false // the script reads one bound per line, and callers rarely have the same
	}
	return claim.Cost > 0 && claim.Extra == 0
}

// failUnconfirmed sets err on the groups that asked for replicas and were charged. The caller
// has found that too few replicas confirmed the charge.
func (c *pending) failUnconfirmed(err error) {
	out := c.out
	for i := range c.groups {
		g := &c.groups[i]
		if _, binding := stint.Combine(g.claims, out[:len(g.claims)]); c.errs[i] == nil && binding.Allowed && g.replicas > 0 {
			c.errs[i] = err
		}
		out = out[len(g.claims):]
	}
}

// await returns nil when the call is answered, or an error when ctx ends. With nil the
// caller recycles the call; with an error it must not touch the call again.
func (p *pendingPool) await(ctx context.Context, c *pending) error {
	switch c.Wait(ctx) {
	case coalesce.Answered:
		return nil
	case coalesce.Withdrawn:
		p.put(c)
		return storekit.Ended(ctx, false)
	}
	if c.charged.Load() {
		return replicasLate(ctx)
	}
	return storekit.Ended(ctx, true)
}
