package grpcapi

import (
	"context"
	"errors"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// round is one call of the store: checks and takes that are decided together, in
// order. It is pooled.
type round struct {
	service *Service
	rules   RuleSet
	items   []item
	claims  []stint.Claim // of the takes
	groups  []stint.Group
	out     []stint.Decision
	err     error   // of the whole call
	errs    []error // by group; nil without errors
	outcome rule.Outcome

	rows     []row // of a batch of checks, with its results below
	faces    []stint.Decision
	verdicts []verdict
}

// item is one check, or the group of one take.
type item struct {
	id      uint64
	err     error // why the item is invalid
	isCheck bool
	plan    rule.Plan // of a check
	claims  span      // of a take
	groups  span
	decided span
}

// span is an index range of a slice.
type span struct{ from, to int }

func part[E any](s []E, p span) []E { return s[p.from:p.to:p.to] }

func (s *Service) borrowRound() *round {
	r, ok := s.rounds.Get().(*round)
	if !ok {
		r = &round{service: s}
	}
	r.rules = s.options.Rules()
	return r
}

// end releases the plans, clears what identifies callers and puts the round back into
// the pool, unless it has grown large.
func (r *round) end() {
	for i := range r.items {
		if r.items[i].isCheck {
			r.items[i].plan.Release()
		}
	}
	clear(r.items)
	clear(r.claims)
	clear(r.groups)
	clear(r.rows)
	clear(r.outcome.Hits)
	r.items, r.claims, r.groups, r.rows = r.items[:0], r.claims[:0], r.groups[:0], r.rows[:0]
	r.outcome = rule.Outcome{Hits: r.outcome.Hits[:0]}
	r.rules, r.err, r.errs = nil, nil, nil
	if max(cap(r.items), cap(r.claims), cap(r.groups)) <= maxMessageSlots {
		r.service.rounds.Put(r)
	}
}

// addCheck adds a check of attributes, which must not change until the round ends.
func (r *round) addCheck(id uint64, a rule.Attributes, cost int64) {
	r.items = append(r.items, item{id: id, isCheck: true, plan: r.rules.RuleSet().Plan(a, cost)})
}

// addTake adds a take, or the error that makes it invalid.
func (r *round) addTake(id uint64, t *take) {
	from := len(r.claims)
	claims, err := t.appendClaims(r.service, r.claims)
	if err != nil {
		r.addWrong(id, err)
		return
	}
	r.claims = claims
	r.items = append(r.items, item{id: id, claims: span{from, len(claims)}})
}

// addWrong adds an invalid item, which is answered with err.
func (r *round) addWrong(id uint64, err error) {
	r.items = append(r.items, item{id: id, err: err})
}

// decide decides all items by one call of the store.
func (r *round) decide(ctx context.Context) {
	started, decided, wrong := time.Now(), 0, 0
	for i := range r.items {
		r.gather(&r.items[i], &decided)
		if r.items[i].err != nil {
			wrong++
		}
	}
	r.out = sized(r.out, decided)
	r.err = r.ask(ctx)
	if partial, ok := errors.AsType[*stint.GroupsError](r.err); ok && len(partial.Errs) == len(r.groups) {
		r.err, r.errs = nil, partial.Errs
	}
	r.service.options.Observe(time.Since(started), len(r.items)-wrong)
}

// gather appends the groups of an item. decided counts the decisions of all groups so
// far.
func (r *round) gather(it *item, decided *int) {
	it.groups.from, it.decided.from = len(r.groups), *decided
	switch {
	case it.isCheck:
		r.groups = it.plan.AppendGroups(r.groups)
	case it.err == nil:
		r.groups = append(r.groups, stint.Group{Claims: part(r.claims, it.claims)})
	}
	it.groups.to = len(r.groups)
	for _, g := range part(r.groups, it.groups) {
		*decided += len(g.Claims)
	}
	it.decided.to = *decided
}

// ask calls the store: not at all for no groups, with Take for a single claim, else
// with TakeGroups.
func (r *round) ask(ctx context.Context) (err error) {
	switch {
	case len(r.groups) == 0:
		return nil
	case len(r.groups) == 1 && len(r.out) == 1:
		r.out[0], err = r.service.options.Store.Take(ctx, r.groups[0].Claims[0])
		return err
	}
	return r.service.options.Store.TakeGroups(ctx, r.groups, r.out)
}

// check returns the outcome of a check and counts it. The outcome is valid until the
// next call of check.
func (r *round) check(it *item) (*rule.Outcome, error) {
	if r.err != nil && it.groups.from < it.groups.to {
		return nil, r.err
	}
	var errs []error
	if r.errs != nil {
		errs = part(r.errs, it.groups)
	}
	if err := it.plan.Settle(part(r.out, it.decided), errs, &r.outcome); err != nil {
		return nil, err
	}
	r.rules.Count(it.plan, &r.outcome)
	return &r.outcome, nil
}

// take returns the claims of a take and their decisions.
func (r *round) take(it *item) ([]stint.Claim, []stint.Decision, error) {
	switch {
	case it.err != nil:
		return nil, nil, it.err
	case r.err != nil:
		return nil, nil, r.err
	case r.errs != nil && r.errs[it.groups.from] != nil:
		return nil, nil, r.errs[it.groups.from]
	}
	return part(r.claims, it.claims), part(r.out, it.decided), nil
}
