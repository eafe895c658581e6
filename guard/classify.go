package guard

import (
	"context"
	"errors"
	"time"

	"github.com/stintdev/stint"
)

// class is what the outcome of a call says of the store. A later class says more.
type class uint8

const (
	classCaller   class = iota // the caller's mistake, or a budget of callers: says nothing of the store
	classRule                  // the rule's own requirement failed: says nothing of other calls
	classCanceled              // the caller gave up: only the duration counts
	classAnswered              // the store answered, possibly with an error
	classFailure               // the store is unreachable, too late, or decides wrongly
)

// degrades reports whether the failure policy decides the claim.
func (c class) degrades() bool {
	return c == classRule || c == classAnswered || c == classFailure
}

// classify returns the class of a call's error. ctx is the caller's context, without
// the guard's deadline.
func classify(ctx context.Context, err error) class {
	var e *stint.Error
	if !errors.As(err, &e) {
		return classifyUnknown(ctx, err)
	}
	switch e.Code {
	case stint.CodeInvalid, stint.CodeConflict:
		return classCaller
	case stint.CodeCanceled:
		return classCanceled
	case stint.CodeTimeout:
		return classifyTimeout(ctx, e)
	case stint.CodeUnavailable:
		return classifyUnavailable(e)
	case stint.CodeInternal:
		return classifyInternal(e)
	case stint.CodeExhausted:
		return classifyExhausted(e)
	case stint.CodeContended: // too many nodes on one key: the server is well, and other keys are too
		return classRule
	}
	return classAnswered
}

// classifyExhausted returns classCaller if callers have used up a budget of the store:
// that of the limits that they bring, or that of their request ids. Deciding those claims
// without the store would lift the bound.
func classifyExhausted(e *stint.Error) class {
	if e.Kind == stint.KindCallerBudget || e.Kind == stint.KindOnceBudget {
		return classCaller
	}
	return classAnswered
}

// classifyInternal returns classFailure if the server cannot run the script, or
// answers in a form that this program cannot read. Every check fails on such a
// server; classAnswered would keep the breaker closed and the failure unnoticed.
func classifyInternal(e *stint.Error) class {
	switch e.Kind {
	case stint.KindScript, stint.KindGarbled:
		return classFailure
	}
	return classAnswered
}

// classifyTimeout returns classCanceled if the caller's own deadline passed first.
func classifyTimeout(ctx context.Context, e *stint.Error) class {
	if over(ctx) {
		return classCanceled
	}
	return classifyUnavailable(e)
}

// over reports whether the caller's context has ended. It compares the deadline too,
// because a store's own timer may fire before the context's.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// classifyUnavailable separates failures of the server from errors of one key, of a
// slot that is moving to another server, and of one rule's requirement. Those must
// not open the breaker for all other keys.
func classifyUnavailable(e *stint.Error) class {
	switch e.Kind {
	case stint.KindWrongType, stint.KindCorrupt:
		return classAnswered
	case stint.KindReplicas, stint.KindTryAgain:
		return classRule
	}
	return classFailure
}

// classifyUnknown classifies an error that is not a [*stint.Error]. No store should
// return one.
func classifyUnknown(ctx context.Context, err error) class {
	if over(ctx) && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return classCanceled
	}
	return classFailure
}
