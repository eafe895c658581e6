package envoyrls

import (
	"errors"
	"slices"

	"github.com/stintdev/stint"
)

// denyOverBudget turns failures of overrides into denials if the store failed only
// because its budget for callers' keys is used up. It returns false in all other
// cases. With an error instead, an Envoy that passes requests without an answer would
// let these through: a client could flood the budget with keys and so escape every
// override.
//
// The claims of a failed group were not charged. The other descriptors of the group
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

// deny denies the overrides among undecided claims, and drops the other limits.
func (p *plan) deny(from, to int) {
	clear(p.decisions[from:to])
	for i := range p.asked {
		if a := &p.asked[i]; a.applies() && a.claim >= from && a.claim < to && !a.limit.counted.FromCaller() {
			a.limit = nil
		}
	}
}
