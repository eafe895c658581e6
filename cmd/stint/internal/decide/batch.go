package decide

import (
	"context"
	"errors"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// batch is the work of one API request: one check, one take, or many of both. One call to
// the store decides all of its items in order. A batch is pooled and serves one request
// at a time.
type batch struct {
	server  *Server
	version *version // the rule set of the whole batch
	texts   texts

	items     []item
	asks      []*ask        // reused buffers, one per item
	claims    []stint.Claim // of all takes
	groups    []stint.Group
	decisions []stint.Decision
	outcome   rule.Outcome // reused for each check in turn

	err  error   // set if no group was decided
	errs []error // by group; nil if no group failed
}

// item is one check or take of a batch.
type item struct {
	isCheck   bool
	plan      rule.Plan // of a check
	err       error     // why the item could not be read
	groups    span
	decisions span
}

// span is an index range of a slice.
type span struct{ from, to int }

// begin prepares the batch for a request.
func (b *batch) begin() { b.version = b.server.rules.current.Load() }

// end drops the data of a request but keeps the allocated slices.
func (b *batch) end() {
	for i := range b.items {
		if b.items[i].isCheck {
			b.items[i].plan.Release()
		}
		b.asks[i].reset()
	}
	clear(b.items)
	clear(b.claims)
	clear(b.groups)
	clear(b.outcome.Hits)
	b.items, b.claims, b.groups, b.decisions = b.items[:0], b.claims[:0], b.groups[:0], b.decisions[:0]
	b.outcome = rule.Outcome{Hits: b.outcome.Hits[:0]}
	b.version, b.err, b.errs = nil, nil, nil
}

// read parses one item, an object of the known members, and calls add to append its
// claims. An invalid item stays in the batch with its error.
func (b *batch) read(raw []byte, known members, add func(*batch, *ask) error) error {
	n := len(b.items)
	b.items = append(b.items, item{groups: span{len(b.groups), len(b.groups)}, decisions: span{len(b.decisions), len(b.decisions)}})
	if n == len(b.asks) {
		b.asks = append(b.asks, new(ask))
	}
	err := b.asks[n].read(raw, known, b.server.limits, &b.texts)
	if err == nil {
		err = add(b, b.asks[n])
	}
	b.items[n].err = err
	return err
}

// plan makes the last item a check. The plan keeps a reference to the attributes.
func (b *batch) plan(a rule.Attributes, cost int64) error {
	if err := b.server.rules.checkPath(a); err != nil {
		return err
	}
	last := &b.items[len(b.items)-1]
	last.isCheck, last.plan = true, b.version.set.Plan(a, cost)
	b.groups = last.plan.AppendGroups(b.groups)
	b.makeRoom(last)
	return nil
}

// group makes the last item a take of the claims.
func (b *batch) group(claims []stint.Claim) {
	b.groups = append(b.groups, stint.Group{Claims: claims})
	b.makeRoom(&b.items[len(b.items)-1])
}

// makeRoom assigns to an item the groups appended since it began, and reserves a decision
// for each of their claims.
func (b *batch) makeRoom(i *item) {
	i.groups.to = len(b.groups)
	for _, g := range b.groups[i.groups.from:] {
		b.decisions = append(b.decisions, make([]stint.Decision, len(g.Claims))...)
	}
	i.decisions.to = len(b.decisions)
}

// decide decides all items in one store call. Every item records the same duration: the
// time since started, when the body had been read.
func (b *batch) decide(ctx context.Context, started time.Time) {
	if len(b.groups) > 0 {
		err := b.askStore(ctx)
		if groups, ok := errors.AsType[*stint.GroupsError](err); ok && len(groups.Errs) == len(b.groups) {
			b.errs = groups.Errs
		} else {
			b.err = err
		}
	}
	b.observe(time.Since(started))
}

// askStore calls the store. A single claim goes through Take, which stores answer in
// fewer steps and can batch with claims of other requests.
func (b *batch) askStore(ctx context.Context) (err error) {
	if first := &b.groups[0]; len(b.groups) == 1 && len(first.Claims) == 1 && !first.Shadow {
		b.decisions[0], err = b.server.rules.store.Take(ctx, first.Claims[0])
		return err
	}
	return b.server.rules.store.TakeGroups(ctx, b.groups, b.decisions)
}
