package cas

import "context"

// resolve finds out what became of swaps without an answer.
func (r *round) resolve(ctx context.Context) step {
	unknown := r.swaps[0]
	r.store.counts.unknown.Add(1)
	if retryThrottled(ctx, func() error { return r.read(ctx, r.swaps) }) != nil {
		return r.end(unknown.Err)
	}
	switch r.fate() {
	case made:
		return r.deliver
	case notMade:
		r.back()
		r.losses.Add(1)
		return r.decideAndSwap
	case stillDue:
		if r.losses.Add(1) < maxLosses && pause(ctx, int(r.losses.Load())) {
			return r.again
		}
	case unclear:
	}
	return r.end(unknown.Err)
}

// fate says what became of swaps whose answer was lost, from the items as they are now. The
// swaps are a transaction, so one item that tells is enough.
func (r *round) fate() fate {
	all := stillDue
	for i := range r.swaps {
		w := &r.swaps[i]
		now := r.value(w.Key)
		if !now.ok {
			return unclear
		}
		switch f := now.fateOf(r.stamp, w.Old); f {
		case made, notMade:
			return f
		case unclear:
			all = unclear
		case stillDue:
		}
	}
	return all
}

// again sends swaps whose answer was lost once more. If the first ones were made, or are
// made after all, these are lost, and the stamp in the item tells.
func (r *round) again(ctx context.Context) step {
	unanswered := r.swaps[0].Err
	for i := range r.swaps {
		w := &r.swaps[i]
		w.Outcome, w.Known, w.Current, w.Err = Unknown, false, Item{}, nil
	}
	r.write(ctx)
	w := &r.swaps[0]
	if w.Outcome == Done {
		return r.deliver
	}
	w.Err = unanswered // also if these were not sent: the first ones may be made
	return r.resolve
}
