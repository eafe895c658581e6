package storekit

import (
	"context"
	"errors"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/groupcall"
)

// Ended returns the error of a call whose context has ended. sent says that a server may
// have received the call. Whether it was charged is then unknown, and the store must not
// repeat it.
func Ended(ctx context.Context, sent bool) *stint.Error {
	e := &stint.Error{Code: stint.CodeCanceled, Kind: "canceled", Problem: "the caller's time ended before the check was sent: nothing was charged", Err: ctx.Err()}
	if sent {
		e.Problem = "the caller's time ended before the server answered: whether the check was charged is unknown"
	}
	if errors.Is(e.Err, context.DeadlineExceeded) {
		e.Code, e.Kind, e.Mend = stint.CodeTimeout, "timeout", "check whether the server is overloaded, or allow more time"
	}
	return e
}

// OnceConflict returns the error of a group whose [stint.Once] has the ID of another group
// that the store remembers.
func OnceConflict() *stint.Error {
	problem, mend := groupcall.OnceConflict()
	return &stint.Error{Code: stint.CodeConflict, Problem: problem, Mend: mend}
}

// OnceBudget returns the error of a group whose [stint.Once] the store has no room to
// remember. wait is the time until there may be room.
func OnceBudget(wait time.Duration) *stint.Error {
	problem, mend := groupcall.OnceBudget()
	return &stint.Error{Code: stint.CodeExhausted, Kind: stint.KindOnceBudget, Problem: problem, Mend: mend, RetryAfter: wait}
}
