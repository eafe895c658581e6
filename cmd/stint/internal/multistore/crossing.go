package multistore

import (
	"cmp"
	"context"
	"slices"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/crossgroup"
	"github.com/stintdev/stint/storekit"
)

// crossing is a group whose claims lie in several stores, cut into units that each lie in
// one.
//
// The units are taken one after the other, by the names of their stores. All nodes have this
// order, so two groups that compete for the last units of two stores cannot deny each other:
// the one that gets the first store gets the second too. A denial ends the taking: what
// was charged is refunded, and the units that are left are only asked, for the answer.
//
// A place in a leaky bucket's queue, and a refund, cannot be undone. Units with such claims
// are asked before anything is charged, and taken last. Such a claim stays charged only if a
// second such unit denies the group after all.
type crossing struct {
	*crossgroup.Cut

	store  *Store
	ctx    context.Context //nolint:containedctx // it lives as long as its call
	group  *stint.Group
	places []int  // by unit: the index of its store
	order  []int  // the units in the order in which they are taken
	took   []bool // by unit: it was taken, and may be charged
	denied bool   // a unit has denied the group
}

// newCrossing cuts a group. An error says that the group is invalid.
func (s *Store) newCrossing(ctx context.Context, g *stint.Group, out []stint.Decision) (*crossing, error) {
	if err := stint.ValidateClaims(g.Claims); err != nil {
		return nil, err
	}
	if g.Repeatable() {
		if err := g.Once.Validate(); err != nil {
			return nil, err
		}
	}
	places := make([]int, len(g.Claims))
	for i := range g.Claims {
		at, err := s.placeOf(&g.Claims[i])
		if err != nil {
			return nil, err
		}
		places[i] = at
	}
	x := &crossing{Cut: crossgroup.New(g.Claims, out, places), store: s, ctx: ctx, group: g}
	x.took = make([]bool, len(x.Units))
	for i := range x.Units {
		x.places, x.order = append(x.places, places[x.PlacesOf(i)[0]]), append(x.order, i)
	}
	slices.SortStableFunc(x.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(x.final(a), x.final(b)), cmp.Compare(x.places[a], x.places[b]))
	})
	return x, nil
}

// final returns 1 for a unit with a claim that cannot be refunded, and 0 for any other.
func (x *crossing) final(unit int) int {
	if crossgroup.Returnable(x.Units[unit].Claims) {
		return 0
	}
	return 1
}

func (x *crossing) decide() error {
	switch {
	case x.group.Dry:
		return x.askAll()
	case x.group.Repeatable():
		return x.decideOnce()
	}
	for _, unit := range x.order {
		if x.final(unit) == 1 {
			if err := x.ask(unit); err != nil {
				return err
			}
		}
	}
	for _, unit := range x.order {
		if err := x.take(unit); err != nil {
			x.took[unit] = false // the charge of a call without an answer stays
			x.refund()
			return err
		}
	}
	if x.Gather(); !x.Admitted() {
		x.refund()
	}
	return nil
}

// askAll decides all units, and charges nothing.
func (x *crossing) askAll() error {
	for _, unit := range x.order {
		if err := x.ask(unit); err != nil {
			return err
		}
	}
	x.Gather()
	return nil
}

// ask decides a unit, and charges nothing.
func (x *crossing) ask(unit int) error {
	return x.send(unit, stint.Group{Claims: x.Units[unit].Claims, Dry: true}, x.OutOf(unit))
}

// take charges a unit, unless the group is denied already.
func (x *crossing) take(unit int) error {
	x.took[unit] = !x.denied
	return x.send(unit, stint.Group{Claims: x.Units[unit].Claims, Dry: x.denied}, x.OutOf(unit))
}

// send sends a group to the store of a unit.
func (x *crossing) send(unit int, g stint.Group, out []stint.Decision) error {
	err := partError(x.store.stores[x.places[unit]].TakeGroups(x.ctx, []stint.Group{g}, out))
	if err == nil && !x.Scattered(unit) && !admitted(g.Claims, out) {
		x.denied = true
	}
	return err
}

// refund refunds what the units have charged, and updates the answers of those claims. It is
// done even if the caller's context has ended.
func (x *crossing) refund() {
	ctx := context.WithoutCancel(x.ctx)
	for unit, took := range x.took {
		if !took {
			continue
		}
		refunds, from := x.Charged(unit)
		if len(refunds) == 0 {
			continue
		}
		out := make([]stint.Decision, len(refunds))
		errs, whole := storekit.PartErrors(x.store.stores[x.places[unit]].TakeGroups(ctx, refunds, out), len(refunds))
		for i := range out {
			if whole != nil || errs != nil && errs[i] != nil || out[i].Degraded {
				x.store.kept.Add(1)
				out[i] = stint.Decision{}
			}
		}
		x.Refunded(from, out)
	}
}
