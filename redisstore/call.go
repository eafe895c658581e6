package redisstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
)

// call is what one caller asks of one lane: groups of one slot, decided in
// order. It owns copies of the claims and room for the answers, because a
// flight may still read and write them after its caller has left.
type call struct {
	batcher  *batcher
	slot     uint16
	replicas uint8           // that must have what is charged
	keep     bool            // sent even when its caller has left
	slow     bool            // beyond the quick script
	charged  atomic.Bool     // the server has answered, and replicas are waited for
	ctx      context.Context //nolint:containedctx // of the caller, for as long as it waits; nil: none that ends
	groups   []asked         // at least one
	claims   []stint.Claim   // of all groups

	out  []stint.Decision // one a claim
	errs []error          // one a group

	done chan struct{} // holds one: the call has landed
	own  bool          // its caller flies it: nobody need be told

	// Guarded by the lock of the lane.
	state      callState
	alone      bool  // kept, and its caller has left
	prev, next *call // in the queue

	same *call // in a flight: the next call that travels on the same line

	one struct { // room for one claim, which most calls have, beside the rest
		group    [1]asked
		claim    [1]stint.Claim
		decision [1]stint.Decision
		err      [1]error
	}
}

// asked is one group of a call.
type asked struct {
	stint.Group

	dry      bool  // decide, charge nothing
	replicas uint8 // that must have what it charges; 0: none
}

// replicasOf returns how many replicas must have what a group charges. A group
// that charges nothing asks for none; neither does a shadow group, which must
// not hold up the group that it observes.
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

// callState is where a call is.
type callState uint8

const (
	queued    callState = iota // certain not to be sent while it is there
	dropped                    // left the queue without being sent
	sent                       // sent, or about to be
	abandoned                  // aloft, and its caller has left: the flight recycles it
	landed                     // answered: done holds the word
)

// callPool keeps calls between their uses.
type callPool struct{ pool sync.Pool }

func (p *callPool) get() *call {
	if c, ok := p.pool.Get().(*call); ok {
		return c
	}
	c := &call{done: make(chan struct{}, 1)}
	c.groups, c.claims, c.out, c.errs = c.one.group[:0], c.one.claim[:0], c.one.decision[:0], c.one.err[:0]
	return c
}

// put takes back a call that no lane and no caller holds.
func (p *callPool) put(c *call) {
	if len(c.claims) == 1 && len(c.groups) == 1 { // clear is slow with so few
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

// letGo forgets the claims of many.
func (c *call) letGo() {
	clear(c.claims)
	clear(c.groups)
	clear(c.errs)
	clear(c.one.claim[:]) // from where the first may have moved away
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

// addOne is add for a group of one claim, the first and last of the call.
func (c *call) addOne(claim *stint.Claim) {
	c.claims, c.groups = c.claims[:1], c.groups[:1]
	c.out, c.errs = c.out[:1], c.errs[:1]
	c.claims[0], c.groups[0].Claims = *claim, c.claims
	c.replicas, c.slow = replicasOfClaim(claim), !quickClaim(claim)
	c.groups[0].replicas = c.replicas
}

// plain reports whether equal calls may travel as one line: the script
// charges as many of them as fit, and they are served in order.
func (c *call) plain() bool {
	if len(c.claims) != 1 || len(c.groups) != 1 || c.groups[0].dry || c.groups[0].Shadow {
		return false
	}
	claim := &c.claims[0]
	if claim.MaxDelay != 0 && claim.Limit.Algorithm() == stint.LeakyBucket {
		return false // the script reads one bound a line, and callers rarely share theirs
	}
	return claim.Cost > 0 && claim.Extra == 0
}

// lack is the error of the groups that ask for replicas and were charged, when
// too few replicas have it.
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

// wait returns when the call has landed, or when ctx ends. In the first case
// the caller puts the call back; in the second it must not touch it again.
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

// waits reports whether a call's caller is not about to leave.
func (c *call) waits(now time.Time) bool {
	if c.ctx == nil {
		return true
	}
	if deadline, ok := c.ctx.Deadline(); ok && !now.Before(deadline) {
		return false // and its timer is about to say so
	}
	return c.ctx.Err() == nil
}

// leave ends the wait of a caller whose context has ended.
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

// ended is the error of a context that ended before there was a decision.
func ended(ctx context.Context, problem string) *stint.Error {
	err := ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		return &stint.Error{Code: stint.CodeTimeout, Kind: "timeout", Problem: problem, Mend: "see whether the server is overloaded, or allow more time", Err: err}
	}
	return &stint.Error{Code: stint.CodeCanceled, Kind: "canceled", Problem: problem, Err: err}
}
