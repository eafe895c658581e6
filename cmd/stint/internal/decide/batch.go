package decide

import (
	"context"
	"slices"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/emergency"
	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
	"github.com/stintdev/stint/rule"
	"github.com/stintdev/stint/storekit"
)

// Batch holds the checks and takes of one request. One call to the store decides them
// together, each in its order as if it were alone.
//
// A surface adds items, calls Decide once, reads an Answer for each item, and calls End.
// The deadline of the call does not bound the delays of leaky buckets, as it does in
// [rule.Set.Decide]: it is how long the caller waits for the answer, and not how long the
// request that is decided can wait.
//
// A batch keeps its memory after End, so surfaces pool batches. It must not be used by
// several goroutines at once.
type Batch struct {
	decider *Decider
	rules   Rules // nil until the first check

	items     []item
	plans     []rule.Plan   // the plans of all checks
	invalid   []error       // the errors of all invalid items
	claims    []stint.Claim // the claims of all takes
	groups    []stint.Group
	decisions []stint.Decision // of the last request until the store overwrites them
	outcome   rule.Outcome     // reused for each check in turn
	combined  stint.Decision   // reused for each answer in turn
	answer    Answer           // reused for each answer in turn

	err     error   // the error of the whole call
	parts   int     // number of parts of the groups
	errs    []error // by part of the groups; nil if none failed
	failure error   // the first error of an answer that should be logged
	span    w3ctrace.Ref
}

// item is one check or take. It has no pointers, so that End need not clear it.
type item struct {
	kind      itemKind
	at        int32 // index in groups, plans or invalid
	parts     span  // range in groups
	decisions span
}

type itemKind uint8

const (
	takeItem itemKind = iota
	checkItem
	invalidItem
)

// span is an index range of a slice.
type span struct{ from, to int32 }

func spanOf(from, to int) span { return span{int32(from), int32(to)} }

func part[E any](s []E, p span) []E { return s[p.from:p.to:p.to] }

// NewBatch returns an empty batch.
func (d *Decider) NewBatch() *Batch { return &Batch{decider: d} }

// Check adds a check of attributes by the rules in force. The attributes must not change
// before End. After an error nothing has been added.
func (b *Batch) Check(a rule.Attributes, cost int64) error {
	if err := checkCost(cost, 0); err != nil {
		return err
	}
	if b.rules == nil {
		b.rules = b.decider.options.Rules()
	}
	read, err := b.rules.Read(a)
	if err != nil {
		return err
	}
	rules := b.rules.Of(read)
	if rules != b.rules { // a caller of the canary, whose rules may read other attributes
		if read, err = rules.Read(a); err != nil {
			return err
		}
	}
	plan := rules.RuleSet().Plan(read, cost)
	from, decided := len(b.groups), len(b.decisions)
	b.groups = plan.AppendGroups(b.groups)
	claims, parts := stint.Sizes(b.groups[from:])
	b.decisions = slices.Grow(b.decisions, claims)[:decided+claims]
	b.items = append(b.items, item{checkItem, int32(len(b.plans)), spanOf(b.parts, b.parts+parts), spanOf(decided, decided+claims)})
	b.parts += parts
	b.plans = append(b.plans, plan)
	return nil
}

// Take adds a take. After an error nothing has been added.
func (b *Batch) Take(t *Take) error {
	if err := t.check(); err != nil {
		return err
	}
	cost, first, n := t.Cost, len(b.claims), len(t.Limits)
	if t.Forget {
		cost = stint.Forget
	}
	b.claims = slices.Grow(b.claims, n+1)[:first+n] // zero, because End clears claims
	claims := b.claims[first : first+n : first+n]
	for i := range claims {
		c := &claims[i]
		c.Key, c.Limit, c.Cost, c.Extra, c.At = t.Key, t.Limits[i], cost, t.Extra, t.At
		c.Policy.OnFailure = t.OnFailure
		if t.Any {
			c.AnyOf = 1
		}
	}
	if e := b.decider.options.Emergency(); e != nil {
		claims = b.joinEmergency(e, first)
		n = len(claims)
	}
	decided := len(b.decisions)
	b.decisions = slices.Grow(b.decisions, n)[:decided+n]
	b.items = append(b.items, item{takeItem, int32(len(b.groups)), spanOf(b.parts, b.parts+1), spanOf(decided, decided+n)})
	b.groups = append(b.groups, stint.Group{Claims: claims})
	b.parts++
	return nil
}

// Refund adds a take that returns t.Cost units, at least 1.
func (b *Batch) Refund(t *Take) error {
	if err := checkCost(t.Cost, 1); err != nil {
		return err
	}
	t.Cost = -t.Cost
	return b.Take(t)
}

// Fail adds an item that is answered with err.
func (b *Batch) Fail(err error) {
	b.items = append(b.items, item{kind: invalidItem, at: int32(len(b.invalid))})
	b.invalid = append(b.invalid, err)
}

// Len returns the number of items.
func (b *Batch) Len() int { return len(b.items) }

// Decide decides all items by one call to the store, and reports it. The reported
// duration begins at started.
func (b *Batch) Decide(ctx context.Context, started time.Time) {
	if len(b.groups) > 0 {
		b.errs, b.err = storekit.PartErrors(b.call(ctx), b.parts)
	}
	report := Report{Took: time.Since(started), Span: b.span}
	for i := range b.items {
		switch it := &b.items[i]; it.kind {
		case invalidItem:
			report.EndedChecks[Invalid]++
		case checkItem:
			report.Checks++
			if err := b.ErrorOf(i); err != nil {
				report.EndedChecks[EndingOfError(err)]++
			}
		case takeItem:
			report.Takes++
			if err := b.takeError(it); err != nil {
				report.Ended[EndingOfError(err)]++
			} else {
				claims := b.groups[it.at].Claims
				decisions := part(b.decisions, it.decisions)
				binding, d := combine(claims, decisions, &b.combined)
				report.count(d, claims)
				b.decider.taken(claims, binding, d, b.span)
				if last := len(claims) - 1; claims[last].Limit.Rule() == emergency.Rule {
					report.addEmergency(&decisions[last], d.Allowed)
				}
			}
		}
	}
	b.decider.options.Observe(report)
}

// call calls the store. A single claim goes through Take, which stores answer in fewer
// steps and can send together with claims of other requests. One that may be repeated does
// not: Take knows no Once.
func (b *Batch) call(ctx context.Context) (err error) {
	if first := &b.groups[0]; b.parts == 1 && len(first.Claims) == 1 && first.Once == nil {
		b.decisions[0], err = b.decider.options.Store.Take(ctx, first.Claims[0])
		return err
	}
	return b.decider.takeGroups(ctx, b.groups, b.decisions)
}

// takeError returns why a take has no decision.
func (b *Batch) takeError(it *item) error { return errorOfPart(b.err, b.errs, int(it.parts.from)) }

// SetSpan sets the span of the request, for its report.
func (b *Batch) SetSpan(span w3ctrace.Ref) { b.span = span }

// Reject reports that the whole request, a take or not, is the caller's mistake. It is for
// requests that are not decided.
func (b *Batch) Reject(take bool) { b.decider.Reject(take) }

// Answer is the answer to one item. It is valid until the next call of [Batch.Answer].
type Answer struct {
	// Decision is the combined decision. If a list decided, or no limit counted the
	// request, it has no numbers.
	Decision *stint.Decision
	// Unavailable reports that the request was denied because the store failed.
	Unavailable bool

	Outcome *rule.Outcome // outcome of a check; nil for a take

	// The claims of a take and their decisions. While an emergency is on, its claim is the
	// last.
	Claims    []stint.Claim
	Decisions []stint.Decision
}

// Answer returns the answer to item i, or the error that prevented a decision. It must be
// called once for each check, because it counts the outcome.
func (b *Batch) Answer(i int) (a *Answer, err error) {
	it := &b.items[i]
	switch it.kind {
	case invalidItem:
		return nil, b.invalid[it.at]
	case checkItem:
		err = b.answerCheck(it)
	case takeItem:
		err = b.answerTake(it)
	}
	if err == nil {
		return &b.answer, nil
	}
	if b.failure == nil && IsFailure(err) {
		b.failure = err
	}
	return nil, err
}

// Failure returns the first error of the answers so far that should be logged, or nil.
// When the store fails, all items fail alike, so one line for a batch is enough.
func (b *Batch) Failure() error { return b.failure }

func (b *Batch) answerTake(it *item) error {
	if err := b.takeError(it); err != nil {
		return err
	}
	a := &b.answer
	a.Outcome, a.Claims, a.Decisions = nil, b.groups[it.at].Claims, part(b.decisions, it.decisions)
	_, a.Decision = combine(a.Claims, a.Decisions, &b.combined)
	a.Unavailable = a.Decision.Unavailable
	return nil
}

func (b *Batch) answerCheck(it *item) error {
	o := &b.outcome
	plan := b.plans[it.at]
	a, cost := plan.Request()
	rules := b.rules.Of(a)
	if err := b.settle(it, plan); err != nil {
		if cost != 0 && EndingOfError(err) == Failed {
			rules.CountError(a)
		}
		return err
	}
	rules.Count(a, cost, o, b.span)
	b.answer = Answer{Decision: &o.Decision, Unavailable: o.Unavailable(), Outcome: o}
	if o.List != rule.ListNone || o.Binding < 0 {
		b.combined = stint.Decision{Allowed: o.Allowed()}
		b.answer.Decision = &b.combined
	}
	return nil
}

// settle writes the outcome of a check.
func (b *Batch) settle(it *item, plan rule.Plan) error {
	if b.err != nil && it.parts.from < it.parts.to {
		return b.err
	}
	var errs []error
	if b.errs != nil {
		errs = part(b.errs, it.parts)
	}
	return plan.Settle(part(b.decisions, it.decisions), errs, &b.outcome)
}

// maxKept bounds the items, claims and groups whose memory a batch keeps after End.
const maxKept = 4096

// End drops the data of the request, which names callers, and makes the batch empty. The
// answers and the plans are no longer valid.
func (b *Batch) End() {
	for _, plan := range b.plans {
		plan.Release()
	}
	if max(cap(b.items), cap(b.claims), cap(b.groups)) > maxKept {
		*b = Batch{decider: b.decider}
		return
	}
	if b.rules != nil {
		clear(b.plans)
		clear(b.outcome.Hits)
		b.rules, b.outcome = nil, rule.Outcome{Hits: b.outcome.Hits[:0]}
	}
	clear(b.invalid)
	clear(b.claims)
	clear(b.groups)
	b.items, b.plans, b.invalid = b.items[:0], b.plans[:0], b.invalid[:0]
	b.claims, b.groups, b.decisions = b.claims[:0], b.groups[:0], b.decisions[:0]
	b.err, b.parts, b.errs, b.failure, b.span = nil, 0, nil, nil, ""
}
