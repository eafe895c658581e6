package replay

import (
	"context"
	"slices"
	"strings"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
	"github.com/stintdev/stint/storekit"
)

// rulesDecider decides every event by a rule set.
type rulesDecider struct {
	set     *rule.Set
	store   rulesStore
	format  Format
	keys    *keyTally
	numbers map[*rule.Rule]int // index in counts
	counts  []RuleCount
	event   timedFields
	outcome rule.Outcome
}

// timedFields are the fields of an event together with its time.
type timedFields struct {
	fields

	t int64
}

// At returns the time of the event.
func (f *timedFields) At() int64 { return f.t }

func newRulesDecider(store stint.Store, set *rule.Set, format Format, keys *keyTally) *rulesDecider {
	d := &rulesDecider{set: set, store: rulesStore{Store: store}, format: format, keys: keys, numbers: map[*rule.Rule]int{}}
	for _, r := range set.Rules() {
		if r.Mode == rule.Off {
			continue
		}
		d.numbers[r] = len(d.counts)
		d.counts = append(d.counts, RuleCount{Rule: r.ID, Mode: r.Mode.String()})
	}
	return d
}

func (d *rulesDecider) decide(ctx context.Context, p *pending, out *result) (err error) {
	if d.event.fields, _, err = d.format.fields(p.text, d.event.fields[:0]); err != nil {
		return err
	}
	d.event.t = p.t
	d.store.refund, d.store.at = p.cost < 0, p.at
	if err = d.set.DecideInto(ctx, &d.store, &d.event, max(p.cost, -p.cost), &d.outcome); err != nil {
		return err
	}
	d.report(out)
	d.count()
	return nil
}

// report sets the result from the outcome. An event on a list, or that no
// enforced rule counted, has no binding claim.
func (d *rulesDecider) report(out *result) {
	*out = result{decision: d.outcome.Decision}
	for i := range d.outcome.Hits {
		if key := d.outcome.Hits[i].Key; key != "" {
			d.keys.see(key)
		}
	}
	binding := d.binding()
	if binding == nil {
		return
	}
	out.rule, out.key = binding.Rule.ID, rule.KeyText(binding.Key)
	if !out.decision.Allowed && out.key != "" {
		d.keys.deny(out.key, d.show)
	}
}

// binding returns the hit of the binding claim, or nil.
func (d *rulesDecider) binding() *rule.Hit {
	if d.outcome.Binding < 0 {
		return nil
	}
	return &d.outcome.Hits[d.outcome.Binding]
}

// show masks the parts of a key that are credentials of the current event.
func (d *rulesDecider) show(key string) string {
	for _, f := range d.event.fields {
		if f.value != "" && secretAttribute(f.name) {
			key = strings.ReplaceAll(key, f.value, maskKey(f.value))
		}
	}
	return key
}

// count counts the event once for each rule that matched it.
func (d *rulesDecider) count() {
	hits := d.outcome.Hits
	for len(hits) > 0 {
		r := hits[0].Rule
		end := slices.IndexFunc(hits, func(h rule.Hit) bool { return h.Rule != r })
		if end < 0 {
			end = len(hits)
		}
		if n, ok := d.numbers[r]; ok {
			d.counts[n].count(d.denies(hits[:end]))
		}
		hits = hits[end:]
	}
}

// denies reports whether the rule of these hits decided a denial, or would have
// in shadow mode.
func (d *rulesDecider) denies(hits []rule.Hit) bool {
	if !hits[0].Shadow {
		binding := d.binding()
		return binding != nil && binding.Rule == hits[0].Rule && !d.outcome.Allowed()
	}
	denied := func(h rule.Hit) bool { return !h.Decision.Allowed }
	if hits[0].Rule.Any() {
		return !slices.ContainsFunc(hits, func(h rule.Hit) bool { return !denied(h) })
	}
	return slices.ContainsFunc(hits, denied)
}

func (d *rulesDecider) perRule() []RuleCount { return d.counts }

// rulesStore lets rules decide refunds. Rules know only positive costs, also
// where a rule sets its own cost. A refund is therefore decided as a request
// with the positive cost, and rulesStore negates the cost of its claims.
type rulesStore struct {
	stint.Store
	refund bool  // whether the current event is a refund
	at     int64 // when the cost was taken; 0: now
}

// Take passes the claim to the store.
func (s *rulesStore) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	s.negate(&c)
	return s.Store.Take(ctx, c)
}

// TakeGroups passes the groups to the store.
func (s *rulesStore) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if !s.refund {
		return s.Store.TakeGroups(ctx, groups, out)
	}
	return s.Store.TakeGroups(ctx, storekit.MapClaims(groups, s.negate), out)
}

// negate makes a claim of a refund event a refund.
func (s *rulesStore) negate(c *stint.Claim) {
	if s.refund {
		c.Cost, c.At = -c.Cost, s.at
	}
}
