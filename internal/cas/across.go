package cas

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// A backend without transactions writes the items of a group across identities one by one.
// If it loses one of them, the others must be undone. Until then, other callers see
// charges of a group that is not admitted; those may deny them, and never let them exceed
// a limit. The decisions themselves are made on all items together, so a group that is
// denied writes nothing.
//
// To undo a write, the store restores the states that were there before, if nobody has
// written the item since. Otherwise it refunds what was charged, which a leaky bucket
// ignores. A write stays if its outcome, or that of its undoing, is unknown, and so does one
// that has refunded units: made once more, it would refund them twice.
//
// The item that was lost last is written first and alone: contended items then cost no
// undoing. An item that remembers a group (stint.Once) is written last, and a round has one
// such group: a group that is remembered has charged all other items. What is remembered
// could not be undone after another node has written the item.
type pieces struct {
	store  *Store
	swaps  []Swap
	stamp  stamp
	writer *writer
	before []loaded // of each swap
	groups []stint.Group
	out    []stint.Decision

	horizon time.Duration
}

// writeEach makes the swaps of the round one by one, and sets one outcome for all of them.
func (r *round) writeEach(ctx context.Context) (now time.Time) {
	p := &pieces{store: r.store, swaps: r.swaps, stamp: r.stamp, writer: r.writer, groups: r.groups, out: slices.Clone(r.out), horizon: horizonOf(r.all)}
	for i := range r.swaps {
		p.before = append(p.before, *r.value(r.swaps[i].Key))
	}
	for _, phase := range r.phases() {
		now = p.write(ctx, phase)
		for _, i := range phase {
			if r.swaps[i].Outcome != Done {
				r.suspect = r.swaps[i].Key
				r.setOutcome(p.settle(ctx))
				return now
			}
		}
	}
	return now
}

// phases returns the indexes of the swaps in the order in which they are made.
func (r *round) phases() (phases [3][]int) {
	for i := range r.swaps {
		at := 1
		switch key := r.swaps[i].Key; {
		case r.remembers(key):
			at = 2
		case key == r.suspect:
			at = 0
		}
		phases[at] = append(phases[at], i)
	}
	return phases
}

// decidesAlone reports whether a group, or call, across identities needs a round of its own: where items
// are written one by one, only one of a round can be the last one.
func (s *Store) decidesAlone(once bool) bool { return once && s.transact == nil }

// remembers reports whether the item of a key may remember a group of the round.
func (r *round) remembers(key string) bool {
	for _, c := range r.calls {
		for i := range c.groups {
			if g := &c.groups[i]; g.Once != nil && len(g.Claims) > 0 && g.Claims[0].Key == key {
				return true
			}
		}
	}
	return false
}

// setOutcome gives all swaps of the round one outcome.
func (r *round) setOutcome(o Outcome, err error) {
	for i := range r.swaps {
		w := &r.swaps[i]
		w.Outcome, w.Err, w.Known = o, err, false
	}
}

// write makes some of the swaps at the same time, those of each shard in one call.
func (p *pieces) write(ctx context.Context, which []int) (now time.Time) {
	var mu sync.Mutex
	p.store.eachShard(which, func(i int) string { return p.swaps[i].Key }, func(t *transport, which []int) {
		swaps := make([]Swap, len(which))
		for j, i := range which {
			swaps[j] = p.swaps[i]
		}
		var at time.Time
		for batch := range slices.Chunk(swaps, p.store.options.MaxBatch) {
			at = t.callSwap(ctx, batch, p.store.backend.Swap)
		}
		mu.Lock()
		defer mu.Unlock()
		for j, i := range which {
			p.swaps[i] = swaps[j]
		}
		if at.After(now) {
			now = at
		}
	})
	return now
}

// eachShard calls f with the indexes of the keys of each shard, at the same time.
func (s *Store) eachShard(which []int, key func(i int) string, f func(t *transport, which []int)) {
	if s.sharded == nil {
		f(s.transports[0], which)
		return
	}
	shards := make([][]int, len(s.transports))
	var used []int
	for _, i := range which {
		at := s.sharded.ShardOf(key(i))
		if len(shards[at]) == 0 {
			used = append(used, at)
		}
		shards[at] = append(shards[at], i)
	}
	each(used, func(at int) { f(s.transports[at], shards[at]) })
}

// each calls f with each index at the same time.
func each(which []int, f func(i int)) {
	var all sync.WaitGroup
	for _, i := range which[min(1, len(which)):] {
		all.Go(func() { f(i) })
	}
	if len(which) > 0 {
		f(which[0])
	}
	all.Wait()
}

// settle undoes the swaps that were made although others were not, and returns the outcome
// of all of them. It goes on in the background if ctx ends first.
func (p *pieces) settle(ctx context.Context) (Outcome, error) {
	own := &pieces{store: p.store, swaps: slices.Clone(p.swaps), stamp: p.stamp, writer: p.writer, before: p.before, groups: p.groups, out: p.out, horizon: p.horizon}
	type outcome struct {
		o   Outcome
		err error
	}
	settled := make(chan outcome, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*p.store.options.Timeout)
		defer cancel()
		o, err := own.undo(ctx)
		settled <- outcome{o, err}
	}()
	select {
	case s := <-settled:
		return s.o, s.err
	case <-ctx.Done():
		return Unknown, storekit.Ended(ctx, true)
	}
}

// undo undoes all swaps that were made.
func (p *pieces) undo(ctx context.Context) (Outcome, error) {
	for i := range p.swaps {
		if w := &p.swaps[i]; w.Outcome == Unknown && w.Err != nil { // it was sent
			p.resolve(ctx, i)
		}
	}
	outcome, err := Lost, error(nil)
	var made []int
	for i := range p.swaps {
		switch w := &p.swaps[i]; {
		case w.Outcome == Done:
			made = append(made, i)
		case w.Outcome == Failed:
			outcome, err = Failed, w.Err
		case w.Outcome == Unknown && w.Err != nil:
			return Unknown, w.Err
		}
	}
	if len(made) == len(p.swaps) {
		return Done, nil
	}
	var mu sync.Mutex
	each(made, func(i int) {
		if failed := p.undoOne(ctx, i); failed != nil {
			mu.Lock()
			defer mu.Unlock()
			outcome, err = Unknown, notUndone(failed)
		}
	})
	return outcome, err
}

// resolve finds out what became of a swap without an answer.
func (p *pieces) resolve(ctx context.Context, i int) {
	w, unanswered := &p.swaps[i], p.swaps[i].Err
	for attempt := range maxLosses {
		now, err := p.store.loadDecoded(ctx, Load{Key: w.Key, Horizon: p.horizon, Settle: keptUntil(p.swaps, w.Key)})
		if err != nil || !now.ok {
			return
		}
		switch now.fateOf(p.stamp, w.Old) {
		case made:
			w.Outcome = Done
			return
		case notMade:
			w.Outcome, w.Err = Lost, nil
			return
		case stillDue:
			if pause(ctx, attempt+1); ctx.Err() != nil {
				return
			}
			w.Outcome = Unknown
			if p.store.transportOf(w.Key).swap(ctx, w); w.Outcome == Done {
				return
			}
			w.Outcome, w.Err = Unknown, unanswered
		case unclear:
			return
		}
	}
}

// restored returns the states that there were before a swap. A backend whose items have states of
// several ages may have read some that newer ones have replaced. So those are left out that the item does
// not have any more and that the calls have no limits of.
func (p *pieces) restored(i int, now *loaded) []byte {
	lives, before := p.swaps[i].Lives, p.before[i].item.states
	if lives == nil {
		return before
	}
	states, ok := storekit.SplitValue(before)
	left, readable := storekit.SplitValue(now.item.states)
	if !ok || !readable {
		return before
	}
	return storekit.JoinValue(slices.DeleteFunc(states, func(s storekit.StoredState) bool {
		_, claimed := lives[s.Scope]
		return !claimed && !slices.ContainsFunc(left, func(l storekit.StoredState) bool { return l.Scope == s.Scope })
	}))
}

// undoOne undoes a swap that was made. All attempts have one stamp, so an attempt without
// an answer is found again.
func (p *pieces) undoOne(ctx context.Context, i int) error {
	w := &p.swaps[i]
	by := p.writer.stamp()
	wanted := Load{Key: w.Key, Horizon: p.horizon}
	for attempt := range maxLosses {
		now, err := p.store.loadDecoded(ctx, wanted)
		switch {
		case err != nil:
			return err
		case !now.ok || len(now.item.writers) == 0:
			return nil // the item was lost, and the charge with it
		case now.item.writers[0] != p.stamp:
			switch fate := now.fateOf(by, 0); {
			case fate == made:
				return nil
			case fate == unclear && attempt > 0:
				return contended(attempt, nil)
			}
			return p.refund(ctx, w.Key)
		}
		back := Swap{Key: w.Key, Old: now.Version, Memo: now.Memo, Decided: w.Decided, Version: newVersion(), TTL: w.TTL, Value: now.item.encode(by, p.restored(i, &now)), Read: now.Value, Lives: w.Lives}
		if p.store.transportOf(w.Key).swap(ctx, &back); back.Outcome == Done {
			return nil
		}
		if pause(ctx, attempt); ctx.Err() != nil {
			return back.Err
		}
		wanted.Settle = keptUntil(p.swaps, w.Key)
	}
	return contended(maxLosses, nil)
}

// refund refunds what the groups have charged to one item.
func (p *pieces) refund(ctx context.Context, key string) error {
	c := &call{ctx: ctx, keys: []string{key}}
	out := p.out
	for i := range p.groups {
		for part := range p.groups[i].Parts() {
			claims := p.groups[i].Part(part)
			if refunds(claims, out[:len(claims)], key) {
				return errRefunded
			}
			c.groups = append(c.groups, refundsOf(claims, out[:len(claims)], key)...)
			out = out[len(claims):]
		}
	}
	c.claims = len(c.groups)
	c.out = make([]stint.Decision, c.claims)
	return p.store.take(c)
}

// errRefunded says that a refund stays: others may have used its units.
var errRefunded = errors.New("a refund cannot be undone")

// refunds reports whether an admitted part of a group has refunded units of an item.
func refunds(claims []stint.Claim, out []stint.Decision, key string) bool {
	return freshlyAdmitted(claims, out) && slices.ContainsFunc(claims, func(c stint.Claim) bool {
		return c.Key == key && c.Cost < 0 && c.Cost != stint.Forget
	})
}

// refundsOf returns the refunds of what an admitted part of a group has charged to an item.
func refundsOf(claims []stint.Claim, out []stint.Decision, key string) (refunds []stint.Group) {
	if !freshlyAdmitted(claims, out) {
		return nil
	}
	for i := range claims {
		if c, charged := storekit.RefundOf(claims[i], &out[i]); charged && c.Key == key {
			refunds = append(refunds, stint.Group{Claims: []stint.Claim{c}})
		}
	}
	return refunds
}

// loadDecoded reads one item.
func (s *Store) loadDecoded(ctx context.Context, wanted Load) (l loaded, err error) {
	err = retryThrottled(ctx, func() (err error) {
		l.Item, _, err = s.transportOf(wanted.Key).load(ctx, wanted)
		return err
	})
	if err == nil {
		l.decode()
	}
	return l, err
}
