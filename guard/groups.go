package guard

import (
	"context"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// TakeGroups decides the groups in the store in one call. After that call, the failure
// policies decide the groups whose breaker is open and those whose call failed.
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if !s.made() {
		return errNotMade
	}
	if err := storekit.CheckOut(groups, out); err != nil {
		return err
	}
	gc := s.newGroupCall(groups, out)
	defer s.release(gc)
	gc.plan()
	gc.send(ctx)
	return gc.answer()
}

// groupCall is one call of TakeGroups.
type groupCall struct {
	guard  *Store
	groups []stint.Group
	out    []stint.Decision

	outcomes []outcome // outcome of each part of the groups
	calls    []shardCall
	refused  int // parts that are not sent to the store

	sub       []stint.Group // the groups that are sent, if some parts are refused
	decisions []stint.Decision
	locals    localClaims
}

// outcome is the result of a claim, or of a part of a group, in the store. err is the
// error of the call or errRefused, and nil if the store decided.
type outcome struct {
	claims  []stint.Claim // the claims of the part
	invalid bool          // a claim is invalid: the store refuses the part, and no shard is called
	shard   *shard        // one of the part's shards; nil if there is none
	err     error
	final   bool // the caller gets err: no failure policy applies
	waits   bool // waits for replicas; a shadow has the value of the group it observes
}

// errRefused says why no call was made.
var errRefused = &stint.Error{
	Code: stint.CodeUnavailable, Kind: stint.KindBreakerOpen,
	Problem: "the store is unavailable and its circuit is open",
	Mend:    "try again later; the log says since when the circuit is open, and why",
}

func (s *Store) newGroupCall(groups []stint.Group, out []stint.Decision) *groupCall {
	gc, ok := s.groupCalls.Get().(*groupCall)
	if !ok {
		gc = &groupCall{guard: s}
	}
	gc.groups, gc.out = groups, out
	for i := range groups {
		for part := range groups[i].Parts() {
			gc.outcomes = append(gc.outcomes, outcome{claims: groups[i].Part(part)})
		}
	}
	return gc
}

// release returns a call to the pool. Only its memory is kept.
func (s *Store) release(gc *groupCall) {
	clear(gc.sub)
	clear(gc.outcomes)
	clear(gc.calls)
	clear(gc.locals.group[0].Claims)
	gc.groups, gc.out, gc.refused = nil, nil, 0
	gc.outcomes, gc.calls, gc.sub, gc.decisions = gc.outcomes[:0], gc.calls[:0], gc.sub[:0], gc.decisions[:0]
	s.groupCalls.Put(gc)
}

// plan finds out which parts cannot be sent to the store. The shadows of a group that
// is not sent are not sent either.
func (gc *groupCall) plan() {
	rest := gc.outcomes
	for i := range gc.groups {
		g, leader := &gc.groups[i], &rest[0]
		waits := !g.Dry && groupWaits(g.Claims)
		for part := range g.Parts() {
			o := &rest[part]
			o.waits = waits // a shadow is sent with its group
			o.invalid = gc.guard.shards.only == nil && anyInvalid(o.claims)
			gc.beginCalls(o)
			if o.err == nil {
				o.err = leader.err
			}
			if o.err != nil {
				gc.refused++
			}
		}
		rest = rest[g.Parts():]
	}
}

func anyInvalid(claims []stint.Claim) bool {
	for i := range claims {
		if claims[i].Validate() != nil {
			return true
		}
	}
	return false
}

// send sends the parts that are not refused to the store.
func (gc *groupCall) send(ctx context.Context) {
	if gc.refused == len(gc.outcomes) && gc.refused > 0 {
		return
	}
	groups, out := gc.groups, gc.out
	if gc.refused > 0 {
		groups, out = gc.sentGroups()
	}
	shard := gc.onlyShard()
	callCtx := &callContext{Context: gc.guard.observeStart(ctx, shard, len(out)), call: gc.firstCall(), within: gc.guard.within(ctx)}
	err := gc.guard.store.TakeGroups(callCtx, groups, out)
	callCtx.end()
	if gc.refused > 0 {
		gc.scatter()
	}
	if err == nil && gc.refused == 0 {
		gc.markHealthy()
	} else {
		gc.assignErrors(ctx, err)
	}
	gc.report()
	gc.guard.observeEnd(callCtx, shard, len(out), err)
}

// sentGroups returns the groups that are sent, and room for their decisions.
func (gc *groupCall) sentGroups() ([]stint.Group, []stint.Decision) {
	rest := gc.outcomes
	for i := range gc.groups {
		g := gc.groups[i]
		own := rest[:g.Parts()]
		rest = rest[len(own):]
		if own[0].err != nil {
			continue // its shadows are skipped with it
		}
		g.Shadows = nil
		for j := range own[1:] {
			if o := &own[1+j]; o.err == nil {
				g.Shadows = append(g.Shadows, o.claims)
			}
		}
		gc.sub = append(gc.sub, g)
	}
	claims, _ := stint.Sizes(gc.sub)
	gc.decisions = append(gc.decisions, make([]stint.Decision, claims)...)
	return gc.sub, gc.decisions
}

// scatter copies the decisions of the parts that were sent to their places in out.
func (gc *groupCall) scatter() {
	from, to := gc.decisions, gc.out
	for i := range gc.outcomes {
		o := &gc.outcomes[i]
		n := len(o.claims)
		if o.err == nil {
			copy(to[:n], from)
			from = from[n:]
		}
		to = to[n:]
	}
}

// answer decides the parts that the store did not decide, and returns the errors that
// are left.
func (gc *groupCall) answer() error {
	var errs storekit.Errors
	at, out := 0, gc.out
	for i := range gc.groups {
		g := &gc.groups[i]
		charge := !g.Dry
		for part := range g.Parts() {
			o := &gc.outcomes[at]
			decisions := out[:len(o.claims)]
			out = out[len(o.claims):]
			switch {
			case o.err != nil && !o.final:
				o.err = gc.degrade(o, decisions, charge, g.Dry)
			case o.err == nil && !g.Dry:
				gc.settle(o.claims, decisions, charge)
			}
			errs.Set(at, gc.groups, o.err)
			if part == 0 {
				charge = charge && o.err == nil && admits(o.claims, decisions) && !repeated(decisions)
			}
			at++
		}
	}
	return errs.Err()
}

// settle brings the local state up to date with the store's answer for a part. charge is
// false for a shadow whose group is denied. A repeated decision says nothing new: it was
// charged by an earlier call, and is as old as that.
func (gc *groupCall) settle(claims []stint.Claim, decisions []stint.Decision, charge bool) {
	asked, admitted := false, false
	for i := range claims {
		if decisions[i].Repeated || !gc.guard.settles(&claims[i]) {
			continue
		}
		if !asked { // few claims need it
			asked, admitted = true, charge && admits(claims, decisions)
		}
		gc.guard.settle(&claims[i], &decisions[i], admitted && decisions[i].Allowed)
	}
}

// repeated reports whether the store has remembered the decisions of a group.
func repeated(decisions []stint.Decision) bool {
	for i := range decisions {
		if !decisions[i].Repeated {
			return false
		}
	}
	return len(decisions) > 0
}

func admits(claims []stint.Claim, decisions []stint.Decision) bool {
	_, d := stint.Combine(claims, decisions)
	return d.Allowed
}
