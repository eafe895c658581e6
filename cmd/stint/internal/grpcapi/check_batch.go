package grpcapi

import (
	"context"
	"time"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/rule"
)

// CheckBatch decides many requests by the rules, by one call of the store.
func (s *Service) CheckBatch(ctx context.Context, m *stintv1.CheckBatchRequest) (*stintv1.CheckBatchResponse, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	r := s.rounds.Get().(*round) //nolint:forcetypeassert // the pool holds nothing else
	defer r.release()
	if err := r.readRows(m); err != nil {
		return nil, s.rejected(ctx, err)
	}
	for i := range r.rows {
		if err := r.addRow(m, i); err != nil {
			r.Fail(err)
		}
	}
	r.SetSpan(spanOf(ctx))
	r.Decide(ctx, time.Now())
	response := r.checkBatchResponse()
	s.log(ctx, r.Failure())
	return response, nil
}

// addRow adds the check of a row. Its cost is part of the claims, so its body has none.
func (r *round) addRow(m *stintv1.CheckBatchRequest, i int) error {
	id := ""
	if ids := m.GetRequestIds(); len(ids) > 0 {
		id = ids[i]
	}
	if err := checkID(id); err != nil {
		return err
	}
	if err := r.Check(&r.rows[i], at(m.GetCost(), i, 1)); err != nil {
		return err
	}
	if id != "" {
		r.onceOf(id, r.rows[i].body())
	}
	return nil
}

// row is the attributes of one check of a batch.
type row struct{ names, values []string }

// Attribute implements rule.Attributes. There are few names, so a linear search is
// faster than a map.
func (r *row) Attribute(name string) (string, bool) {
	for i, n := range r.names {
		if n == name {
			return r.values[i], r.values[i] != ""
		}
	}
	return "", false
}

// readRows splits the values of a message into rows.
func (r *round) readRows(m *stintv1.CheckBatchRequest) error {
	names, values := m.GetNames(), m.GetValues()
	if err := checkNames(names); err != nil {
		return err
	}
	n := len(values) / len(names)
	switch {
	case len(values)%len(names) != 0:
		return badRequest("values: has %d entries, which is no multiple of the %d names", len(values), len(names))
	case n > maxBatch:
		return badRequest("values: has %d rows (give at most %d)", n, maxBatch)
	}
	if ids := len(m.GetRequestIds()); ids != 0 && ids != n {
		return badRequest("request_ids: has %d entries for %d rows (give one for each, or none)", ids, n)
	}
	r.rows = sized(r.rows, n)
	for i := range r.rows {
		r.rows[i] = row{names, values[i*len(names) : (i+1)*len(names)]}
	}
	return checkColumn("cost", len(m.GetCost()), n)
}

func checkNames(names []string) error {
	if n := len(names); n == 0 || n > maxAttributes {
		return badRequest("names: has %d entries (give 1 to %d, such as api_key and path)", n, maxAttributes)
	}
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		if seen[name] {
			return badRequest("names[%d]: is given twice", i)
		}
		seen[name] = true
	}
	return nil
}

// mark is what a batch response says of one check beside its decision.
type mark struct {
	rule                uint32
	listed, unavailable bool
}

func (r *round) checkBatchResponse() *stintv1.CheckBatchResponse {
	response := new(stintv1.CheckBatchResponse)
	r.decisions, r.marks = sized(r.decisions, r.Len()), sized(r.marks, r.Len())
	places := map[string]uint32{} // rule id → 1 + its index in response.Rules
	for i := range r.Len() {
		a, err := r.Answer(i)
		if err != nil {
			response.Failures = append(response.Failures, failureOf(i, err))
			r.decisions[i], r.marks[i] = stint.Decision{}, mark{}
			continue
		}
		o := a.Outcome
		r.decisions[i], r.marks[i] = *a.Decision, mark{listed: o.List == rule.ListDeny, unavailable: a.Unavailable}
		if o.Binding >= 0 {
			r.marks[i].rule = placeOf(o.Hits[o.Binding].Rule.ID, places, &response.Rules)
		}
	}
	response.Decisions = decisionColumns(r.decisions)
	response.Rule = column(r.marks, func(v *mark) uint32 { return v.rule })
	response.Listed = column(r.marks, func(v *mark) bool { return v.listed })
	response.Unavailable = column(r.marks, func(v *mark) bool { return v.unavailable })
	return response
}

// placeOf returns 1 + the index of a rule, and adds the rule when it is new.
func placeOf(id string, places map[string]uint32, rules *[]string) uint32 {
	place, ok := places[id]
	if !ok {
		*rules = append(*rules, id)
		place = uint32(len(*rules))
		places[id] = place
	}
	return place
}
