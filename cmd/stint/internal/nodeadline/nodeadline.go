// Package nodeadline hides the deadline of a context.
//
// A rule denies what a leaky bucket would delay past the deadline of its context, because a place in
// the queue is only for a caller that can wait for it. Some deadlines are not those of the request
// that is decided: that of a replay, or that of a proxy that waits for an answer. Use it for those.
package nodeadline

import (
	"context"
	"time"
)

// Of returns a context that ends when ctx ends, with its values, but tells no deadline.
func Of(ctx context.Context) context.Context { return withoutDeadline{ctx} }

type withoutDeadline struct{ context.Context } //nolint:containedctx // it is a context

// Deadline returns no deadline.
func (withoutDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }
