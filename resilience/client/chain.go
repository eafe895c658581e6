package client

import (
	"context"
	"errors"

	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
)

// Limiter has a caller wait for its turn: it returns nil when that has come,
// and an error when it will not come in time. A *stint.Limiter is one; with a
// leaky bucket it shapes what is sent. It must be safe for use by many
// goroutines at once.
type Limiter interface {
	Wait(ctx context.Context, key string) error
}

// Parts are what every attempt passes on its way to one dependency, in this
// order. Those that are nil are left out; the zero value lets everything pass.
// Do not change it once it is in use.
type Parts struct {
	// Name is the dependency's, for errors and metrics. It should be one of a
	// few, and not made of what a request says.
	Name string

	Bulkhead *bulkhead.Bulkhead
	Breaker  *breaker.Breaker
	Limiter  Limiter

	// Observer is told what happens. Defaults to nobody.
	Observer Observer
}

// Enter takes a place in the bulkhead, asks the breaker and waits for the
// limiter. The key is the limiter's: whose turn it is. If all let the attempt
// go ahead, end the Pass. Otherwise the error is a [*RefusedError], or the
// context's where that has ended, and nothing is held.
//
// The breaker is asked again after the wait, and times the attempt from
// there: that others were first is not the dependency's doing. So an attempt
// may have taken its turn and be refused even so, where the breaker opened
// meanwhile.
func (p *Parts) Enter(ctx context.Context, key string) (*Pass, error) {
	pass := &Pass{}
	entered := false
	defer func() {
		if !entered {
			pass.Leave()
		}
	}()
	if err := p.enter(ctx, key, pass); err != nil {
		return nil, p.named(err)
	}
	entered = true
	return pass, nil
}

func (p *Parts) enter(ctx context.Context, key string, pass *Pass) error {
	if err := p.place(ctx, pass); err != nil {
		return err
	}
	if err := p.expectRefusal(); err != nil {
		return err
	}
	if err := p.turn(ctx, key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil { // nothing would be sent, and the breaker would hold it against the dependency
		return err
	}
	return p.begin(pass)
}

func (p *Parts) place(ctx context.Context, pass *Pass) (err error) {
	if p.Bulkhead == nil {
		return nil
	}
	pass.slot, err = p.Bulkhead.Acquire(ctx)
	if refused := (*bulkhead.RefusedError)(nil); errors.As(err, &refused) {
		return &RefusedError{Part: Bulkhead, Err: err}
	}
	return err
}

// expectRefusal spares an attempt the wait for its turn where the breaker
// would refuse it after that.
func (p *Parts) expectRefusal() error {
	if p.Breaker == nil {
		return nil
	}
	if s := p.Breaker.State(); s == breaker.ForcedOpen || s == breaker.Open && p.Breaker.RetryAfter() > 0 {
		return p.broken()
	}
	return nil
}

func (p *Parts) broken() error {
	err := &breaker.RefusedError{State: p.Breaker.State(), RetryAfter: p.Breaker.RetryAfter()}
	return &RefusedError{Part: Breaker, Err: err}
}

func (p *Parts) turn(ctx context.Context, key string) error {
	if p.Limiter == nil {
		return nil
	}
	err := p.Limiter.Wait(ctx, key)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	return &RefusedError{Part: Limit, Err: err}
}

func (p *Parts) begin(pass *Pass) error {
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

func (p *Parts) named(err error) error {
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		refused.Name = p.Name
	}
	return err
}

// Pass is an attempt that was let through. Say how it ended, by Success,
// Failure, Cancel or Answer, of which only the first counts, and then Leave. Before it
// is said, a Pass is for one goroutine at a time.
type Pass struct {
	slot *bulkhead.Slot // nil without a bulkhead
	call breaker.Call
	told bool
}

// Success tells the breaker that the dependency answered as it should.
func (p *Pass) Success() { p.tell(breaker.Call.Success) }

// Failure tells the breaker that it did not.
func (p *Pass) Failure() { p.tell(breaker.Call.Failure) }

// Cancel tells the breaker that nobody will know: the caller gave up.
func (p *Pass) Cancel() { p.tell(breaker.Call.Cancel) }

// Answer tells the breaker what the outcome was.
func (p *Pass) Answer(o breaker.Outcome) {
	p.tell(func(c breaker.Call) { c.End(o) })
}

func (p *Pass) tell(how func(breaker.Call)) {
	if !p.told {
		p.told = true
		how(p.call)
	}
}

// end is Leave where there is a place to give back, else nil.
func (p *Pass) end() func() {
	if p.slot == nil {
		return nil
	}
	return p.Leave
}

// Leave gives the place back. Only the first call does. Where nobody said how
// the attempt ended, it is Cancel too.
func (p *Pass) Leave() {
	p.Cancel()
	if p.slot != nil {
		p.slot.Release()
	}
}
