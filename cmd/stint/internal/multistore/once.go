package multistore

import (
	"crypto/sha256"
	"errors"
	"slices"

	"github.com/stintdev/stint"
)

// A group that may be repeated ([stint.Once]) is remembered unit by unit: each store remembers
// what it charged, in the same atomic step as the charge. A repeat after a crash gets the units
// that were charged from their stores, and charges the others, so each is charged once.
//
// A store forgets no unit early, so a unit that is charged stays charged: if its charge were
// refunded, a repeat of the group would find the record and get the unit for nothing. The
// units are therefore all asked before one is charged. A unit stays charged after a denial
// only if another caller took the rest of a later unit between the two. It is then paid for a
// repeat with the same ID.

// decideOnce decides a group that may be repeated.
func (x *crossing) decideOnce() error {
	if err := x.askAll(); err != nil {
		return err
	}
	if !x.Admitted() {
		if known, err := x.known(x.order[0]); !known || err != nil {
			return err
		}
	}
	x.denied = false
	for _, unit := range x.order {
		if err := x.takeOnce(unit); err != nil {
			return err
		}
	}
	if x.Gather(); !x.Admitted() {
		for unit, took := range x.took {
			if charged, _ := x.Charged(unit); took && !repeated(x.OutOf(unit)) {
				x.store.kept.Add(uint64(len(charged)))
			}
		}
	}
	return nil
}

// takeOnce charges a unit, unless the group is denied already, and has its store remember it.
//
// A store remembers only a group that is admitted and can charge something. A claim that is
// one of several alternatives is remembered even if it is denied: in a repeat it must not be
// charged in place of the one that admitted the group. So is a unit that only peeks, because
// a repeat gets the decisions of the first call. To such a unit takeOnce adds a claim on a mark:
// a limit that is never reached.
func (x *crossing) takeOnce(unit int) error {
	if x.denied {
		return x.ask(unit)
	}
	x.took[unit] = true
	g := stint.Group{Claims: x.Units[unit].Claims, Once: &stint.Once{ID: x.idOf(unit), Body: x.group.Digest()}}
	if !x.Scattered(unit) && g.Repeatable() {
		return x.send(unit, g, x.OutOf(unit))
	}
	mark := x.markOf(unit, 1)
	if x.Scattered(unit) {
		mark.AnyOf = g.Claims[0].AnyOf
	}
	g.Claims = append(slices.Clip(g.Claims), mark)
	out := make([]stint.Decision, len(g.Claims))
	err := x.send(unit, g, out)
	copy(x.OutOf(unit), out)
	return err
}

// markOf returns a claim on the mark, under the first key of a unit: some stores know an ID
// under that key alone.
func (x *crossing) markOf(unit int, cost int64) stint.Claim {
	first := &x.Units[unit].Claims[0]
	return stint.Claim{Key: first.Key, Limit: x.store.mark, Cost: cost, Policy: first.Policy}
}

// known reports whether the store of a unit remembers it. It asks under the ID for a claim that
// no store can admit, and so remembers nothing: a conflict says that there is a record.
func (x *crossing) known(unit int) (bool, error) {
	g := stint.Group{Claims: []stint.Claim{x.markOf(unit, stint.MaxCost)}, Once: &stint.Once{ID: x.idOf(unit)}}
	err := partError(x.store.stores[x.places[unit]].TakeGroups(x.ctx, []stint.Group{g}, make([]stint.Decision, 1)))
	if errors.Is(err, stint.CodeConflict) {
		return true, nil
	}
	return false, err
}

// idOf returns the ID under which the store of a unit remembers it: that of the group, and
// for a further unit in the same store one that is derived from it.
func (x *crossing) idOf(unit int) string {
	nth := byte(0)
	for earlier := range unit {
		if x.places[earlier] == x.places[unit] {
			nth++
		}
	}
	if nth == 0 {
		return x.group.Once.ID
	}
	sum := sha256.Sum256(append([]byte(x.group.Once.ID), nth))
	return string(sum[:])
}
