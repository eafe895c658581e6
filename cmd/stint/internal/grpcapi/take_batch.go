package grpcapi

import (
	"context"
	"math"
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
	b := s.batches.Get().(*batch) //nolint:forcetypeassert // the pool holds nothing else
	defer s.returnBatch(b)
	if err := b.read(s, m); err != nil {
		return nil, s.rejected(ctx, err)
	}
	errs, err := s.options.Decider.TakeGroups(ctx, time.Now(), spanOf(ctx), b.groups, b.out)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	response := &stintv1.TakeBatchResponse{Failures: b.failures(ctx, s, errs)}
	response.Decisions = decisionColumns(b.out)
	return response, nil
}

// batch holds the slices of one call. It is pooled.
type batch struct {
	limits []stint.Limit
	claims []stint.Claim
	groups []stint.Group
	out    []stint.Decision

	shadows [][]stint.Claim // the shadows of all groups
	unsent  int             // 1 if the first group is not in the message: see readGroups
}

// returnBatch puts a batch back into the pool, unless it has grown large. It clears
// what identifies callers.
func (s *Service) returnBatch(b *batch) {
	if max(cap(b.claims), cap(b.limits), cap(b.groups), cap(b.shadows)) > maxMessageSlots {
		return // groups and shadows can be many without claims
	}
	clear(b.limits)
	clear(b.claims)
	clear(b.groups)
	clear(b.shadows)
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

// failures returns the failures of the parts without a decision, and zeroes their
// decisions. It logs the first one that is not a mistake of the caller: when the store
// fails, all groups fail alike. errs is by part, and nil if none failed.
func (b *batch) failures(ctx context.Context, s *Service, errs []error) (failures []*stintv1.Failure) {
	if errs == nil {
		return nil
	}
	var failure error
	at, out := 0, b.out
	for i := range b.groups {
		for part := range b.groups[i].Parts() {
			own := out[:len(b.groups[i].Part(part))]
			out = out[len(own):]
			if err := errs[at]; err != nil {
				if at >= b.unsent {
					failures = append(failures, failureOf(at-b.unsent, err))
				}
				clear(own)
				if failure == nil && isFailure(err) {
					failure = err
				}
			}
			at++
		}
	}
	s.log(ctx, failure)
	return failures
}

// read builds the claims and groups from the columns of a message.
func (b *batch) read(s *Service, m *stintv1.TakeBatchRequest) error {
	n, err := claimsOf(m)
	if err != nil {
		return err
	}
	if err := checkColumns(m, n); err != nil {
		return err
	}
	if err := b.readLimits(s, m.GetLimits()); err != nil {
		return err
	}
	b.claims, b.out = sized(b.claims, n), sized(b.out, n)
	for i := range b.claims {
		if err := b.readClaim(s, m, i); err != nil {
			return err
		}
	}
	return b.readGroups(m)
}

// claimsOf returns how many claims the message has.
func claimsOf(m *stintv1.TakeBatchRequest) (int, error) {
	n := len(m.GetKeys())
	switch {
	case n > 0 && len(m.GetRawKeys()) > 0:
		return 0, badRequest("raw_keys: stands in place of keys (give one of them)")
	case n == 0:
		n = len(m.GetRawKeys())
	}
	if n > maxBatch {
		return 0, badRequest("keys: has %d entries (give at most %d)", n, maxBatch)
	}
	return n, nil
}

func checkColumns(m *stintv1.TakeBatchRequest, n int) error {
	for _, c := range [...]struct {
		name    string
		entries int
	}{
		{"limit", len(m.GetLimit())}, {"cost", len(m.GetCost())}, {"extra", len(m.GetExtra())},
		{"at_us", len(m.GetAtUs())}, {"any", len(m.GetAny())}, {"consistency", len(m.GetConsistency())},
		{"on_store_failure", len(m.GetOnStoreFailure())}, {"replicas", len(m.GetReplicas())},
		{"local_limit", len(m.GetLocalLimit())}, {"local_keys", len(m.GetLocalKeys())},
		{"max_delay_us", len(m.GetMaxDelayUs())},
	} {
		if err := checkColumn(c.name, c.entries, n); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) readLimits(s *Service, limits []*stintv1.Limit) error {
	if len(limits) > maxBatchLimits {
		return badRequest("limits: has %d entries (give at most %d)", len(limits), maxBatchLimits)
	}
	b.limits = sized(b.limits, len(limits))
	for i, l := range limits {
		limit, err := s.limit(l, i)
		if err != nil {
			return err
		}
		b.limits[i] = limit
	}
	return nil
}

// readClaim builds claim i from the columns. It does not validate the claim: the store
// does, for each group by itself.
func (b *batch) readClaim(s *Service, m *stintv1.TakeBatchRequest, i int) (err error) {
	c := &b.claims[i]
	if len(m.GetRawKeys()) > 0 {
		c.Key = string(m.GetRawKeys()[i])
	} else {
		c.Key = m.GetKeys()[i]
	}
	place := at(m.GetLimit(), i, 0)
	if uint64(place) >= uint64(len(b.limits)) {
		return badRequest("limit: entry %d is %d, and limits has %d entries", i, place, len(b.limits))
	}
	c.Limit = b.limits[place]
	c.Cost, c.Extra, c.At = at(m.GetCost(), i, 1), at(m.GetExtra(), i, 0), at(m.GetAtUs(), i, 0)
	c.MaxDelay = maxDelay(at(m.GetMaxDelayUs(), i, 0))
	if c.Cost == stint.Forget && !s.trusted() {
		return refuse("cost: to forget a key")
	}
	if c.Policy, err = policyOf(at(m.GetConsistency(), i, 0), at(m.GetOnStoreFailure(), i, 0), at(m.GetReplicas(), i, 0), i); err != nil {
		return err
	}
	if c.AnyOf, err = small("any", at(m.GetAny(), i, 0), i); err != nil {
		return err
	}
	if len(m.GetLocalLimit()) > 0 {
		c.Local, err = b.localAt(m, i)
	}
	return err
}

// maxDelay converts a bound in microseconds. A bound beyond the range of a
// time.Duration becomes the largest one, which exceeds every delay.
func maxDelay(us int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Microsecond)
	return time.Duration(min(max(us, -1), most)) * time.Microsecond
}

// localAt returns the local limit that replaces claim i while the store fails; nil if
// there is none.
func (b *batch) localAt(m *stintv1.TakeBatchRequest, i int) (*stint.Local, error) {
	place := at(m.GetLocalLimit(), i, 0)
	switch {
	case place == 0:
		return nil, nil //nolint:nilnil // a claim without a local limit has nil
	case uint64(place) > uint64(len(b.limits)):
		return nil, badRequest("local_limit: entry %d is %d, and limits has %d entries (1 is the first)", i, place, len(b.limits))
	}
	return &stint.Local{Key: string(at(m.GetLocalKeys(), i, nil)), Limit: b.limits[place-1]}, nil
}

// policyOf reads a policy.
func policyOf(c stintv1.Consistency, f stintv1.OnStoreFailure, replicas uint32, i int) (p stint.Policy, err error) {
	if c < 0 || c > stintv1.Consistency_CONSISTENCY_PARTITIONED {
		return p, badRequest("consistency: entry %d is %d, which is not known", i, c)
	}
	var ok bool
	if p.OnFailure, ok = onFailure(f); !ok {
		return p, badRequest("on_store_failure: entry %d is %d, which is not known", i, f)
	}
	p.Consistency = stint.Consistency(max(1, c) - 1)
	p.Replicas, err = small("replicas", replicas, i)
	return p, err
}

func small(column string, n uint32, i int) (uint8, error) {
	if n > math.MaxUint8 {
		return 0, badRequest("%s: entry %d is %d (give at most %d)", column, i, n, math.MaxUint8)
	}
	return uint8(n), nil
}

// readGroups splits the claims into groups. In the message a shadow observes the nearest
// group before it that is no shadow. Shadows before any group observe a group without
// claims, which is admitted and which the message does not have.
func (b *batch) readGroups(m *stintv1.TakeBatchRequest) error {
	sizes := m.GetGroupSizes()
	n := len(sizes)
	if n == 0 {
		n = len(b.claims)
	}
	if n > maxBatch {
		return badRequest("group_sizes: has %d entries (give at most %d)", n, maxBatch)
	}
	if err := checkColumn("shadow", len(m.GetShadow()), n); err != nil {
		return err
	}
	if err := checkOnces(m, n); err != nil {
		return err
	}
	b.groups, b.shadows, b.unsent = b.groups[:0], b.shadows[:0], 0
	rest := b.claims
	for i := range n {
		size := 1
		if len(sizes) > 0 {
			size = int(min(sizes[i], math.MaxInt32))
		}
		if size > len(rest) {
			return badRequest("group_sizes: more than the %d claims", len(b.claims))
		}
		b.addPart(rest[:size:size], at(m.GetShadow(), i, false))
		if ids := m.GetRequestIds(); len(ids) > 0 && len(ids[i]) > 0 && !at(m.GetShadow(), i, false) {
			b.groups[len(b.groups)-1].Once = onceAt(m, i)
		}
		rest = rest[size:]
	}
	if len(rest) > 0 {
		return badRequest("group_sizes: leaves %d of %d claims without a group", len(rest), len(b.claims))
	}
	return nil
}

// addPart adds claims as a group, or as a shadow of the last group.
func (b *batch) addPart(claims []stint.Claim, shadow bool) {
	if !shadow {
		b.groups = append(b.groups, stint.Group{Claims: claims})
		return
	}
	if len(b.groups) == 0 {
		b.groups, b.unsent = append(b.groups, stint.Group{}), 1
	}
	last := &b.groups[len(b.groups)-1]
	b.shadows = append(b.shadows, claims)
	last.Shadows = b.shadows[len(b.shadows)-len(last.Shadows)-1:]
}
