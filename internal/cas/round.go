package cas

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
)

// A round decides some calls on one item, or on several in one transaction: it loads,
// decides and swaps, until the swap is made.
//
// A lost swap is tried again on the item that is there instead. The wait before that is
// random, and grows with each loss. After lossesBeforeLock losses the round locks the items
// if the backend can, and after maxLosses it fails with CodeContended: nothing was
// charged.
//
// A swap without an answer is the dangerous case: if it was made, another one would charge
// twice. The round reads the item again, whose stamps say whether the swap was made (see
// item). If that cannot be known yet, the round sends the very same swap again: at most
// one of the two can win, and it does not matter which. What cannot be resolved fails with
// CodeTimeout and keeps its charge.
type round struct {
	store  *Store
	all    []*call          // the calls
	calls  []*call          // those of all that this attempt decides
	groups []stint.Group    // of those calls
	out    []stint.Decision // of those calls
	err    error            // of those calls, as that of TakeGroups
	keys   []string
	writer *writer

	values   []loaded          // of keys
	stored   map[string][]byte // the states in values, by key
	recalled bool              // values are from the cache
	now      time.Time
	swaps    []Swap
	shared   bool // the backend has got swaps itself, and not a copy
	stamp    stamp

	losses    atomic.Int32
	suspect   string // the key that was lost last
	throttled int    // attempts that the server refused because it gets too many
}

// loaded is an item as it was read.
type loaded struct {
	Item

	item item
	ok   bool // it can be read
}

const (
	lossesBeforeLock = 3
	maxLosses        = 16
	maxThrottled     = 3
	firstBackoff     = time.Millisecond
	maxBackoff       = 32 * time.Millisecond
)

// writer is a source of writes that has one write of a key in flight at a time.
type writer struct {
	id   uint64
	last atomic.Uint64
}

func (w *writer) stamp() stamp { return stamp{w.id, w.last.Add(1)} }

func (s *Store) newRound(l *lane, calls ...*call) *round {
	r, ok := s.rounds.Get().(*round)
	if !ok {
		r = &round{}
	}
	r.store, r.all = s, append(r.all, calls...)
	switch l.key {
	case acrossLane:
		r.writer = &s.writers[1]
	case acrossLaneCaller:
		r.writer = &s.writers[2]
	default:
		r.writer = &s.writers[0]
	}
	return r
}

// release lets a later round use the memory of this one, whose calls have been answered. A batch may
// still have a copy of a load or a swap, which refers to nothing that is used again. A round of several
// items, or one that locked its item, has given away its own.
func (r *round) release() {
	if len(r.keys) > 1 || r.shared {
		return
	}
	clear(r.all)
	clear(r.calls)
	clear(r.values)
	clear(r.stored)
	clear(r.swaps[:cap(r.swaps)])
	s := r.store
	*r = round{all: r.all[:0], calls: r.calls[:0], values: r.values[:0], stored: r.stored, swaps: r.swaps[:0]}
	s.rounds.Put(r)
}

// run decides the calls of the round, or gives them an error. ctx is that of the caller
// who runs the round for itself, and has no end otherwise.
func (r *round) run(ctx context.Context) {
	r.calls = append(r.calls, r.all...)
	r.setKeys()
	next := r.load
	for next != nil {
		next = next(ctx)
	}
}

// runForAll runs the round on behalf of callers that wait. It ends with the latest of their
// deadlines, so that nothing waits to be sent for callers that have left.
func (r *round) runForAll() {
	ctx, latest := context.Background(), time.Time{}
	for _, c := range r.all {
		deadline, ok := c.ctx.Deadline()
		if !ok {
			r.run(ctx)
			return
		}
		if deadline.After(latest) {
			latest = deadline
		}
	}
	ctx, cancel := context.WithDeadline(ctx, latest)
	defer cancel()
	r.run(ctx)
}

// A step is one step of a round. It returns the next one, or nil at the end.
type step func(context.Context) step

// setKeys collects the keys of the calls. Those of the lane of an item have the same one.
func (r *round) setKeys() {
	if len(r.calls) == 1 || r.writer == &r.store.writers[0] {
		r.keys = r.calls[0].keys
		return
	}
	for _, c := range r.calls {
		r.keys = append(r.keys, c.keys...)
	}
	slices.Sort(r.keys)
	r.keys = slices.Compact(r.keys)
}

// load reads the items, unless the node remembers them.
func (r *round) load(ctx context.Context) step {
	if r.recall() {
		return r.decideAndSwap
	}
	if err := r.read(ctx, nil); err != nil {
		return r.failed(ctx, err)
	}
	return r.decideAndSwap
}

// read reads the items. They settle what became of swaps whose outcome is unknown.
func (r *round) read(ctx context.Context, unknown []Swap) (err error) {
	r.recalled = false
	if len(r.keys) == 1 {
		r.values = append(r.values[:0], loaded{})
		r.values[0].Item, r.now, err = r.store.transportOf(r.keys[0]).load(ctx, Load{Key: r.keys[0], Horizon: horizonOf(r.all), New: unknown == nil && r.losses.Load() == 0 && chargesNew(r.calls), Settle: keptUntil(unknown, r.keys[0])})
		r.values[0].decode()
		return err
	}
	return r.readAll(ctx, unknown)
}

// readAll reads several items, those of each shard in one call.
func (r *round) readAll(ctx context.Context, unknown []Swap) (err error) {
	r.values = make([]loaded, len(r.keys))
	which := make([]int, len(r.keys))
	for i := range which {
		which[i] = i
	}
	r.now = time.Time{}
	horizon := horizonOf(r.all)
	var mu sync.Mutex
	r.store.eachShard(which, func(i int) string { return r.keys[i] }, func(t *transport, which []int) {
		loads := make([]Load, len(which))
		for j, i := range which {
			loads[j].Key, loads[j].Horizon, loads[j].Settle = r.keys[i], horizon, keptUntil(unknown, r.keys[i])
		}
		now, failed := t.callLoads(ctx, loads)
		mu.Lock()
		defer mu.Unlock()
		for j, i := range which {
			r.values[i].Item = loads[j].Item
			r.values[i].decode()
		}
		if now.After(r.now) {
			r.now = now
		}
		if err == nil {
			err = failed
		}
	})
	return err
}

// keptUntil returns the time until which the swap of a key would be kept, or the zero time if there is none.
func keptUntil(swaps []Swap, key string) (t time.Time) {
	if at := slices.IndexFunc(swaps, func(w Swap) bool { return w.Key == key }); at >= 0 {
		return swaps[at].Decided.Add(swaps[at].TTL)
	}
	return t
}

// fateOf says what became of a write: see [item.fateOf].
func (l *loaded) fateOf(by stamp, old uint64) fate {
	f := l.item.fateOf(by, old, l.Version)
	if f == stillDue && l.Settled {
		return notMade
	}
	return f
}

func (l *loaded) decode() {
	l.item, l.ok = decodeItem(l.Value)
	l.ok = l.ok && (len(l.Value) > 0 || l.Version == 0)
}

// decideAndSwap decides the calls on the items that were read, and writes what they change.
func (r *round) decideAndSwap(context.Context) step {
	if r.losses.Load() >= lossesBeforeLock && r.mayLock() {
		return r.locked
	}
	if !r.decide() {
		if r.recalled && len(r.calls) > 0 { // no swap confirms the item
			r.back()
			return r.load
		}
		return r.deliver
	}
	return r.send
}

// send sends the swaps.
func (r *round) send(ctx context.Context) step { return r.settle(ctx, r.write(ctx)) }

// write makes the swaps, and returns the time of the server if it has one.
func (r *round) write(ctx context.Context) (now time.Time) {
	if len(r.swaps) == 1 {
		return r.store.transportOf(r.swaps[0].Key).swap(ctx, &r.swaps[0])
	}
	if r.inPieces() {
		return r.writeEach(ctx)
	}
	return r.store.transports[0].callSwap(ctx, r.swaps, r.store.transact.SwapAll)
}

// inPieces reports whether the swaps cannot be one transaction.
func (r *round) inPieces() bool {
	return len(r.swaps) > 1 && (r.store.transact == nil || len(r.swaps) > r.store.options.MaxBatch)
}

// settle continues as the outcome of the swaps demands. All swaps of a transaction have the
// same.
func (r *round) settle(ctx context.Context, now time.Time) step {
	first := &r.swaps[0]
	switch first.Outcome {
	case Done:
		if r.recalled {
			r.store.counts.remembered.Add(1)
		}
		r.remember()
		return r.deliver
	case Lost:
		return r.lost(ctx, now)
	case Failed:
		r.back()
		return r.failed(ctx, first.Err)
	case Unknown:
	}
	if r.inPieces() { // they have been resolved as far as possible
		return r.end(first.Err)
	}
	return r.resolve
}

// lost tries again on the items that are there instead.
func (r *round) lost(ctx context.Context, now time.Time) step {
	r.back()
	if !now.IsZero() && now.Before(r.swaps[0].NotBefore) {
		r.store.counts.early.Add(1)
		return r.load
	}
	losses := r.losses.Add(1)
	r.store.counts.lost.Add(1)
	if losses >= maxLosses || !pause(ctx, int(losses)) {
		return r.end(contended(int(losses), ctx.Err()))
	}
	known := true
	for i := range r.swaps {
		w := &r.swaps[i]
		known = known && w.Known
		if at, found := slices.BinarySearch(r.keys, w.Key); found && w.Known {
			r.values[at] = loaded{Item: w.Current}
			r.values[at].decode()
		}
	}
	if !known || len(r.keys) > len(r.swaps) || losses > 1 { // after a pause the items may have changed again
		return r.load
	}
	if now.IsZero() && !r.now.IsZero() {
		return r.load // the backend tells its time with loads alone
	}
	r.now, r.recalled = now, false
	return r.decideAndSwap
}

// pause waits for a random time before the next attempt. It returns false if ctx has
// ended. The first loss needs no wait.
func pause(ctx context.Context, losses int) bool {
	if losses <= 1 {
		return ctx.Err() == nil
	}
	longest := min(firstBackoff<<min(losses-2, 10), maxBackoff)
	timer := time.NewTimer(rand.N(longest) + longest/4)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// failed continues after an error that left nothing charged.
func (r *round) failed(ctx context.Context, err error) step {
	if isThrottled(err) {
		r.store.counts.throttled.Add(1)
		if r.throttled++; r.throttled <= maxThrottled && pause(ctx, 2+r.throttled) {
			return r.load
		}
	}
	if r.losses.Load() > 0 && ctx.Err() != nil {
		err = contended(int(r.losses.Load()), ctx.Err())
	}
	return r.end(err)
}

// retryThrottled calls f again, a bounded number of times, while the server asks for fewer
// calls.
func retryThrottled(ctx context.Context, f func() error) error {
	err := f()
	for attempt := 0; attempt < maxThrottled && isThrottled(err) && pause(ctx, 3+attempt); attempt++ {
		err = f()
	}
	return err
}

func isThrottled(err error) bool {
	e, ok := errors.AsType[*stint.Error](err)
	return ok && e.Kind == KindThrottled
}

// back marks the calls as not charged.
func (r *round) back() {
	for _, c := range r.calls {
		c.back()
	}
}

// end gives all calls that have not been answered an error.
func (r *round) end(err error) step {
	for _, c := range r.calls {
		c.err = err
	}
	return nil
}

// deliver gives each call its decisions and errors.
func (r *round) deliver(context.Context) step {
	r.share()
	return nil
}
