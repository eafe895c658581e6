package envoyrls

import (
	"errors"
	"slices"

	"github.com/stintdev/stint"
)

// denyOverBudget turns the refusals of overrides that the store has no room for
// into denials, and reports whether they are all that failed. An error would let
// these requests pass at an Envoy that passes what it gets no answer to: whoever
// floods the budget with keys would be rid of every override.
//
// What was asked together with such an override was not charged. Its descriptors
// are answered as if no limit applied to them.
func (p *plan) denyOverBudget(err error) bool {
	errs := p.errorsOfGroups(err)
	if !slices.ContainsFunc(errs, isOverBudget) || slices.ContainsFunc(errs, func(err error) bool { return err != nil && !isOverBudget(err) }) {
		return false
	}
	from := 0
	for i := range p.groups {
		to := from + len(p.groups[i].Claims)
		if errs[i] != nil {
			p.deny(from, to)
		}
		from = to
	}
	return true
}

// errorsOfGroups returns one error for each group.
func (p *plan) errorsOfGroups(err error) []error {
	if groups, ok := errors.AsType[*stint.GroupsError](err); ok && len(groups.Errs) == len(p.groups) {
		return groups.Errs
	}
	return slices.Repeat([]error{err}, len(p.groups))
}

func isOverBudget(err error) bool {
	e, ok := errors.AsType[*stint.Error](err)
	return ok && e.Kind == stint.KindCallerBudget
}

// deny denies the overrides among some claims, which were not decided.
func (p *plan) deny(from, to int) {
	clear(p.decisions[from:to])
	for i := range p.asked {
		if a := &p.asked[i]; a.applies() && a.claim >= from && a.claim < to && !a.limit.counted.FromCaller() {
			a.limit = nil
		}
	}
}
