package cas

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/coalesce"
	"github.com/stintdev/stint/storekit"
)

// transport takes loads and swaps of many rounds to one shard in few calls of the backend.
type transport struct {
	store *Store
	shard string
	loads *coalesce.Batcher[loadCall, *loadBatch]
	swaps *coalesce.Batcher[swapCall, *swapBatch]
	clock serverClock

	up      atomic.Bool // the last call was answered
	stopped atomic.Bool // nothing is sent

	probe  sync.Once
	probed string // see probeKey

	loadPool, swapPool sync.Pool
}

func newTransport(s *Store, shard string) *transport {
	t := &transport{store: s, shard: shard}
	o := coalesce.Options{Full: s.options.MaxBatch, InFlight: s.options.InFlight, Gather: true}
	t.loads = coalesce.New(o, func() *loadBatch { return &loadBatch{transport: t} })
	t.swaps = coalesce.New(o, func() *swapBatch { return &swapBatch{transport: t} })
	return t
}

// loadCall is the load of one key.
type loadCall struct {
	coalesce.Call[loadCall]

	load Load
	now  time.Time
	err  error
}

// swapCall is the swap of one key.
type swapCall struct {
	coalesce.Call[swapCall]

	swap Swap
	now  time.Time
}

// load reads one item.
func (t *transport) load(ctx context.Context, wanted Load) (item Item, now time.Time, err error) {
	c, ok := t.loadPool.Get().(*loadCall)
	if !ok {
		c = &loadCall{}
		c.Init(c)
	}
	c.load = wanted
	t.loads.Send(ctx, &c.Call, true)
	switch c.Wait(ctx) {
	case coalesce.Abandoned:
		return item, now, storekit.Ended(ctx, false) // a load charges nothing
	case coalesce.Withdrawn:
		err = storekit.Ended(ctx, false)
	case coalesce.Answered:
		item, now, err = c.load.Item, c.now, c.err
	}
	c.load, c.now, c.err = Load{}, time.Time{}, nil
	t.loadPool.Put(c)
	return item, now, err
}

// swap makes one swap, and sets its outcome.
func (t *transport) swap(ctx context.Context, swap *Swap) (now time.Time) {
	c, ok := t.swapPool.Get().(*swapCall)
	if !ok {
		c = &swapCall{}
		c.Init(c)
	}
	c.swap = *swap
	t.swaps.Send(ctx, &c.Call, true)
	switch c.Wait(ctx) {
	case coalesce.Abandoned:
		swap.Outcome, swap.Err = Unknown, storekit.Ended(ctx, true)
		return time.Time{}
	case coalesce.Withdrawn:
		swap.Outcome, swap.Err = Failed, storekit.Ended(ctx, false)
	case coalesce.Answered:
		*swap, now = c.swap, c.now
	}
	c.swap, c.now = Swap{}, time.Time{}
	t.swapPool.Put(c)
	return now
}

// loadBatch is a batch of loads.
type loadBatch struct {
	transport *transport
	count     int
	loads     []Load
	at        map[string]int // index in loads, once a key may occur twice
}

// Fits implements [coalesce.Batch].
func (b *loadBatch) Fits(*loadCall) bool {
	if b.count >= b.transport.store.options.MaxBatch {
		return false
	}
	b.count++
	return true
}

// Run implements [coalesce.Batch]. A key may occur twice: that of a group that is undone
// while a round reads its item.
func (b *loadBatch) Run(ctx context.Context, calls []*coalesce.Call[loadCall]) {
	b.loads = make([]Load, 0, len(calls))
	for _, call := range calls {
		b.loads = append(b.loads, call.Owner.load)
	}
	if len(calls) > 1 {
		b.index()
	}
	now, err := b.transport.callLoad(ctx, b.loads)
	for i, call := range calls {
		c := call.Owner
		if len(calls) > 1 {
			i = b.at[c.load.Key]
		}
		c.load.Item, c.err, c.now = b.loads[i].Item, b.loads[i].Err, now
		if err != nil {
			c.load.Item, c.err = Item{}, err
		}
	}
}

// index sorts the loads and keeps one of equal keys, with the greatest horizon. It settles what one of
// them is to settle.
func (b *loadBatch) index() {
	slices.SortFunc(b.loads, func(x, y Load) int {
		return cmp.Or(strings.Compare(x.Key, y.Key), cmp.Compare(uint64(y.Horizon-1), uint64(x.Horizon-1))) // 0 is the greatest
	})
	kept := b.loads[:1]
	for _, l := range b.loads[1:] {
		if last := &kept[len(kept)-1]; last.Key == l.Key {
			if l.Settle.After(last.Settle) {
				last.Settle = l.Settle
			}
		} else {
			kept = append(kept, l)
		}
	}
	b.loads = kept
	if b.at == nil {
		b.at = map[string]int{}
	}
	for i := range b.loads {
		b.at[b.loads[i].Key] = i
	}
}

// Reset implements [coalesce.Batch]. The backend may still use the loads of a call that it
// gave up.
func (b *loadBatch) Reset() {
	clear(b.at)
	b.count, b.loads = 0, nil
}

// swapBatch is a batch of swaps.
type swapBatch struct {
	transport *transport
	keys      map[string]bool
	swaps     []Swap
}

// Fits implements [coalesce.Batch].
func (b *swapBatch) Fits(c *swapCall) bool {
	if b.keys == nil {
		b.keys = map[string]bool{}
	}
	if len(b.keys) >= b.transport.store.options.MaxBatch || b.keys[c.swap.Key] {
		return false
	}
	b.keys[c.swap.Key] = true
	return true
}

// Run implements [coalesce.Batch].
func (b *swapBatch) Run(ctx context.Context, calls []*coalesce.Call[swapCall]) {
	slices.SortFunc(calls, func(x, y *coalesce.Call[swapCall]) int { return strings.Compare(x.Owner.swap.Key, y.Owner.swap.Key) })
	b.swaps = make([]Swap, 0, len(calls))
	for _, call := range calls {
		b.swaps = append(b.swaps, call.Owner.swap)
	}
	now := b.transport.callSwap(ctx, b.swaps, b.transport.store.backend.Swap)
	for i, call := range calls {
		call.Owner.swap, call.Owner.now = b.swaps[i], now
	}
}

// Reset implements [coalesce.Batch].
func (b *swapBatch) Reset() {
	clear(b.keys)
	b.swaps = nil
}

// callLoad is one call of the backend's Load.
func (t *transport) callLoad(ctx context.Context, loads []Load) (now time.Time, err error) {
	if t.stopped.Load() {
		return now, t.refusal()
	}
	ctx, cancel := t.store.within(ctx)
	defer cancel()
	ctx, start := t.start(ctx, len(loads))
	sent := time.Now()
	now, err = t.store.backend.Load(ctx, loads)
	if err == nil {
		t.clock.learn(sent, time.Now(), now)
	}
	first := err
	for i := 0; first == nil && i < len(loads); i++ {
		first = loads[i].Err
	}
	t.finish(ctx, start, len(loads), first)
	return now, err
}

// callLoads is callLoad for as many keys as there are, which are all needed.
func (t *transport) callLoads(ctx context.Context, loads []Load) (now time.Time, err error) {
	for most := t.store.options.MaxBatch; len(loads) > 0; {
		batch := loads[:min(most, len(loads))]
		loads = loads[len(batch):]
		if now, err = t.callLoad(ctx, batch); err != nil {
			return now, err
		}
		for i := range batch {
			if batch[i].Err != nil {
				return now, batch[i].Err
			}
		}
	}
	return now, nil
}

// callSwap is one call of a method that makes swaps.
func (t *transport) callSwap(ctx context.Context, swaps []Swap, method func(context.Context, []Swap) (time.Time, error)) (now time.Time) {
	if t.stopped.Load() {
		_ = failures(swaps, t.refusal())
		return now
	}
	ctx, cancel := t.store.within(ctx)
	defer cancel()
	ctx, start := t.start(ctx, len(swaps))
	sent := time.Now()
	now, err := method(ctx, swaps)
	if err == nil && !now.IsZero() { // some backends tell their time with loads alone
		t.clock.learn(sent, time.Now(), now)
	}
	t.finish(ctx, start, len(swaps), failures(swaps, err))
	t.store.countSwaps(swaps)
	return now
}

// callLocked is one call of the backend's Locked.
func (t *transport) callLocked(ctx context.Context, keys []string, decide func([]Item, time.Time) []Swap) ([]Swap, error) {
	if t.stopped.Load() {
		return nil, t.refusal()
	}
	ctx, cancel := t.store.within(ctx)
	defer cancel()
	t.store.counts.locked.Add(1)
	ctx, start := t.start(ctx, len(keys))
	swaps, err := t.store.locker.Locked(ctx, keys, decide)
	t.finish(ctx, start, len(keys), err)
	t.store.countSwaps(swaps)
	return swaps, err
}

// within returns a context that ends after the timeout of a call at the latest.
func (s *Store) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= s.options.Timeout {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.options.Timeout)
}

// failures gives each swap that was neither done nor lost an error, and returns the first
// one.
func failures(swaps []Swap, err error) (first error) {
	for i := range swaps {
		w := &swaps[i]
		if w.Outcome == Done || w.Outcome == Lost {
			continue
		}
		if w.Err == nil && err != nil {
			if w.Err = err; nothingWritten(err) {
				w.Outcome = Failed
			}
		}
		if w.Err == nil {
			w.Err = &stint.Error{Code: stint.CodeInternal, Kind: stint.KindGarbled, Problem: "the backend of the store gave no reason for a write that failed"}
		}
		if first == nil {
			first = w.Err
		}
	}
	return first
}

// nothingWritten reports whether an error of a whole call says that no swap was made.
func nothingWritten(err error) bool {
	switch stint.CodeOf(err) {
	case stint.CodeUnavailable, stint.CodeExhausted, stint.CodeInvalid:
		return true
	}
	return false
}

// start reports that a call of the backend begins, and returns its context.
func (t *transport) start(ctx context.Context, keys int) (context.Context, time.Time) {
	o := t.store.options.Observer
	if o == nil {
		return ctx, time.Time{}
	}
	return o.Start(ctx, t.event(keys)), time.Now()
}

// finish reports that the call has ended, with its first error.
func (t *transport) finish(ctx context.Context, start time.Time, keys int, err error) {
	t.note(err)
	if o := t.store.options.Observer; o != nil {
		e := t.event(keys)
		e.EndStoreCall(time.Since(start), err)
		o.Observe(ctx, e)
	}
}

func (t *transport) event(keys int) stint.Event {
	return stint.Event{Kind: stint.EventStoreCall, Name: t.store.options.Name, Shard: t.shard, Claims: keys}
}
