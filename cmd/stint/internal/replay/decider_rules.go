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
	settler

	set         *rule.Set
	lines       lineReader // of decide
	tally       *keyTally
	show        func(identityText) string
	attribution *attribution
	event       *timedFields // of the event that was settled last
	single      plannedEvent // of decide
}

// settler decides planned events in a store.
type settler struct {
	store     rulesStore
	groups    []stint.Group
	decisions []stint.Decision
	outcome   rule.Outcome // of the last event
}

// timedFields are the fields of an event together with its time.
type timedFields struct {
	fields

	t int64
}

// At returns the time of the event.
func (f *timedFields) At() int64 { return f.t }

func newRulesDecider(store stint.Store, o *Options, h hasher, fails *panics) *rulesDecider {
	d := &rulesDecider{set: o.Rules, lines: lineReader{format: o.Format}, tally: newKeyTally(h, fails), show: o.show}
	d.attribution = newAttribution(o.Rules, d.tally.seen.set.seed, o.Alone, memoryOf(store))
	d.store = rulesStore{Store: store, record: d.attribution.alone != nil}
	return d
}

// plannedEvent is an event with the claims of the rules that match it. The claims are not decided.
type plannedEvent struct {
	pending

	event timedFields
	plan  rule.Plan
}

// decide plans and settles an event.
func (d *rulesDecider) decide(ctx context.Context, p *pending, out *result) error {
	if err := d.plan(&d.lines, p, &d.single); err != nil {
		return err
	}
	return d.settle(ctx, &d.single, out)
}

// plan finds the claims of an event. It may work in another goroutine than settle, which must follow.
// Goroutines have lines of their own.
func (d *rulesDecider) plan(lines *lineReader, p *pending, e *plannedEvent) (err error) {
	e.pending, e.plan = *p, rule.Plan{}
	if e.event.fields, _, err = lines.fields(p.text, e.event.fields[:0]); err != nil {
		return err
	}
	e.event.t = p.t
	e.plan = d.set.Plan(&e.event, max(p.cost, -p.cost))
	return nil
}

// settle decides a planned event.
func (d *rulesDecider) settle(ctx context.Context, e *plannedEvent, out *result) error {
	defer e.plan.Release()
	d.event = &e.event
	if err := d.settler.settle(ctx, e); err != nil {
		return err
	}
	d.attribution.count(&d.outcome)
	if alone := d.attribution.alone; alone != nil {
		if err := alone.decide(ctx, &d.outcome, d.store.sent, e); err != nil {
			return err
		}
	}
	d.report(out)
	return nil
}

// settle decides a planned event.
func (s *settler) settle(ctx context.Context, e *plannedEvent) error {
	s.store.begin(e.cost, e.at)
	s.groups, s.decisions = e.plan.AppendGroups(s.groups[:0]), s.decisions[:0]
	var errs []error // of the parts of the group
	if len(s.groups) > 0 {
		claims, parts := stint.Sizes(s.groups)
		s.decisions = slices.Grow(s.decisions, claims)[:claims]
		var whole error
		if errs, whole = storekit.PartErrors(s.store.TakeGroups(ctx, s.groups, s.decisions), parts); whole != nil {
			return whole
		}
	}
	return e.plan.Settle(s.decisions, errs, &s.outcome)
}

func (d *rulesDecider) fields(*pending) fields { return d.event.fields }

// report sets the result from the outcome. An event on a list, or that no
// enforced rule counted, has no binding claim.
func (d *rulesDecider) report(out *result) {
	*out = result{decision: d.outcome.Decision, caller: callerOf(d.event, d.outcome.Hits), counted: d.attribution.counted, denied: d.attribution.denied}
	for i := range d.attribution.judged {
		if of := &d.attribution.judged[i]; of.hits[0].Key != "" {
			d.tally.see(of.hash)
		}
	}
	binding := d.binding()
	if binding == nil {
		return
	}
	out.rule, out.key = binding.Rule.ID, binding.Key
	if !out.decision.Allowed && out.key != "" {
		d.tally.deny(rule.KeyText(out.key), d.masked)
	}
}

// binding returns the hit of the binding claim, or nil.
func (d *rulesDecider) binding() *rule.Hit {
	if d.outcome.Binding < 0 {
		return nil
	}
	return &d.outcome.Hits[d.outcome.Binding]
}

// callerOf returns the caller of an event. Of an event without the attributes of a caller, it is
// the first key that counted the event.
func callerOf(event *timedFields, hits []rule.Hit) identityText {
	who := event.identity()
	if who.text != "" || len(hits) == 0 {
		return who
	}
	who = identityText{text: rule.KeyText(hits[0].Key), kind: kindOfKey}
	for _, f := range event.fields {
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
