package grpcapi

import (
	"context"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/rule"
)

// CheckBatch decides many requests by the rules, by one call of the store.
func (s *Service) CheckBatch(ctx context.Context, m *stintv1.CheckBatchRequest) (*stintv1.CheckBatchResponse, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	r := s.borrowRound()
	defer r.end()
	if err := r.readRows(m); err != nil {
		return nil, s.failed(ctx, err)
	}
	for i := range r.rows {
		r.addCheck(uint64(i), &r.rows[i], at(m.GetCost(), i, 1))
	}
	r.decide(ctx)
	return r.checkedAll(ctx), nil
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

// verdict is what a batch response says of one check beside its decision.
type verdict struct {
	rule                uint32
	listed, unavailable bool
}

// checkedAll returns the response to a batch of checks.
func (r *round) checkedAll(ctx context.Context) *stintv1.CheckBatchResponse {
	response := new(stintv1.CheckBatchResponse)
	r.faces, r.verdicts = sized(r.faces, len(r.items)), sized(r.verdicts, len(r.items))
	places := map[string]uint32{} // rule id → 1 + its index in response.Rules
	var log news
	for i := range r.items {
		o, err := r.check(&r.items[i])
		if err != nil {
			log.hear(err)
			response.Failures = append(response.Failures, failureOf(i, err))
			r.faces[i], r.verdicts[i] = stint.Decision{}, verdict{}
			continue
		}
		r.faces[i] = *faceOf(o)
		r.verdicts[i] = verdict{listed: o.List == rule.ListDeny, unavailable: unavailable(o)}
		if o.Face >= 0 {
			r.verdicts[i].rule = placeOf(o.Hits[o.Face].Rule.ID, places, &response.Rules)
		}
	}
	r.service.log(ctx, log.err)
	response.Decisions = decisionColumns(r.faces)
	response.Rule = column(r.verdicts, func(v *verdict) uint32 { return v.rule })
	response.Listed = column(r.verdicts, func(v *verdict) bool { return v.listed })
	response.Unavailable = column(r.verdicts, func(v *verdict) bool { return v.unavailable })
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
