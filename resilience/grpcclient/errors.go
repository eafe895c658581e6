package grpcclient

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/client"
)

// refused gives a refusal its gRPC status and reports it to the Observer. Nothing was
// sent, so a retry that the budget granted is returned to it.
func (c *Client) refused(ctx context.Context, err error, attempt int, before error) error {
	if o := c.options.Retry; attempt > 1 && o.Budget != nil {
		o.Budget.Refund()
	}
	r := (*client.RefusedError)(nil)
	if !errors.As(err, &r) {
		return status.FromContextError(err).Err()
	}
	r.Before = before
	c.options.Observe(ctx, stint.Event{Kind: stint.EventRefusal, Attempt: attempt, Result: r.Part.String(), Err: r})
	return &refusal{r}
}

// refusal is a *client.RefusedError with a status of gRPC.
type refusal struct{ *client.RefusedError }

// Unwrap returns the [*client.RefusedError].
func (r *refusal) Unwrap() error { return r.RefusedError }

// GRPCStatus returns the status, for [status.FromError].
func (r *refusal) GRPCStatus() *status.Status { return status.New(r.code(), r.Error()) }

func (r *refusal) code() codes.Code {
	switch {
	case errors.Is(r.Err, context.Canceled):
		return codes.Canceled
	case r.Unavailable:
		return codes.Unavailable
	case r.Timeout(), errors.Is(r.Err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case r.Part == client.PartBreaker:
		return codes.Unavailable
	}
	return codes.ResourceExhausted
}

// codeName returns a code as gRPC's documents write it: RESOURCE_EXHAUSTED. A code that
// gRPC does not define is UNKNOWN.
func codeName(c codes.Code) string {
	if c > codes.Unauthenticated {
		c = codes.Unknown
	}
	var name strings.Builder
	for i, letter := range c.String() {
		if i > 0 && letter >= 'A' && letter <= 'Z' && c != codes.OK {
			name.WriteByte('_')
		}
		name.WriteRune(letter)
	}
	return strings.ToUpper(name.String())
}
