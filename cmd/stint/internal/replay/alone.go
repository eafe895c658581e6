package replay

import (
	"context"
	"slices"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
	"github.com/stintdev/stint/storekit"
)

// aloneJudge decides each event once more by each rule, and by each limit of a rule with
// several, as if there were no other. That needs counters of their own: a request that
// another rule denies is charged here. They are in memory, whatever store decides.
//
// Usually the claims that the rules have just sent to the store are decided again, so the
// rules need not be matched again. When a rule denied without the store, or a rule's own deny
// list did, the claims of other rules are missing; each rule then decides as a set of its own.
//
// It works in a goroutine of its own, which alone sets the counts of [Attribution.Alone].
type aloneJudge struct {
	counts    *attribution
	rules     stint.Store // counts for rules
	limits    stint.Store // counts for single limits, of rules with several
	ofRules   limitCopies
	ofLimits  limitCopies
	sets      []*rule.Set // each has one rule, in the order of counts
	groups    []stint.Group
	decisions []stint.Decision
	outcome   rule.Outcome
	charged   rulesStore
	events    *background[decidedEvent]
	now       int64 // time of the event in work
	err       error // the first one
}

// decidedEvent is a copy of what the rules together said of an event.
type decidedEvent struct {
	t, cost, at int64
	list        rule.List
	hits        []rule.Hit
	sent        []stint.Claim // what the rules sent to the store
	event       timedFields   // if the rules must be matched again
}

// eventBatch is the number of events in a batch. An event takes about a kilobyte.
const eventBatch = 256

func newAloneJudge(ctx context.Context, set *rule.Set, a *attribution) *aloneJudge {
	j := &aloneJudge{counts: a, ofRules: limitCopies{}, ofLimits: limitCopies{}}
	for _, r := range set.Rules() {
		if r.Mode != rule.Off {
			j.sets = append(j.sets, set.Only(r))
		}
	}
	clock := func() time.Time { return time.UnixMicro(j.now) }
	j.rules, j.limits = memoryStore(clock), memoryStore(clock)
	j.charged.Store, j.charged.record = j.rules, true
	j.events = newBackground(eventBatch, func(e *decidedEvent) {
		if j.err == nil {
			j.err = j.decide(ctx, e)
		}
	})
	return j
}

// see hands an event to the judge.
func (j *aloneJudge) see(o *rule.Outcome, sent []stint.Claim, event *timedFields, p *pending) {
	e := j.events.next()
	e.t, e.cost, e.at, e.list = p.t, p.cost, p.at, o.List
	e.hits, e.sent = append(e.hits[:0], o.Hits...), append(e.sent[:0], sent...)
	if !e.complete() {
		e.event.t, e.event.fields = event.t, append(e.event.fields[:0], event.fields...)
	}
}

// complete reports whether the claims of all rules are known.
func (e *decidedEvent) complete() bool {
	return len(e.sent) == len(e.hits) && (len(e.sent) > 0 || e.list != rule.ListDeny)
}

// finish waits until all events are decided.
func (j *aloneJudge) finish() error {
	j.events.finish()
	return j.err
}

// decide decides an event.
func (j *aloneJudge) decide(ctx context.Context, e *decidedEvent) error {
	j.now = e.t
	if e.complete() {
		return j.again(ctx, e.hits, e.sent)
	}
	for _, set := range j.sets {
		j.charged.begin(e.cost, e.at)
		err := set.DecideInto(ctx, &j.charged, &e.event, max(e.cost, -e.cost), &j.outcome)
		if invalid(err) {
			continue // the event has no value that this rule accepts
		}
		if err != nil {
			return err
		}
		for hits := range byRule(j.outcome.Hits) {
			j.count(hits)
		}
		if err := j.eachLimit(ctx, j.outcome.Hits, j.charged.sent); err != nil {
			return err
		}
	}
	return nil
}

// again decides the claims of each rule as a group of its own.
func (j *aloneJudge) again(ctx context.Context, hits []rule.Hit, sent []stint.Claim) error {
	if len(j.sets) > 1 {
		for i := range sent {
			sent[i].Limit = j.ofRules.of(sent[i].Limit)
		}
		j.groups = j.groups[:0]
		first := 0
		for of := range byRule(hits) {
			j.groups = append(j.groups, stint.Group{Claims: sent[first : first+len(of)]})
			first += len(of)
		}
		if err := j.take(ctx, j.rules, len(sent)); err != nil {
			return err
		}
		j.outcome.Hits = append(j.outcome.Hits[:0], hits...)
		for i := range j.outcome.Hits {
			j.outcome.Hits[i].Decision = j.decisions[i]
		}
		for of := range byRule(j.outcome.Hits) {
			j.count(of)
		}
	}
	return j.eachLimit(ctx, hits, sent)
}

// count counts a rule that denies the event by itself.
func (j *aloneJudge) count(hits []rule.Hit) {
	if denies(hits) {
		j.counts.counts[j.counts.numbers[hits[0].Rule]].Alone++
	}
}

// eachLimit decides the claims of rules with several limits one by one. A hit without a claim
// denies without the store.
func (j *aloneJudge) eachLimit(ctx context.Context, hits []rule.Hit, sent []stint.Claim) error {
	for i := range hits {
		l := j.counts.counts[j.counts.numbers[hits[i].Rule]].limit(hits[i].Limit)
		switch {
		case l == nil:
		case len(sent) != len(hits):
			l.Alone++
		default:
			sent[i].Limit = j.ofLimits.of(hits[i].Limit)
			d, err := j.limits.Take(ctx, sent[i])
			if err != nil && !invalid(err) {
				return err
			}
			if err == nil && !d.Allowed {
				l.Alone++
			}
		}
	}
	return nil
}

// take decides the groups. A group with an invalid claim, which only a shadow rule can have,
// is allowed, as the rules have it.
func (j *aloneJudge) take(ctx context.Context, store stint.Store, claims int) error {
	j.decisions = slices.Grow(j.decisions[:0], claims)[:claims]
	errs, whole := storekit.PartErrors(store.TakeGroups(ctx, j.groups, j.decisions), len(j.groups))
	if whole != nil {
		return whole
	}
	decisions := j.decisions
	for i := range j.groups {
		n := len(j.groups[i].Claims)
		for d := range decisions[:n] {
			if errs != nil && errs[i] != nil {
				decisions[d] = stint.Decision{Allowed: true}
			}
		}
		decisions = decisions[n:]
	}
	return nil
}

// limitCopies are copies of limits for one more store. A limit remembers where it is in the last
// memory store that wrote a state under it, so two stores that share limits are slow.
type limitCopies map[stint.Limit]stint.Limit

func (c limitCopies) of(l stint.Limit) stint.Limit {
	other, known := c[l]
	if !known {
		var err error
		if other, err = l.Spec().Compile(); err != nil {
			other = l // it works, only slower
		}
		c[l] = other
	}
	return other
}
