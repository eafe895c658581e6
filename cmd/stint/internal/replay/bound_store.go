package replay

import (
	"context"
	"errors"
	"time"

	"github.com/stintdev/stint"
)

// ErrMostKeys ends a replay that counts more than [Options.MostKeys] keys.
var ErrMostKeys = errors.New("the replay counts as many keys as it may")

// countEvery is the number of claims, and so of new keys at most, between two counts of the keys.
const countEvery = 4096

// boundStore is a memory store that fails once it has more keys than it may. It does not evict,
// because the counts of the replay would then be wrong. One goroutine uses it.
type boundStore struct {
	*stint.Memory

	most   int
	claims int // since the keys were counted
	full   bool
}

// newMemory returns a memory store that evicts nothing.
func (r *replay) newMemory(now func() time.Time) stint.Store {
	if r.options.MostKeys <= 0 {
		return memoryStore(now)
	}
	s := &boundStore{Memory: memoryStore(now), most: r.options.MostKeys}
	r.bounded = append(r.bounded, s)
	return s
}

// closeBounded returns the memory of bounded stores to the system. A program that bounds the
// keys goes on after the replay.
func (r *replay) closeBounded() {
	for _, s := range r.bounded {
		_ = s.Close() // of memory, which has no error
	}
}

// TakeGroups implements [stint.Store].
func (s *boundStore) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	n := 0
	for i := range groups {
		n += len(groups[i].Claims)
	}
	if err := s.check(n); err != nil {
		return err
	}
	return s.Memory.TakeGroups(ctx, groups, out)
}

// Take implements [stint.Store].
func (s *boundStore) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	if err := s.check(1); err != nil {
		return stint.Decision{}, err
	}
	return s.Memory.Take(ctx, c)
}

func (s *boundStore) check(claims int) error {
	if s.claims += claims; s.claims >= countEvery {
		s.claims, s.full = 0, s.Stats().Keys > s.most
	}
	if s.full {
		return ErrMostKeys
	}
	return nil
}
