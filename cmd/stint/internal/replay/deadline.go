package replay

import (
	"context"
	"time"
)

// withoutDeadline is a context that ends as another one does, but tells no deadline. A rule denies
// what a leaky bucket would delay past the deadline of the context, and the deadline of a replay is
// not that of the recorded requests.
type withoutDeadline struct{ context.Context } //nolint:containedctx // it is a context

// Deadline returns no deadline.
func (withoutDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }
