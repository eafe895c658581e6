package client

import (
	"context"
	"errors"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
)

// Limiter makes a caller wait for its turn. Wait returns nil when the turn has come, and
// an error if it will not come in time. A *stint.Limiter is a Limiter; with a leaky
// bucket it shapes the traffic. Its policy (With) applies: with stint.FailClosed an
// attempt waits until its store is back, or is refused as Unavailable. A Limiter must be
// safe for concurrent use.
type Limiter interface {
	Wait(ctx context.Context, key string) error
}

// Chain is the sequence of parts that every attempt to one dependency passes, in this
// order. Nil parts are skipped; the zero value and a nil *Chain let every attempt through.
// Do not change a Chain once it is in use.
type Chain struct {
	// Name is the name of the dependency, for errors and metrics. Use a small fixed set
	// of names, not values taken from requests.
	Name string

	Bulkhead *bulkhead.Bulkhead
	Breaker  *breaker.Breaker
	Limiter  Limiter

	// Observer sees each call ([stint.EventRequest]), its attempts, refusals, and
	// decisions about retries. Nil: no events.
	Observer stint.Observer
}

// Begin takes a place in the bulkhead, checks the breaker and waits for the limiter; key
// is the limiter's key. If all of them let the attempt through, the caller must end the
// Call. Otherwise the error is a [*RefusedError], or the context's error if the context
// has ended, and no place is held.
//
// The breaker is asked again after the wait and times the attempt from then on, because
// the wait is not the dependency's fault. If the breaker opened during the wait, the
// attempt is refused although it has used its turn.
func (p *Chain) Begin(ctx context.Context, key string) (*Call, error) {
	c := &Call{}
	if p == nil {
		return c, nil
	}
	begun := false
	defer func() {
		if !begun { // the attempt was refused, or a part panics
			c.Release()
		}
	}()
	if err := p.begin(ctx, key, c); err != nil {
		if refused := (*RefusedError)(nil); errors.As(err, &refused) {
			refused.Name = p.Name
		}
		return nil, err
	}
	begun = true
	return c, nil
}

func (p *Chain) begin(ctx context.Context, key string, c *Call) error {
	if err := p.takePlace(ctx, c); err != nil {
		return err
	}
	if err := p.expectRefusal(); err != nil {
		return err
	}
	if err := p.waitForTurn(ctx, key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil { // nothing would be sent, but the breaker would count a failure
		return err
	}
	call, ok := p.Breaker.Begin()
	if !ok {
		return p.broken()
	}
	c.call = call
	return nil
}

func (p *Chain) takePlace(ctx context.Context, c *Call) (err error) {
	if p.Bulkhead == nil {
		return nil
	}
	c.slot, err = p.Bulkhead.Acquire(ctx)
	if errors.Is(err, bulkhead.ErrRefused) {
		return &RefusedError{Part: PartBulkhead, Err: err}
	}
	return err
}

// expectRefusal refuses an attempt before the wait for its turn if the breaker would
// refuse it afterwards.
func (p *Chain) expectRefusal() error {
	if s := p.Breaker.State(); s == breaker.ForcedOpen || s == breaker.Open && p.Breaker.RetryAfter() > 0 {
		return p.broken()
	}
	return nil
}

func (p *Chain) broken() error {
	err := p.Breaker.Refusal()
	return &RefusedError{Part: PartBreaker, Err: err, RetryAfter: err.RetryAfter}
}

func (p *Chain) waitForTurn(ctx context.Context, key string) error {
	if p.Limiter == nil {
		return nil
	}
	err := p.Limiter.Wait(ctx, key)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	refused := &RefusedError{Part: PartLimiter, Err: err}
	if e, ok := errors.AsType[*stint.Error](err); ok {
		refused.RetryAfter = e.RetryAfter
		refused.Unavailable = e.Kind != stint.KindWait && e.Code != stint.CodeInvalid
	}
	return refused
}

// Call is an attempt that was let through. End it by Success, Failure, Ignore or End. If
// its place is held longer than until the outcome is known, as for the body of a
// response, report the outcome by Answer and end the call by Release. Only the first
// outcome counts. Until the outcome is reported, a Call must not be used by two
// goroutines at once. A nil or zero Call holds nothing.
type Call struct {
	slot     *bulkhead.Slot // nil without a bulkhead
	call     breaker.Call
	answered bool
}

// Success ends the attempt: the dependency answered correctly.
func (c *Call) Success() { c.End(breaker.Success) }

// Failure ends the attempt: the dependency failed.
func (c *Call) Failure() { c.End(breaker.Failure) }

// Ignore ends the attempt: the outcome tells nothing about the dependency, for example
// because the caller gave up.
func (c *Call) Ignore() { c.End(breaker.Ignored) }

// End is shorthand for Answer and Release.
func (c *Call) End(o breaker.Outcome) {
	c.Answer(o)
	c.Release()
}

// Answer reports the outcome to the breaker.
func (c *Call) Answer(o breaker.Outcome) {
	if c != nil && !c.answered {
		c.answered = true
		c.call.End(o)
	}
}

// Release frees the place; only the first call does. If no outcome was reported, it also
// reports that the outcome is unknown.
func (c *Call) Release() {
	if c != nil {
		c.Answer(breaker.Ignored)
		c.slot.Release()
	}
}

// end returns Release, or nil if there is no place to release.
func (c *Call) end() func() {
	if c.slot == nil {
		return nil
	}
	return c.Release
}
