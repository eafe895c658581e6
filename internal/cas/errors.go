package cas

import (
	"context"
	"errors"
	"fmt"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// The kinds of errors of the store's own.
const (
	// KindThrottled is a server that asks for fewer calls.
	KindThrottled stint.Kind = "throttled"
	// KindItemFull is a claim that was refused because the item of its key has no room for
	// the state of one more limit. Nothing was charged.
	KindItemFull stint.Kind = "item_full"
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

// garbled returns the error of a backend that breaks its contract.
func garbled(problem string) error {
	return &stint.Error{Code: stint.CodeInternal, Kind: stint.KindGarbled, Problem: "the backend of the store " + problem}
}

// refusal returns the error of a call to a shard that is stopped. Nothing was sent.
func (t *transport) refusal() *stint.Error {
	return &stint.Error{
		Code: stint.CodeUnavailable, Kind: "stopped",
		Problem: t.store.options.Name + ": nothing is sent to the server " + t.shard + ": it is marked as down, or the store is closed",
	}
}

// ended returns the error of a call whose context has ended. A call that lost all its swaps
// says so: its key is contended, and the server is well.
func ended(ctx context.Context, r *round, mayBeCharged bool) error {
	if r != nil && !mayBeCharged && r.losses.Load() > 0 {
		return contended(int(r.losses.Load()), ctx.Err())
	}
	return storekit.Ended(ctx, mayBeCharged)
}

// contended returns the error of a call whose swaps were all lost.
func contended(losses int, cause error) *stint.Error {
	return &stint.Error{
		Code: stint.CodeContended, Kind: "contended", Err: cause,
		Problem: fmt.Sprintf("other nodes changed the key first, %d times: nothing was charged", losses),
		Mend:    "lease the limit, or split the key",
	}
}

// notUndone returns the error of a group that was not admitted and has a charge all the same.
func notUndone(err error) error {
	return &stint.Error{
		Code: stint.CodeTimeout, Kind: "undo", Err: err,
		Problem: "a part of the group's charge could not be undone after another part had failed: it stays until it refills",
	}
}

// full returns the error of a claim whose item has no room.
func full(key string) error {
	e := &stint.Error{
		Code: stint.CodeExhausted, Kind: KindItemFull,
		Problem: fmt.Sprintf("the item of the key has no room for the state: it may have %d limits and %d KiB", maxLimits, MaxValue>>10),
		Mend:    "give the key fewer limits, and count by a sliding_window_counter in place of a long sliding_window_log",
	}
	if fromCaller(key) {
		e.Kind = stint.KindCallerBudget
	}
	return e
}
