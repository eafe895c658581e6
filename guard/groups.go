package guard

import (
	"context"

	"github.com/stintdev/stint"
)

// TakeGroups decides the groups in the store in one call. After that call, the failure
// policies decide the groups whose breaker is open and those whose call failed.
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if !s.made() {
		return errNotMade
	}
	if err := stint.CheckOut(groups, out); err != nil {
		return err
	}
	r := s.round(groups, out)
	defer s.release(r)
	r.plan()
	r.send(ctx)
	return r.answer()
}

// round is one call of TakeGroups.
type round struct {
	guard  *Store
	groups []stint.Group
	out    []stint.Decision

	outcomes []outcome // by part of the groups
	calls    []shardCall
	refused  int // parts that are not sent to the store

	sub       []stint.Group // the groups that are sent, if some parts are refused
	decisions []stint.Decision
	stand     standIns
}

// outcome is the result of a claim, or of a part of a group, in the store. err is the
// error of the call or errRefused, and nil if the store decided.
type outcome struct {
	claims []stint.Claim // of the part
	wrong  bool          // a claim is invalid: the store refuses the part, and no shard is asked
	shard  *shard        // one of the part's shards; nil if there is none
	err    error
	final  bool // the caller gets err: no failure policy applies
	waits  bool // waits for replicas; a shadow has the value of the group it observes
}

// errRefused says why no call was made.
var errRefused = &stint.Error{
	Code: stint.CodeUnavailable, Kind: "breaker_open",
	Problem: "the store failed and is left alone until it answers again",
	Mend:    "try again later; the log says since when, and why",
}

func (s *Store) round(groups []stint.Group, out []stint.Decision) *round {
	r, ok := s.rounds.Get().(*round)
	if !ok {
		r = &round{guard: s}
	}
	r.groups, r.out = groups, out
	for i := range groups {
		for part := range groups[i].Parts() {
			r.outcomes = append(r.outcomes, outcome{claims: groups[i].Part(part)})
		}
	}
	return r
}

// release puts a round back into the pool, with its memory alone.
func (s *Store) release(r *round) {
	clear(r.sub)
	clear(r.outcomes)
	clear(r.calls)
	clear(r.stand.group[0].Claims)
	r.groups, r.out, r.refused = nil, nil, 0
	r.outcomes, r.calls, r.sub, r.decisions = r.outcomes[:0], r.calls[:0], r.sub[:0], r.decisions[:0]
	s.rounds.Put(r)
}

// plan finds out which parts cannot be sent to the store. The shadows of a group that
// is not sent are not sent either.
func (r *round) plan() {
	rest := r.outcomes
	for i := range r.groups {
		g, leader := &r.groups[i], &rest[0]
		waits := !g.Dry && groupWaits(g.Claims)
		for part := range g.Parts() {
			f := &rest[part]
			f.waits = waits // a shadow travels with its group
			f.wrong = r.guard.shards.only == nil && anyWrong(f.claims)
			r.beginCalls(f)
			if f.err == nil {
				f.err = leader.err
			}
			if f.err != nil {
				r.refused++
			}
		}
		rest = rest[g.Parts():]
	}
}

func anyWrong(claims []stint.Claim) bool {
	for i := range claims {
		if claims[i].Validate() != nil {
			return true
		}
	}
	return false
}

// send sends the parts that are not refused to the store.
func (r *round) send(ctx context.Context) {
	if r.refused == len(r.outcomes) && r.refused > 0 {
		return
	}
	groups, out := r.groups, r.out
	if r.refused > 0 {
		groups, out = r.unrefused()
	}
	v := &callContext{Context: ctx, call: r.firstCall(), within: r.guard.within(ctx)}
	err := r.guard.store.TakeGroups(v, groups, out)
	r.guard.leave(v, err)
	if r.refused > 0 {
		r.scatter()
	}
	if err == nil && r.refused == 0 {
		r.markHealthy()
	} else {
		r.assignErrors(ctx, err)
	}
	r.report()
}

// unrefused returns the groups that are sent, and room for their decisions.
func (r *round) unrefused() ([]stint.Group, []stint.Decision) {
	rest := r.outcomes
	for i := range r.groups {
		g := r.groups[i]
		own := rest[:g.Parts()]
		rest = rest[len(own):]
		if own[0].err != nil {
			continue // with its shadows
		}
		g.Shadows = nil
		for j := range own[1:] {
			if f := &own[1+j]; f.err == nil {
				g.Shadows = append(g.Shadows, f.claims)
			}
		}
		r.sub = append(r.sub, g)
	}
	claims, _ := stint.Sizes(r.sub)
	r.decisions = append(r.decisions, make([]stint.Decision, claims)...)
	return r.sub, r.decisions
}

// scatter copies the decisions of the parts that were sent to their places in out.
func (r *round) scatter() {
	from, to := r.decisions, r.out
	for i := range r.outcomes {
		f := &r.outcomes[i]
		n := len(f.claims)
		if f.err == nil {
			copy(to[:n], from)
			from = from[n:]
		}
		to = to[n:]
	}
}

// answer decides the parts that the store did not decide, and returns the errors that
// are left.
func (r *round) answer() error {
	var errs stint.GroupsError
	at, out := 0, r.out
	local := r.guard.local.Load()
	for i := range r.groups {
		g := &r.groups[i]
		charge := !g.Dry
		for part := range g.Parts() {
			f := &r.outcomes[at]
			decisions := out[:len(f.claims)]
			out = out[len(f.claims):]
			switch {
			case f.err != nil && !f.final:
				f.err = r.degrade(f, decisions, charge, g.Dry)
			case f.err == nil && local != nil && charge:
				r.admitted(local, f.claims, decisions)
			}
			errs.Set(at, len(r.outcomes), f.err)
			if part == 0 {
				charge = charge && f.err == nil && admits(f.claims, decisions)
			}
			at++
		}
	}
	return errs.Err()
}

// admitted charges the local state with what the store has charged for a part.
func (r *round) admitted(l *local, claims []stint.Claim, decisions []stint.Decision) {
	if !admits(claims, decisions) {
		return
	}
	nodes := r.guard.nodes()
	for i := range claims {
		l.admitted(&claims[i], &decisions[i], nodes)
	}
}

func admits(claims []stint.Claim, decisions []stint.Decision) bool {
	_, d := stint.Combine(claims, decisions)
	return d.Allowed
}
