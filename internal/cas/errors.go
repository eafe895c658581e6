package cas

import (
	"context"
	"errors"

	"github.com/stintdev/stint"
)

// Throttled returns the error of a call that the server refused because it gets too many
// of them. server names it, and mend says how to raise the bound.
func Throttled(server, mend string, err error) *stint.Error {
	return &stint.Error{Code: stint.CodeExhausted, Kind: KindThrottled, Problem: server + " asks for fewer calls", Mend: mend, Err: err}
}

// NoAnswer returns the error of a call that was sent to a server and not answered: ctx
// ended, or the connection broke with err.
func NoAnswer(ctx context.Context, server string, err error) *stint.Error {
	e := &stint.Error{
		Code: stint.CodeTimeout, Kind: "connection",
		Problem: "the connection to " + server + " broke: whether it was charged is unknown", Err: err,
	}
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		e.Kind, e.Problem = "timeout", "no answer from "+server+": whether it was charged is unknown"
		e.Mend = "see whether the server or the network is overloaded"
	}
	return e
}
