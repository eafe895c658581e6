package remotestore

import (
	"context"

	"google.golang.org/grpc/status"

	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// inFlight is one batch: a TakeBatch request with the calls of one caller or more.
type inFlight struct {
	store   *Store
	calls   []*call
	columns columns
}

func newInFlight(s *Store) *inFlight { return &inFlight{store: s, columns: newColumns(&s.limits)} }

// fly sends the batch and stores the decisions and errors in its calls.
func (f *inFlight) fly(ctx context.Context) {
	f.columns.reset()
	for _, c := range f.calls {
		f.columns.add(c)
	}
	ctx, cancel := context.WithTimeout(ctx, f.store.options.Timeout)
	defer cancel()
	response, err := f.store.client.TakeBatch(ctx, f.columns.message())
	f.store.note(status.Code(err))
	if err == nil {
		err = f.assign(response)
	} else {
		err = f.store.fromStatus(err)
	}
	for _, c := range f.calls {
		c.err = err
	}
}

// assign distributes the decisions and failures of a response to the calls. It returns
// an error if the response does not match the request.
func (f *inFlight) assign(m *stintv1.TakeBatchResponse) error {
	if err := checkDecisions(m.GetDecisions(), len(f.columns.keys)); err != nil {
		return err
	}
	if len(f.columns.keys) > 0 && len(m.GetDecisions().GetLimit()) == 0 && len(m.GetFailures()) == 0 {
		return garbled("it decides nothing")
	}
	first, group, failures := 0, 0, m.GetFailures()
	for _, c := range f.calls {
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
