package storekit

import (
	"context"
	"time"
)

// WithBegun returns a context for a call to a store whose check began earlier, at the
// given time. A store that waits before it calls the store below passes such a context,
// and package guard counts its deadline from that time. Contexts that are derived from it,
// such as those of an observer, keep the time.
func WithBegun(ctx context.Context, at time.Time) context.Context { return begun{ctx, at} }

// Begun returns the time that [WithBegun] gave to the context. ok is false if there is
// none: the check begins now.
func Begun(ctx context.Context) (at time.Time, ok bool) {
	b, ok := ctx.Value(begunKey{}).(begun)
	return b.at, ok
}

// begun is a context with a time. It is its own value, which saves the allocation of one.
type begun struct {
	context.Context //nolint:containedctx // begun is itself a context

	at time.Time
}

type begunKey struct{}

// Value implements [context.Context].
func (b begun) Value(key any) any {
	if _, ok := key.(begunKey); ok {
		return b
	}
	return b.Context.Value(key)
}
