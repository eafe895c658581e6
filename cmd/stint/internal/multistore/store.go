// Package multistore makes several stores one: each claim goes to the store that its limit
// names ([stint.Spec.Store]).
//
// Use it where rules with different needs share a server, such as vouchers that must survive
// the loss of a server, and everything else that must be fast. Each store has a guard and
// leases of its own, so a store that fails affects its own claims alone.
//
// A group whose claims lie in one store is as atomic as that store makes it. A group whose
// claims lie in several is taken store by store, in one order on all nodes, and refunded
// when one of them denies it (see package crossgroup). For up to one round trip to each store,
// others see its temporary charges: they may be denied, but no limit is exceeded.
package multistore

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// Store is a [stint.Store] of several stores. Make it by [New]. It is safe for concurrent
// use.
type Store struct {
	names  []string // in order; the first is "", the default store
	stores []stint.Store
	mark   stint.Limit // see crossing.takeOnce

	kept atomic.Uint64
}

// New returns a store of the given ones, by name. The one named "" is the default store.
func New(stores map[string]stint.Store) (*Store, error) {
	if storekit.Missing(stores[""]) {
		return nil, &stint.Error{Problem: "multistore: there is no default store", Mend: `name one ""`}
	}
	mark, err := stint.Spec{Namespace: "request-id", Name: "mark", Algorithm: stint.FixedWindow, Limit: stint.MaxLimit - 1, Window: stint.MinWindow, FromCaller: true}.Compile()
	if err != nil {
		return nil, err
	}
	s := &Store{names: slices.Sorted(maps.Keys(stores)), mark: mark}
	for _, name := range s.names {
		s.stores = append(s.stores, stores[name])
	}
	return s, nil
}

// KeptCharges returns how many charges were kept although their group was denied: the refund
// of a charge failed, or a repeat of the group finds the charge (see crossing.decideOnce).
func (s *Store) KeptCharges() uint64 { return s.kept.Load() }

// Take decides one claim.
func (s *Store) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	at, err := s.placeOf(&c)
	if err != nil {
		return stint.Decision{}, err
	}
	return s.stores[at].Take(ctx, c)
}

// placeOf returns the index of the store that has a claim.
func (s *Store) placeOf(c *stint.Claim) (int, error) {
	name := c.Limit.Store()
	for i, known := range s.names { // there are few
		if known == name {
			return i, nil
		}
	}
	return 0, &stint.Error{Code: stint.CodeInvalid, Problem: fmt.Sprintf("limit %s: there is no store %q", c.Limit.Name(), name),
		Mend: "name one of " + strings.Join(s.names[1:], ", ") + ", or none for the default store"}
}

// TakeGroups decides groups of claims. Groups of different stores are decided at the same
// time, and so are groups in several stores that have no key in common with others.
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if err := storekit.CheckOut(groups, out); err != nil {
		return err
	}
	if at, one := s.onlyPlace(groups); one {
		return s.stores[at].TakeGroups(ctx, groups, out)
	}
	c := &call{store: s, ctx: ctx, groups: groups, out: out}
	c.run()
	return c.errs.Err()
}

// onlyPlace returns the index of the store that has all claims of the groups, and false if
// they are in several or a store is not known.
func (s *Store) onlyPlace(groups []stint.Group) (at int, one bool) {
	at = -1
	for c := range storekit.Claims(groups) {
		own, err := s.placeOf(c)
		if err != nil || at >= 0 && own != at {
			return 0, false
		}
		at = own
	}
	return max(at, 0), true
}

// call is one call of TakeGroups.
type call struct {
	store  *Store
	ctx    context.Context //nolint:containedctx // it lives as long as its call
	groups []stint.Group
	out    []stint.Decision

	mu   sync.Mutex
	errs storekit.Errors // guarded by mu

	// The groups that are not sent yet. They may be decided at the same time.
	waiting []batch         // by store: groups that lie in it
	apart   []apart         // groups in several stores
	keys    map[string]bool // of these groups, see keysOf; true: of a group in several stores
}

// batch is the groups of a call that are sent to one store together.
type batch struct {
	groups []stint.Group
	out    []stint.Decision
	places []place // of the groups
	err    error
}

// apart is a group in several stores.
type apart struct {
	group *stint.Group
	at    place
}

// place locates a group, or a part of one, in a call.
type place struct{ part, first int }

// mostApart bounds the groups in several stores that are decided at the same time.
const mostApart = 128

// run decides the groups. Groups of one store are sent together, in order. Groups without a
// common key have no state in common, so a group in several stores is decided at the same
// time as the others, and waits only for groups before it that have one of its keys.
func (c *call) run() {
	if len(c.groups) == 1 {
		c.takeApart(apart{&c.groups[0], place{}})
		return
	}
	c.waiting, c.keys = make([]batch, len(c.store.stores)), map[string]bool{}
	var at place
	for i := range c.groups {
		group := c.groups[i : i+1]
		claims, parts := stint.Sizes(group)
		store, one := c.store.onlyPlace(group)
		if len(c.apart) == mostApart || c.mustWait(&group[0], one) {
			c.flush()
		}
		for key := range keysOf(&group[0]) {
			c.keys[key] = c.keys[key] || !one
		}
		if one {
			b := &c.waiting[store]
			b.groups, b.places, b.out = append(b.groups, group[0]), append(b.places, at), append(b.out, make([]stint.Decision, claims)...)
		} else {
			c.apart = append(c.apart, apart{&group[0], at})
		}
		at = place{at.part + parts, at.first + claims}
	}
	c.flush()
}

// mustWait reports whether a group has a key of a group that is not sent yet, and one of the
// two lies in several stores.
func (c *call) mustWait(g *stint.Group, one bool) bool {
	for key := range keysOf(g) {
		if severalStores, known := c.keys[key]; known && (severalStores || !one) {
			return true
		}
	}
	return false
}

// keysOf returns what a group has in common with groups whose order matters to it: the keys of
// its claims, and the ID under which it may be repeated.
func keysOf(g *stint.Group) iter.Seq[string] {
	return func(yield func(string) bool) {
		for part := range g.Parts() {
			for i := range g.Part(part) {
				if !yield(g.Part(part)[i].Key) {
					return
				}
			}
		}
		if g.Once != nil {
			yield(g.Once.ID)
		}
	}
}

// flush decides the groups that wait, all at the same time, and collects the answers.
func (c *call) flush() {
	var sent sync.WaitGroup
	for i := range c.waiting {
		b, store := &c.waiting[i], c.store.stores[i]
		if len(b.groups) > 0 {
			sent.Go(func() { b.err = store.TakeGroups(c.ctx, b.groups, b.out) })
		}
	}
	for _, a := range c.apart {
		sent.Go(func() { c.takeApart(a) })
	}
	sent.Wait()
	for i := range c.waiting {
		if b := &c.waiting[i]; len(b.groups) > 0 {
			c.collect(b)
			*b = batch{}
		}
	}
	c.apart = c.apart[:0]
	clear(c.keys)
}

// fail notes the error of a part.
func (c *call) fail(part int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs.Set(part, c.groups, err)
}

// collect copies the decisions and the errors of a batch to their places.
func (c *call) collect(b *batch) {
	_, all := stint.Sizes(b.groups)
	errs, whole := storekit.PartErrors(b.err, all)
	part, out := 0, b.out
	for i := range b.groups {
		at := b.places[i]
		claims, parts := stint.Sizes(b.groups[i : i+1])
		copy(c.out[at.first:], out[:claims])
		out = out[claims:]
		for j := range parts {
			err := whole
			if errs != nil {
				err = errs[part+j]
			}
			c.fail(at.part+j, err)
		}
		part += parts
	}
}

// takeApart decides a group whose claims, or whose shadows, lie in several stores: first the
// group itself, and then its shadows as groups of their own.
func (c *call) takeApart(a apart) {
	g, at := a.group, a.at
	own := c.out[at.first : at.first+len(g.Claims)]
	err := c.takeItself(g, own)
	c.fail(at.part, err)
	if err != nil {
		clear(own)
	}
	if len(g.Shadows) == 0 {
		return
	}
	dry := g.Dry || err != nil || !admitted(g.Claims, own) || repeated(own)
	shadows := make([]stint.Group, len(g.Shadows))
	claims := 0
	for i, shadow := range g.Shadows {
		shadows[i] = stint.Group{Claims: shadow, Dry: dry}
		claims += len(shadow)
	}
	first := at.first + len(own)
	errs, whole := storekit.PartErrors(c.store.TakeGroups(c.ctx, shadows, c.out[first:first+claims]), len(shadows))
	for i := range shadows {
		err := whole
		if errs != nil {
			err = errs[i]
		}
		c.fail(at.part+1+i, err)
	}
}

// takeItself decides the claims of a group without its shadows.
func (c *call) takeItself(g *stint.Group, out []stint.Decision) error {
	own := []stint.Group{{Claims: g.Claims, Dry: g.Dry, Once: g.Once}}
	if at, one := c.store.onlyPlace(own); one {
		return partError(c.store.stores[at].TakeGroups(c.ctx, own, out))
	}
	x, err := c.store.newCrossing(c.ctx, &own[0], out)
	if err != nil {
		return err
	}
	return x.decide()
}

// partError returns the error of a call with one part.
func partError(err error) error {
	errs, whole := storekit.PartErrors(err, 1)
	if errs != nil {
		return errs[0]
	}
	return whole
}

func admitted(claims []stint.Claim, decisions []stint.Decision) bool {
	_, binding := stint.Combine(claims, decisions)
	return binding.Allowed
}

// repeated reports whether a store has remembered all decisions of a group.
func repeated(decisions []stint.Decision) bool {
	return len(decisions) > 0 && !slices.ContainsFunc(decisions, func(d stint.Decision) bool { return !d.Repeated })
}
