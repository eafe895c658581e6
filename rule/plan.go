package rule

import "github.com/stintdev/stint"

// Plan holds the claims of one request before they are sent to a store. It lets
// a caller decide many requests in one call: append the groups of all plans in
// order, pass them to [stint.Store.TakeGroups], settle each plan with its share
// of the results, and release it.
//
// The zero Plan has no claims, and its Settle returns an error. A Plan must not
// be used by several goroutines at once.
type Plan struct{ request *request }

// Plan finds the rules that match the request, as [Set.Decide] does. The plan
// holds the attributes until it is released. No context bounds the delays of its leaky
// buckets: a call for many requests has one deadline, which is not theirs.
func (s *Set) Plan(a Attributes, cost int64) Plan {
	q := s.borrow(a, cost)
	q.plan()
	if q.needsStore() {
		q.makeGroup()
	}
	return Plan{q}
}

// needsStore reports whether the request needs the store.
func (q *request) needsStore() bool {
	return q.err == nil && q.list == ListNone && !q.denied && len(q.enforced)+len(q.shadow) > 0
}

// AppendGroups appends the group of the plan to the groups of one call and returns
// the result. It appends nothing when the outcome needs no store. The group is valid
// until the plan is released.
func (p Plan) AppendGroups(groups []stint.Group) []stint.Group {
	if p.request == nil || !p.request.needsStore() {
		return groups
	}
	return append(groups, p.request.group[0])
}

// Settle writes the outcome of the request into o and overwrites its Hits.
// decisions are the decisions of the claims that AppendGroups appended. errs are
// the errors of the parts of their group, nil when there are none. Settle returns
// the same errors as [Set.Decide].
func (p Plan) Settle(decisions []stint.Decision, errs []error, o *Outcome) error {
	q := p.request
	if q == nil {
		return &stint.Error{Problem: "the plan is a zero value", Mend: "make it with Set.Plan"}
	}
	if done, err := q.answer(o); done || err != nil {
		return err
	}
	q.decisions = append(q.decisions[:0], decisions...)
	if len(errs) == q.group[0].Parts() {
		if err := q.enforcedError(errs); err != nil {
			return err
		}
	}
	q.decided(o)
	return nil
}

// Request returns the attributes and the cost that the plan was made from. It
// must not be called after Release.
func (p Plan) Request() (Attributes, int64) {
	if p.request == nil {
		return Map(nil), 0
	}
	return p.request.attributes, p.request.cost
}

// Release returns the plan's memory to the pool. The plan must not be used
// afterwards.
func (p Plan) Release() {
	if p.request != nil {
		p.request.set.release(p.request)
	}
}
