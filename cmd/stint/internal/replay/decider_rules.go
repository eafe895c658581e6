package replay

import (
	"context"
	"strings"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
	"github.com/stintdev/stint/storekit"
)

// rulesDecider decides every event by a rule set.
type rulesDecider struct {
	set         *rule.Set
	store       rulesStore
	format      Format
	tally       *keyTally
	show        func(identityText) string
	attribution *attribution
	event       timedFields
	outcome     rule.Outcome
}

// timedFields are the fields of an event together with its time.
type timedFields struct {
	fields

	t int64
}

// At returns the time of the event.
func (f *timedFields) At() int64 { return f.t }

func newRulesDecider(ctx context.Context, store stint.Store, o *Options, h hasher) *rulesDecider {
	d := &rulesDecider{set: o.Rules, format: o.Format, tally: newKeyTally(h), show: o.show, attribution: newAttribution(ctx, o.Rules, o.Alone)}
	d.store = rulesStore{Store: store, record: d.attribution.alone != nil}
	return d
}

func (d *rulesDecider) decide(ctx context.Context, p *pending, out *result) (err error) {
	if d.event.fields, _, err = d.format.fields(p.text, d.event.fields[:0]); err != nil {
		return err
	}
	d.event.t = p.t
	d.store.begin(p.cost, p.at)
	if err = d.set.DecideInto(ctx, &d.store, &d.event, max(p.cost, -p.cost), &d.outcome); err != nil {
		return err
	}
	d.attribution.count(&d.outcome)
	if alone := d.attribution.alone; alone != nil {
		alone.see(&d.outcome, d.store.sent, &d.event, p)
	}
	d.report(out)
	return nil
}

func (d *rulesDecider) finish() error { return d.attribution.finish() }

func (d *rulesDecider) fields(*pending) fields { return d.event.fields }

// report sets the result from the outcome. An event on a list, or that no
// enforced rule counted, has no binding claim.
func (d *rulesDecider) report(out *result) {
	*out = result{decision: d.outcome.Decision, caller: d.caller(), counted: d.attribution.counted, denied: d.attribution.denied}
	for i := range d.outcome.Hits {
		if key := d.outcome.Hits[i].Key; key != "" {
			d.tally.see(key)
		}
	}
	binding := d.binding()
	if binding == nil {
		return
	}
	out.rule, out.key = binding.Rule.ID, rule.KeyText(binding.Key)
	if !out.decision.Allowed && out.key != "" {
		d.tally.deny(out.key, d.masked)
	}
}

// binding returns the hit of the binding claim, or nil.
func (d *rulesDecider) binding() *rule.Hit {
	if d.outcome.Binding < 0 {
		return nil
	}
	return &d.outcome.Hits[d.outcome.Binding]
}

// caller returns the caller of the event. Of an event without the attributes of a caller, it is
// the first key that counted the event.
func (d *rulesDecider) caller() identityText {
	who := d.event.identity()
	if who.text != "" || len(d.outcome.Hits) == 0 {
		return who
	}
	who = identityText{text: rule.KeyText(d.outcome.Hits[0].Key), kind: kindOfKey}
	for _, f := range d.event.fields {
		who.secret = who.secret || f.value != "" && SecretAttribute(f.name) && strings.Contains(who.text, f.value)
	}
	return who
}

// masked shortens the parts of a key that are credentials of the current event. An event without
// an API key has its "key" for one.
func (d *rulesDecider) masked(key string) string {
	_, hasAPIKey := d.event.attribute("api_key")
	keyIsSecret := !hasAPIKey && !d.event.isLog()
	for _, f := range d.event.fields {
		if f.value != "" && (SecretAttribute(f.name) || f.name == "key" && keyIsSecret) {
			key = strings.ReplaceAll(key, f.value, d.show(identityText{text: f.value, secret: true}))
		}
	}
	return key
}

func (d *rulesDecider) perRule() []RuleCount { return d.attribution.perRule() }

func (d *rulesDecider) keys(top int) (count int, denied []KeyCount) {
	return d.tally.seen.total(), d.tally.top(top)
}

// rulesStore lets rules decide refunds. Rules know only positive costs, also
// where a rule sets its own cost. A refund is therefore decided as a request
// with the positive cost, and rulesStore negates the cost of its claims.
type rulesStore struct {
	stint.Store
	refund bool          // whether the current event is a refund
	at     int64         // when the cost was taken; 0: now
	record bool          // keep the claims of the current event
	sent   []stint.Claim // these claims
}

// begin prepares the store for the claims of an event.
func (s *rulesStore) begin(cost, at int64) {
	s.refund, s.at, s.sent = cost < 0, at, s.sent[:0]
}

// Take passes the claim to the store.
func (s *rulesStore) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	s.negate(&c)
	if s.record {
		s.sent = append(s.sent, c)
	}
	return s.Store.Take(ctx, c)
}

// TakeGroups passes the groups to the store.
func (s *rulesStore) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if s.refund {
		groups = storekit.MapClaims(groups, s.negate)
	}
	if s.record {
		for c := range storekit.Claims(groups) {
			s.sent = append(s.sent, *c)
		}
	}
	return s.Store.TakeGroups(ctx, groups, out)
}

// negate makes a claim of a refund event a refund.
func (s *rulesStore) negate(c *stint.Claim) {
	if s.refund {
		c.Cost, c.At = -c.Cost, s.at
	}
}
