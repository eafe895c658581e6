package client

import (
	"context"
	"errors"

	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
)

// Limiter makes a caller wait for its turn. Wait returns nil when the turn has come, and
// an error if it will not come in time. A *stint.Limiter is a Limiter; with a leaky
// bucket it shapes the traffic. A Limiter must be safe for concurrent use.
type Limiter interface {
	Wait(ctx context.Context, key string) error
}

// Chain is the sequence of parts that every attempt to one dependency passes, in this
// order. Nil parts are skipped; the zero value lets every attempt through. Do not change
// it once it is in use.
type Chain struct {
	// Name is the name of the dependency, for errors and metrics. Use a small fixed set
	// of names, not values taken from requests.
	Name string

	Bulkhead *bulkhead.Bulkhead
	Breaker  *breaker.Breaker
	Limiter  Limiter

	// Observer receives the events of calls. Nil: no events.
	Observer Observer
}

// Enter takes a place in the bulkhead, checks the breaker and waits for the limiter; key
// is the limiter's key. If all of them let the attempt through, the caller must end the
// Pass. Otherwise the error is a [*RefusedError], or the context's error if the context
// has ended, and no place is held.
//
// The breaker is asked again after the wait and times the attempt from then on, because
// the wait is not the dependency's fault. If the breaker opened during the wait, the
// attempt is refused although it has used its turn.
func (p *Chain) Enter(ctx context.Context, key string) (*Pass, error) {
	pass := &Pass{}
	entered := false
	defer func() {
		if !entered { // the attempt was refused, or a part panics
			pass.Leave()
		}
	}()
	err := p.enter(ctx, key, pass)
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		refused.Name = p.Name
	}
	if err != nil {
		return nil, err
	}
	entered = true
	return pass, nil
}

func (p *Chain) enter(ctx context.Context, key string, pass *Pass) error {
	if err := p.place(ctx, pass); err != nil {
		return err
	}
	if err := p.expectRefusal(); err != nil {
		return err
	}
	if err := p.turn(ctx, key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil { // nothing would be sent, but the breaker would count a failure
		return err
	}
	return p.begin(pass)
}

func (p *Chain) place(ctx context.Context, pass *Pass) (err error) {
	if p.Bulkhead == nil {
		return nil
	}
	pass.slot, err = p.Bulkhead.Acquire(ctx)
	if refused := (*bulkhead.RefusedError)(nil); errors.As(err, &refused) {
		return &RefusedError{Part: Bulkhead, Err: err}
	}
	return err
}

// expectRefusal refuses an attempt before the wait for its turn if the breaker would
// refuse it afterwards.
func (p *Chain) expectRefusal() error {
	if p.Breaker == nil {
		return nil
	}
	if s := p.Breaker.State(); s == breaker.ForcedOpen || s == breaker.Open && p.Breaker.RetryAfter() > 0 {
		return p.broken()
	}
	return nil
}

func (p *Chain) broken() error {
	err := &breaker.RefusedError{State: p.Breaker.State(), RetryAfter: p.Breaker.RetryAfter()}
	return &RefusedError{Part: Breaker, Err: err}
}

func (p *Chain) turn(ctx context.Context, key string) error {
	if p.Limiter == nil {
		return nil
	}
	err := p.Limiter.Wait(ctx, key)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	return &RefusedError{Part: Limit, Err: err}
}

func (p *Chain) begin(pass *Pass) error {
	if p.Breaker == nil {
		return nil
	}
	call, ok := p.Breaker.Begin()
	if !ok {
		return p.broken()
	}
	pass.call = call
	return nil
}

// Pass is an attempt that was let through. Report its outcome by Success, Failure, Cancel
// or Answer, of which only the first call counts, and then call Leave. Until the outcome
// is reported, a Pass must not be used by two goroutines at once.
type Pass struct {
	slot     *bulkhead.Slot // nil without a bulkhead
	call     breaker.Call
	reported bool
}

// Success reports to the breaker that the dependency answered correctly.
func (p *Pass) Success() { p.report(breaker.Call.Success) }

// Failure reports to the breaker that the dependency failed.
func (p *Pass) Failure() { p.report(breaker.Call.Failure) }

// Cancel reports to the breaker that the outcome is unknown: the caller gave up.
func (p *Pass) Cancel() { p.report(breaker.Call.Cancel) }

// Answer reports the outcome to the breaker.
func (p *Pass) Answer(o breaker.Outcome) {
	p.report(func(c breaker.Call) { c.End(o) })
}

func (p *Pass) report(how func(breaker.Call)) {
	if !p.reported {
		p.reported = true
		how(p.call)
	}
}

// end returns Leave, or nil if there is no place to release.
func (p *Pass) end() func() {
	if p.slot == nil {
		return nil
	}
	return p.Leave
}

// Leave releases the place; only the first call does. If no outcome was reported, it also
// reports Cancel.
func (p *Pass) Leave() {
	p.Cancel()
	if p.slot != nil {
		p.slot.Release()
	}
}
