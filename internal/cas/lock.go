package cas

import (
	"context"
	"time"
)

// mayLock reports whether the backend can lock the items of the round.
func (r *round) mayLock() bool {
	s := r.store
	return s.locker != nil && (len(r.keys) == 1 || s.transact != nil && len(r.keys) <= s.options.MaxBatch)
}

// locked decides the calls while no other node writes the items, if the backend can.
func (r *round) locked(ctx context.Context) step {
	decided := false
	r.shared = true
	swaps, err := r.store.transportOf(r.keys[0]).callLocked(ctx, r.keys, func(items []Item, now time.Time) []Swap {
		decided, r.now, r.recalled = true, now, false
		for i := range items {
			r.values[i] = loaded{Item: items[i]}
			r.values[i].decode()
		}
		if !r.decide() {
			return nil
		}
		return r.swaps
	})
	switch {
	case !decided && err == nil:
		err = garbled("took no lock and gave no reason")
		fallthrough
	case !decided:
		return r.failed(ctx, err)
	case len(r.swaps) == 0:
		return r.deliver
	}
	if len(swaps) == len(r.swaps) {
		r.swaps = swaps
	}
	_ = failures(r.swaps, err)
	return r.settle(ctx, time.Time{})
}
