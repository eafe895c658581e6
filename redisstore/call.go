package redisstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
)

// call is one caller's request to one batcher: groups of one slot, decided in order.
// It owns copies of the claims and space for the answers, because the batch may
// still read and write them after the caller has given up.
type call struct {
	batcher  *batcher
	slot     uint16
	replicas uint8           // number of replicas that must confirm a charge
	keep     bool            // sent even if its caller gives up
	slow     bool            // needs take.lua; bucket.lua cannot decide it
	charged  atomic.Bool     // the server has charged it and the wait for replicas is left
	ctx      context.Context //nolint:containedctx // of the caller, for as long as it waits; nil: none that ends
	groups   []asked         // at least one
	claims   []stint.Claim   // of all groups

	out  []stint.Decision // one per claim
	errs []error          // one per group

	done chan struct{} // receives one value when the call is answered; its capacity is 1
	own  bool          // the caller does the round trip itself, so done is not used

	// Guarded by the batcher's mu.
	state      callState
	alone      bool  // keep is set and the caller has given up
	prev, next *call // in the queue

	same *call // in a batch: the next call that shares the same line

	one struct { // inline space for one claim, which suffices for most calls
		group    [1]asked
		claim    [1]stint.Claim
		decision [1]stint.Decision
		err      [1]error
	}
}

// asked is one group of a call.
type asked struct {
	stint.Group

	dry      bool  // decide without charging
	replicas uint8 // number of replicas that must confirm a charge
}

// replicasOf returns how many replicas must confirm the charge of a group. It
// returns 0 for a group that charges nothing, and for a shadow group, which must not
// delay the group that it observes.
func replicasOf(g *stint.Group) (n uint8) {
	if g.Shadow {
		return 0
	}
	for i := range g.Claims {
		n = max(n, replicasOfClaim(&g.Claims[i]))
	}
	return n
}

func replicasOfClaim(c *stint.Claim) uint8 {
	if c.Cost > 0 || c.Extra > 0 && c.Cost == 0 {
		return c.Policy.Replicas
	}
	return 0
}

// callState is the progress of a call.
type callState uint8

const (
	queued    callState = iota // in the queue: not sent yet
	dropped                    // removed from the queue: never sent
	sent                       // sent, or about to be
	abandoned                  // sent, and its caller has given up: the batch recycles it
	landed                     // answered
)

// callPool keeps calls for reuse.
type callPool struct{ pool sync.Pool }

func (p *callPool) get() *call {
	if c, ok := p.pool.Get().(*call); ok {
		return c
	}
	c := &call{done: make(chan struct{}, 1)}
	c.groups, c.claims, c.out, c.errs = c.one.group[:0], c.one.claim[:0], c.one.decision[:0], c.one.err[:0]
	return c
}

// put recycles a call. Neither a batcher nor a caller may hold it.
func (p *callPool) put(c *call) {
	if len(c.claims) == 1 && len(c.groups) == 1 { // clear is slow for one element
		c.claims[0], c.groups[0], c.errs[0] = stint.Claim{}, asked{}, nil
	} else {
		c.letGo()
	}
	c.groups, c.claims = c.groups[:0], c.claims[:0]
	c.out, c.errs = c.out[:0], c.errs[:0]
	c.ctx = nil
	if c.replicas > 0 {
		c.charged.Store(false)
	}
	c.state, c.replicas, c.keep, c.slow, c.alone, c.own, c.same = queued, 0, false, false, false, false, nil
	p.pool.Put(c)
}

// letGo clears a call of several claims or groups, so that the pool holds no
// references to them.
func (c *call) letGo() {
	clear(c.claims)
	clear(c.groups)
	clear(c.errs)
	clear(c.one.claim[:]) // append may have moved the slices away from one
	clear(c.one.group[:])
}

// add appends copies of the claims of a group.
func (c *call) add(a asked) {
	from := len(c.claims)
	c.claims = append(c.claims, a.Claims...)
	a.Claims = c.claims[from:len(c.claims):len(c.claims)]
	c.replicas = max(c.replicas, a.replicas)
	c.slow = c.slow || !plainBucket(&a.Group, a.dry)
	c.groups = append(c.groups, a)
	c.errs = append(c.errs, nil)
	for range a.Claims {
		c.out = append(c.out, stint.Decision{})
	}
}

// addOne is add for a call of one group with one claim.
func (c *call) addOne(claim *stint.Claim) {
	c.claims, c.groups = c.claims[:1], c.groups[:1]
	c.out, c.errs = c.out[:1], c.errs[:1]
	c.claims[0], c.groups[0].Claims = *claim, c.claims
	c.replicas, c.slow = replicasOfClaim(claim), !quickClaim(claim)
	c.groups[0].replicas = c.replicas
}

// plain reports whether equal calls may share one line of the batch. For such a line
// the script charges as many of the calls as fit, in order.
func (c *call) plain() bool {
	if len(c.claims) != 1 || len(c.groups) != 1 || c.groups[0].dry || c.groups[0].Shadow {
		return false
	}
	claim := &c.claims[0]
	if claim.MaxDelay != 0 && claim.Limit.Algorithm() == stint.LeakyBucket {
		return false // the script reads one bound per line, and callers rarely have the same
	}
	return claim.Cost > 0 && claim.Extra == 0
}

// lack sets err on the groups that asked for replicas and were charged. The caller
// has found that too few replicas confirmed the charge.
func (c *call) lack(err error) {
	out := c.out
	for i := range c.groups {
		g := &c.groups[i]
		if _, face := stint.Combine(g.Claims, out[:len(g.Claims)]); c.errs[i] == nil && face.Allowed && g.replicas > 0 {
			c.errs[i] = err
		}
		out = out[len(g.Claims):]
	}
}

// wait returns nil when the call is answered, or an error when ctx ends. With nil
// the caller recycles the call; with an error it must not touch the call again.
func (c *call) wait(ctx context.Context) error {
	stop := ctx.Done()
	switch {
	case c.own:
		return nil
	case stop == nil:
		<-c.done
		return nil
	}
	select {
	case <-c.done:
		return nil
	case <-stop:
		return c.leave(ctx)
	}
}

// waits reports whether the caller still waits at now. It returns false if the
// caller's context has ended or its deadline has passed.
func (c *call) waits(now time.Time) bool {
	if c.ctx == nil {
		return true
	}
	if deadline, ok := c.ctx.Deadline(); ok && !now.Before(deadline) {
		return false // the context's own timer may be late
	}
	return c.ctx.Err() == nil
}

// leave ends the wait of a caller whose context has ended. It returns nil if the call
// was answered in the meantime.
func (c *call) leave(ctx context.Context) error {
	switch state, charged := c.batcher.leave(c); {
	case state == landed:
		<-c.done
		return nil
	case state == dropped:
		return endedUnsent(ctx)
	case charged:
		return replicasLate(ctx)
	default:
		return ended(ctx, "the server has not answered in the caller's time: whether the check was charged is unknown")
	}
}

func endedUnsent(ctx context.Context) *stint.Error {
	return ended(ctx, "the caller's time was over before the check was sent: nothing was charged")
}

// ended returns the error of a check whose context ended before it was decided.
func ended(ctx context.Context, problem string) *stint.Error {
	err := ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		return &stint.Error{Code: stint.CodeTimeout, Kind: "timeout", Problem: problem, Mend: "see whether the server is overloaded, or allow more time", Err: err}
	}
	return &stint.Error{Code: stint.CodeCanceled, Kind: "canceled", Problem: problem, Err: err}
}
