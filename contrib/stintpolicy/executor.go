package stintpolicy

import (
	"context"
	"errors"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/common"
	"github.com/failsafe-go/failsafe-go/policy"

	"github.com/stintdev/stint"
)

// ToExecutor implements failsafe.Policy.
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

// Apply makes an execution wait for its turn, or fail.
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
		e.policy.report(exec, err)
		return &common.PolicyResult[R]{Error: err, Done: true}
	}
}

func (p *Policy[R]) report(exec failsafe.Execution[R], err error) {
	var denied *DeniedError
	if errors.As(err, &denied) && p.options.OnDenied != nil {
		p.options.OnDenied(failsafe.ExecutionEvent[R]{ExecutionAttempt: exec}, denied.Decision)
	}
}

var errZero = errors.New("stintpolicy: the policy is nil or a zero value (make it with New, and look at its error)")

// acquire returns nil once the execution may run, or an error if it may not.
func (p *Policy[R]) acquire(ctx context.Context) error {
	if p == nil || p.options.Limiter == nil {
		return errZero
	}
	if ctx == nil {
		ctx = context.Background()
	}
	d, err := p.options.Limiter.WaitWithin(ctx, p.options.Key(ctx), p.options.Cost, p.options.MaxWait)
	switch {
	case err != nil || d.Allowed:
		return err
	case d.Unavailable:
		return &stint.Error{Code: stint.CodeUnavailable, Problem: "the rate limit cannot be checked, because its store failed", RetryAfter: d.RetryAfter}
	}
	return &DeniedError{d}
}
