package guard

import (
	"context"
	"errors"
	"time"

	"github.com/stintdev/stint"
)

// class is what an error says of the store, in the order of how much it tells.
type class uint8

const (
	classCaller   class = iota // the claim is wrong: nothing
	classRule                  // its own demand was not met: nothing of others'
	classCanceled              // the caller gave up: only that it took so long
	classAnswered              // the store answered, if only with an error
	classFailure               // it cannot be reached, or did not answer in time
)

// degrades reports whether the claim is to be decided without the store.
func (b class) degrades() bool {
	return b == classRule || b == classAnswered || b == classFailure
}

// classify reads the error of a call that was made with the caller's context.
func classify(ctx context.Context, err error) class {
	var e *stint.Error
	if !errors.As(err, &e) {
		return classifyUnknown(ctx, err)
	}
	switch e.Code {
	case stint.CodeInvalid:
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
	}
	return classAnswered
}

// classifyExhausted is the caller's where callers' own limits have used up what the
// store keeps for them: to decide those without the store would lift the bound.
func classifyExhausted(e *stint.Error) class {
	if e.Kind == stint.KindCallerBudget {
		return classCaller
	}
	return classAnswered
}

// classifyInternal is the store's where its server cannot run what decides, or
// decides otherwise than this program. Everybody's checks fail there, and
// nobody would hear of it.
func classifyInternal(e *stint.Error) class {
	switch e.Kind {
	case "script", "garbled":
		return classFailure
	}
	return classAnswered
}

// classifyTimeout is the store's, unless the caller's own deadline was sooner.
func classifyTimeout(ctx context.Context, e *stint.Error) class {
	if over(ctx) {
		return classCanceled
	}
	return classifyUnavailable(e)
}

// over reports whether the caller's time is. A store may see that by a timer of
// its own, before the context does.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// classifyUnavailable tells errors of one key, of a slot that is on its way to another
// server, or of what one rule asks for, from those of the server: they must not
// take the server from all the others.
func classifyUnavailable(e *stint.Error) class {
	switch e.Kind {
	case "wrongtype", "corrupt":
		return classAnswered
	case "replicas", "try_again":
		return classRule
	}
	return classFailure
}

// classifyUnknown is of an error that is no [*stint.Error], as there should be
// none.
func classifyUnknown(ctx context.Context, err error) class {
	if over(ctx) && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return classCanceled
	}
	return classFailure
}
