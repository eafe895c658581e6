package guard

import (
	"context"
	"errors"
	"time"

	"github.com/stintdev/stint"
)

// blame is what an error says of the store, in the order of how much it tells.
type blame uint8

const (
	blameCaller    blame = iota // the claim is wrong: nothing
	blameRule                   // its own demand was not met: nothing of others'
	blameImpatient              // the caller gave up: only that it took so long
	blameNone                   // the store answered, if only with an error
	blameStore                  // it cannot be reached, or did not answer in time
)

// degrades reports whether the claim is to be decided without the store.
func (b blame) degrades() bool {
	return b == blameRule || b == blameNone || b == blameStore
}

// blameFor reads the error of a call that was made with the caller's context.
func blameFor(ctx context.Context, err error) blame {
	var e *stint.Error
	if !errors.As(err, &e) {
		return blameUnknown(ctx, err)
	}
	switch e.Code {
	case stint.CodeInvalid:
		return blameCaller
	case stint.CodeCanceled:
		return blameImpatient
	case stint.CodeTimeout:
		return blameTimeout(ctx, e)
	case stint.CodeUnavailable:
		return blameKind(e)
	case stint.CodeInternal:
		return blameInternal(e)
	case stint.CodeExhausted:
		return blameExhausted(e)
	}
	return blameNone
}

// blameExhausted is the caller's where callers' own limits have used up what the
// store keeps for them: to decide those without the store would lift the bound.
func blameExhausted(e *stint.Error) blame {
	if e.Kind == stint.KindCallerBudget {
		return blameCaller
	}
	return blameNone
}

// blameInternal is the store's where its server cannot run what decides, or
// decides otherwise than this program. Everybody's checks fail there, and
// nobody would hear of it.
func blameInternal(e *stint.Error) blame {
	switch e.Kind {
	case "script", "garbled":
		return blameStore
	}
	return blameNone
}

// blameTimeout is the store's, unless the caller's own deadline was sooner.
func blameTimeout(ctx context.Context, e *stint.Error) blame {
	if over(ctx) {
		return blameImpatient
	}
	return blameKind(e)
}

// over reports whether the caller's time is. A store may see that by a timer of
// its own, before the context does.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// blameKind tells errors of one key, of a slot that is on its way to another
// server, or of what one rule asks for, from those of the server: they must not
// take the server from all the others.
func blameKind(e *stint.Error) blame {
	switch e.Kind {
	case "wrongtype", "corrupt":
		return blameNone
	case "replicas", "try_again":
		return blameRule
	}
	return blameStore
}

// blameUnknown is of an error that is no [*stint.Error], as there should be
// none.
func blameUnknown(ctx context.Context, err error) blame {
	if over(ctx) && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return blameImpatient
	}
	return blameStore
}
