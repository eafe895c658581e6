package stintpolicy

import (
	"context"
	"errors"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/common"
	"github.com/failsafe-go/failsafe-go/policy"

	"github.com/stintdev/stint"
)

// ToExecutor is for failsafe-go.
func (p *Policy[R]) ToExecutor(_ R) any {
	e := &executor[R]{policy: p}
	e.Executor = e
	return e
}

type executor[R any] struct {
	policy.BaseExecutor[R]

	policy *Policy[R]
}

var _ policy.Executor[any] = (*executor[any])(nil)

// Apply has an execution wait for its turn, or fail.
func (e *executor[R]) Apply(inner func(failsafe.Execution[R]) *common.PolicyResult[R]) func(failsafe.Execution[R]) *common.PolicyResult[R] {
	return func(exec failsafe.Execution[R]) *common.PolicyResult[R] {
		err := e.policy.acquire(exec.Context())
		if err == nil {
			return inner(exec)
		}
		if of, ok := exec.(policy.ExecutionInternal[R]); ok {
			if canceled, result := of.IsCanceledWithResult(); canceled {
				return result
			}
		}
		e.policy.tell(exec, err)
		return &common.PolicyResult[R]{Error: err, Done: true}
	}
}

func (p *Policy[R]) tell(exec failsafe.Execution[R], err error) {
	var denied *DeniedError
	if errors.As(err, &denied) && p.options.OnDenied != nil {
		p.options.OnDenied(failsafe.ExecutionEvent[R]{ExecutionAttempt: exec}, denied.Decision)
	}
}

var errZero = errors.New("stintpolicy: the policy is a zero value (make it with New)")

// acquire returns when the execution may run, or says why it may not.
func (p *Policy[R]) acquire(ctx context.Context) error {
	if p.options.Limiter == nil {
		return errZero
	}
	if ctx == nil {
		ctx = context.Background()
	}
	key, end := p.options.Key(ctx), time.Now().Add(p.options.MaxWait)
	if err := p.lookAhead(ctx, key); err != nil {
		return err
	}
	for {
		r, err := p.options.Limiter.Reserve(ctx, key, p.options.Cost)
		if err != nil {
			return err
		}
		err = await(ctx, r.Decision, end)
		if err != nil {
			return errors.Join(err, r.Cancel(context.WithoutCancel(ctx)))
		}
		if r.Decision.Allowed {
			return nil
		}
	}
}

// lookAhead looks at the queue of a leaky bucket before joining it, because a
// place in it cannot be given back.
func (p *Policy[R]) lookAhead(ctx context.Context, key string) error {
	if !p.shapes {
		return nil
	}
	d, err := p.options.Limiter.Peek(ctx, key)
	if err == nil && d.Delay > p.options.MaxWait {
		err = &DeniedError{d}
	}
	return err
}

// await waits as a decision says, if that ends in time.
func await(ctx context.Context, d stint.Decision, end time.Time) error {
	wait := d.RetryAfter + d.Delay
	if wait == 0 {
		return nil
	}
	if d.RetryAfter == stint.Never || wait > time.Until(end) {
		return &DeniedError{d}
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
