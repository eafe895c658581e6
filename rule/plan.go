package rule

import "github.com/stintdev/stint"

// Plan is what one request asks of a store, before the store is asked: it lets
// a caller decide many requests by one call. In their order, append the groups
// of all plans, pass them to [stint.Store.TakeGroups], settle each plan with
// its part of what came back, and release it.
//
// The zero Plan asks for nothing, and settles with an error. A Plan is for one
// goroutine at a time.
type Plan struct{ request *request }

// Plan finds the rules that match the request, as [Set.Decide] does. It keeps
// the attributes until it is released.
func (s *Set) Plan(a Attributes, cost int64) Plan {
	q := s.borrow(a, cost)
	q.plan()
	if q.asks() {
		q.makeGroups()
	}
	return Plan{q}
}

// asks reports whether there is anything to ask a store for.
func (q *request) asks() bool {
	return q.err == nil && q.list == ListNone && !q.denied && len(q.enforced)+len(q.shadow) > 0
}

// AppendGroups appends what the request asks for to the groups of one call,
// and returns them. It appends nothing when the answer needs no store. The
// groups are valid until the plan is released.
func (p Plan) AppendGroups(groups []stint.Group) []stint.Group {
	if p.request == nil {
		return groups
	}
	own := p.request.groups
	if len(groups) > 0 && len(own) > 0 && own[0].Shadow {
		// What is observed alone must not follow another request's fate: a
		// group without claims is admitted.
		groups = append(groups, stint.Group{})
	}
	return append(groups, own...)
}

// Settle writes the outcome of the request into o, whose Hits are overwritten.
// decisions are those of the claims that AppendGroups appended, and errs the
// errors of its groups; nil when there are none. The error is that of
// [Set.Decide].
func (p Plan) Settle(decisions []stint.Decision, errs []error, o *Outcome) error {
	q := p.request
	if q == nil {
		return &stint.Error{Problem: "the plan is a zero value", Mend: "make it with Set.Plan"}
	}
	if done, err := q.answer(o); done || err != nil {
		return err
	}
	q.decisions = append(q.decisions[:0], decisions...)
	if extra := len(errs) - len(q.groups); extra >= 0 {
		if err := q.enforcedError(errs[extra:]); err != nil {
			return err
		}
	}
	q.decided(o)
	return nil
}

// Request returns what the plan was made of, until it is released.
func (p Plan) Request() (Attributes, int64) {
	if p.request == nil {
		return Map(nil), 0
	}
	return p.request.attributes, p.request.cost
}

// Release ends the use of the plan.
func (p Plan) Release() {
	if p.request != nil {
		p.request.set.release(p.request)
	}
}
