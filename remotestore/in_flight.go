package remotestore

import (
	"context"
	"time"

	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/internal/coalesce"
	"github.com/stintdev/stint/storekit"
)

// inFlight is one batch: a TakeBatch request with the calls of one caller or more.
type inFlight struct {
	store   *Store
	columns columns

	claims, groups, bytes int // the sizes that Fits has counted
}

func (s *Store) newInFlight() *inFlight { return &inFlight{store: s, columns: newColumns(s.limits)} }

// Fits implements [coalesce.Batch].
func (f *inFlight) Fits(c *pending) bool {
	claims, groups, bytes := f.claims+len(c.claims), f.groups+len(c.groups), f.bytes+c.bytes
	if f.groups > 0 && (claims > maxClaims || groups > maxGroups || bytes > maxBytes) {
		return false
	}
	f.claims, f.groups, f.bytes = claims, groups, bytes
	return true
}

// Run implements [coalesce.Batch].
func (f *inFlight) Run(caller context.Context, calls []*coalesce.Call[pending]) {
	for _, c := range calls {
		f.columns.add(c.Owner)
	}
	ctx, cancel := context.WithTimeout(caller, f.store.options.Timeout)
	defer cancel()
	err := f.send(ctx, calls)
	if err != nil && caller.Err() != nil {
		err = storekit.Ended(caller, true)
	}
	for _, c := range calls {
		c.Owner.err = err
	}
}

// send makes the call to the server, and reports it to the observer.
func (f *inFlight) send(ctx context.Context, calls []*coalesce.Call[pending]) error {
	o := f.store.options.Observer
	if o == nil {
		return f.take(ctx, calls)
	}
	e := stint.Event{Kind: stint.EventStoreCall, Name: "remotestore", Claims: len(f.columns.keys)}
	ctx, start := o.Start(ctx, e), time.Now()
	err := f.take(ctx, calls)
	e.EndStoreCall(time.Since(start), err)
	o.Observe(ctx, e)
	return err
}

func (f *inFlight) take(ctx context.Context, calls []*coalesce.Call[pending]) error {
	response, err := f.store.client.TakeBatch(ctx, f.columns.message())
	f.store.note(status.Code(err))
	if err != nil {
		return f.store.fromStatus(err)
	}
	return f.assign(calls, response)
}

// Reset implements [coalesce.Batch].
func (f *inFlight) Reset() {
	f.columns.reset()
	f.claims, f.groups, f.bytes = 0, 0, 0
}

// assign distributes the decisions and failures of a response to the calls. It returns
// an error if the response does not match the request.
func (f *inFlight) assign(calls []*coalesce.Call[pending], m *stintv1.TakeBatchResponse) error {
	if err := checkDecisions(m.GetDecisions(), len(f.columns.keys)); err != nil {
		return err
	}
	if len(f.columns.keys) > 0 && len(m.GetDecisions().GetLimit()) == 0 && len(m.GetFailures()) == 0 {
		return garbled("it decides nothing")
	}
	first, group, failures := 0, 0, m.GetFailures()
	for _, call := range calls {
		c := call.Owner
		out := c.room()
		readDecisions(out, m.GetDecisions(), first)
		for ; len(failures) > 0 && int(failures[0].GetIndex()) < group+len(c.groups); failures = failures[1:] {
			place := int(failures[0].GetIndex()) - group
			if place < 0 {
				return garbled("its failures are out of order")
			}
			c.fail(place, fromFailure(failures[0]))
		}
		first, group = first+len(out), group+len(c.groups)
	}
	if len(failures) > 0 {
		return garbled("it names more groups than were asked for")
	}
	return nil
}

// checkDecisions returns an error if a column is not one of n decisions: empty, one
// entry for all, or n entries.
func checkDecisions(m *stintv1.Decisions, n int) error {
	for _, entries := range [...]int{
		len(m.GetAllowed()), len(m.GetLimit()), len(m.GetRemaining()), len(m.GetRetryAfterUs()), len(m.GetResetAfterUs()),
		len(m.GetNextAfterUs()), len(m.GetDelayUs()), len(m.GetGranted()), len(m.GetAtUs()), len(m.GetNever()), len(m.GetDegraded()), len(m.GetUnavailable()), len(m.GetRepeats()),
	} {
		if entries > 1 && entries != n {
			return garbled("a column does not fit the claims")
		}
	}
	return nil
}

// readDecisions reads len(out) decisions, from index first on.
func readDecisions(out []stint.Decision, m *stintv1.Decisions, first int) {
	for i := range out {
		at := first + i
		out[i] = stint.Decision{
			Allowed: entry(m.GetAllowed(), at), Degraded: entry(m.GetDegraded(), at), Unavailable: entry(m.GetUnavailable(), at), Repeated: entry(m.GetRepeats(), at),
			Limit: entry(m.GetLimit(), at), Remaining: entry(m.GetRemaining(), at),
			RetryAfter: micros(entry(m.GetRetryAfterUs(), at)), ResetAfter: micros(entry(m.GetResetAfterUs(), at)),
			NextAfter: micros(entry(m.GetNextAfterUs(), at)), Delay: micros(entry(m.GetDelayUs(), at)),
			Granted: entry(m.GetGranted(), at), At: entry(m.GetAtUs(), at),
		}
		if entry(m.GetNever(), at) {
			out[i].RetryAfter = stint.Never
		}
	}
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// entry returns entry i of a column. In an empty column every item is zero; in a column of one
// entry every item has that value.
func entry[V any](column []V, i int) (zero V) {
	switch len(column) {
	case 0:
		return zero
	case 1:
		return column[0]
	}
	return column[i]
}
