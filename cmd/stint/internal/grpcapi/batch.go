package grpcapi

import (
	"context"
	"errors"
	"time"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// TakeBatch decides many claims, which the message has as columns, by one call of the
// store.
func (s *Service) TakeBatch(ctx context.Context, m *stintv1.TakeBatchRequest) (*stintv1.TakeBatchResponse, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	b := s.borrowBatch()
	defer s.returnBatch(b)
	if err := b.read(s, m); err != nil {
		return nil, s.failed(ctx, err)
	}
	started := time.Now()
	err := s.options.Store.TakeGroups(ctx, b.groups, b.out)
	s.options.Observe(time.Since(started), len(b.groups))
	partial, ok := errors.AsType[*stint.GroupsError](err)
	ok = ok && len(partial.Errs) == len(b.groups)
	if err != nil && !ok {
		return nil, s.failed(ctx, err)
	}
	response := new(stintv1.TakeBatchResponse)
	if ok {
		response.Failures = b.failures(ctx, s, partial.Errs)
	}
	b.count(s, response.GetFailures())
	response.Decisions = decisionColumns(b.out)
	return response, nil
}

// batch holds the slices of one call. It is pooled.
type batch struct {
	limits []stint.Limit
	claims []stint.Claim
	groups []stint.Group
	out    []stint.Decision
}

func (s *Service) borrowBatch() *batch {
	if b, ok := s.batches.Get().(*batch); ok {
		return b
	}
	return new(batch)
}

// returnBatch puts a batch back into the pool, unless it has grown large. It clears
// what identifies callers.
func (s *Service) returnBatch(b *batch) {
	if cap(b.claims) > maxMessageSlots || cap(b.limits) > maxMessageSlots {
		return
	}
	clear(b.limits)
	clear(b.claims)
	clear(b.groups)
	s.batches.Put(b)
}

// sized returns a slice of n entries, in the memory of s if they fit. Old entries
// remain: the caller must overwrite all of them.
func sized[E any](s []E, n int) []E {
	if cap(s) < n {
		return make([]E, n)
	}
	return s[:n]
}

// failures returns the failures of the groups without a decision, and zeroes their
// decisions.
func (b *batch) failures(ctx context.Context, s *Service, errs []error) (failures []*stintv1.Failure) {
	at, log := 0, news{}
	for i, err := range errs {
		n := len(b.groups[i].Claims)
		if err != nil {
			log.hear(err)
			failures = append(failures, failureOf(i, err))
			clear(b.out[at : at+n])
		}
		at += n
	}
	s.log(ctx, log.err)
	return failures
}

// count reports the decision of each enforced group to Options.Taken.
func (b *batch) count(s *Service, failures []*stintv1.Failure) {
	out := b.out
	for i := range b.groups {
		g := &b.groups[i]
		own := out[:len(g.Claims)]
		out = out[len(g.Claims):]
		failed := len(failures) > 0 && int(failures[0].GetIndex()) == i
		switch {
		case failed:
			failures = failures[1:]
		case g.Shadow || len(own) == 0:
		case len(own) == 1:
			s.options.Taken(&own[0], g.Claims[0].Policy.OnFailure)
		default:
			_, face := stint.Combine(g.Claims, own)
			s.options.Taken(&face, g.Claims[0].Policy.OnFailure)
		}
	}
}
