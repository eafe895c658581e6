package guard

import (
	"context"
	"fmt"

	"github.com/stintdev/stint"
)

// TakeGroups decides the groups in the store in one call. After that call, the failure
// policies decide the groups whose breaker is open and those whose call failed.
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if !s.made() {
		return errNotMade
	}
	if err := checkRoom(groups, out); err != nil {
		return err
	}
	r := s.round(groups, out)
	defer s.release(r)
	r.plan()
	r.send(ctx)
	return r.answer()
}

func checkRoom(groups []stint.Group, out []stint.Decision) error {
	claims := 0
	for i := range groups {
		claims += len(groups[i].Claims)
	}
	if claims == len(out) {
		return nil
	}
	return &stint.Error{Code: stint.CodeInvalid, Problem: fmt.Sprintf("out: has room for %d decisions, and there are %d claims", len(out), claims), Mend: "pass one for each claim"}
}

// round is one call of TakeGroups.
type round struct {
	guard  *Store
	groups []stint.Group
	out    []stint.Decision

	outcomes []outcome // by group
	calls    []shardCall
	refused  int // groups that the store is not asked for

	sub       []stint.Group // those that it is, when they are not all
	decisions []stint.Decision
	stand     standIns
}

// outcome is the result of a claim or a group in the store. err is the error of the
// call or errRefused, and nil if the store decided.
type outcome struct {
	shard *shard // one of the group's shards; nil if there is none
	err   error
	final bool // the caller gets err: no failure policy applies
	waits bool // waits for replicas; a shadow has the value of the group it observes
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
	r.outcomes = append(r.outcomes, make([]outcome, len(groups))...)
	return r
}

// release keeps the room alone for the next call.
func (s *Store) release(r *round) {
	clear(r.sub)
	clear(r.outcomes)
	clear(r.calls)
	clear(r.stand.group[0].Claims)
	r.groups, r.out, r.refused = nil, nil, 0
	r.outcomes, r.calls, r.sub, r.decisions = r.outcomes[:0], r.calls[:0], r.sub[:0], r.decisions[:0]
	s.rounds.Put(r)
}

// plan finds out which groups the store cannot be asked for. A shadow group
// goes where the group goes that it observes.
func (r *round) plan() {
	var leader error
	waits := false
	for i := range r.groups {
		g, f := &r.groups[i], &r.outcomes[i]
		if !g.Shadow {
			waits = groupWaits(g)
		}
		f.waits = waits // a shadow travels with its leader
		r.beginCalls(g, f)
		if !g.Shadow {
			leader = f.err
		} else if f.err == nil {
			f.err = leader
		}
		if f.err != nil {
			r.refused++
		}
	}
}

// send asks the store for the groups that it can be asked for.
func (r *round) send(ctx context.Context) {
	if r.refused == len(r.groups) && r.refused > 0 {
		return
	}
	groups, out := r.groups, r.out
	if r.refused > 0 {
		groups, out = r.part()
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
		r.assignErrors(ctx, err, len(groups))
	}
	r.report()
}

// part is the groups that are sent, and room for their decisions.
func (r *round) part() ([]stint.Group, []stint.Decision) {
	claims := 0
	for i := range r.groups {
		if r.outcomes[i].err == nil {
			r.sub = append(r.sub, r.groups[i])
			claims += len(r.groups[i].Claims)
		}
	}
	r.decisions = append(r.decisions, make([]stint.Decision, claims)...)
	return r.sub, r.decisions
}

// scatter writes the decisions of a part to where they belong.
func (r *round) scatter() {
	from, to := r.decisions, r.out
	for i := range r.groups {
		n := len(r.groups[i].Claims)
		if r.outcomes[i].err == nil {
			copy(to[:n], from)
			from = from[n:]
		}
		to = to[n:]
	}
}

// answer decides what the store did not, and returns what is left of errors.
func (r *round) answer() error {
	var errs []error
	admitted, out := true, r.out
	local := r.guard.local.Load()
	for i := range r.groups {
		g, f := &r.groups[i], r.outcomes[i]
		decisions := out[:len(g.Claims)]
		out = out[len(g.Claims):]
		switch {
		case f.err != nil && !f.final:
			f.err = r.degrade(g, decisions, admitted, f)
		case f.err == nil && local != nil && (admitted || !g.Shadow):
			r.admitted(local, g, decisions)
		}
		if f.err != nil {
			errs = append(errs, make([]error, len(r.groups)-len(errs))...)
			errs[i] = f.err
		}
		if !g.Shadow {
			admitted = f.err == nil && admits(g.Claims, decisions)
		}
	}
	if errs == nil {
		return nil
	}
	return &stint.GroupsError{Errs: errs}
}

// admitted charges the local state with what the store has charged of a group.
func (r *round) admitted(l *local, g *stint.Group, decisions []stint.Decision) {
	if !admits(g.Claims, decisions) {
		return
	}
	nodes := r.guard.nodes()
	for i := range g.Claims {
		l.admitted(&g.Claims[i], &decisions[i], nodes)
	}
}

func admits(claims []stint.Claim, decisions []stint.Decision) bool {
	_, d := stint.Combine(claims, decisions)
	return d.Allowed
}
