// Package decide turns the checks and takes of one request into one call to the store,
// and the decisions of the store into answers.
//
// The surfaces whose callers send attributes or limits use it: the check API, gRPC and
// RESP. (The gateway and forward auth decide requests over HTTP, by package rulelimit.) A
// surface translates its messages into plain values, adds them to a [Batch], and writes
// the answers in its own form. The package applies the bounds that all surfaces share, and
// the mark that keeps the limits of callers apart from those of rules.
//
// The package promises that one rule set decides all checks of a batch, that an invalid
// item fails only itself, and that every decision is reported once.
package decide

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/emergency"
	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
	"github.com/stintdev/stint/rule"
	"github.com/stintdev/stint/storekit"
)

// Options configures a [Decider].
type Options struct {
	// Store makes the decisions; required.
	Store stint.Store
	// Rules returns the rule set in force. It is required for checks.
	Rules func() Rules
	// Observe, if not nil, receives one report of each call to the store.
	Observe func(Report)
	// Taken, if not nil, is called with the claims of each take that has a decision, their
	// combined decision, and the span of the request. It must not keep them.
	Taken func([]stint.Claim, stint.Decision, w3ctrace.Ref)
	// Denied, if not nil, is called with the binding claim of each take that is denied, and the
	// combined decision. It must not keep the claim.
	Denied func(*stint.Claim, stint.Decision)
	// Emergency returns the emergency whose limit joins every take, or nil without one.
	// Nil: there is never one. Checks have its limit from their rules.
	Emergency func() *emergency.InForce
}

// Rules is a rule set in force.
type Rules interface {
	// Of returns the rules that decide a request with these attributes: the receiver, unless
	// the caller of the request belongs to a canary.
	Of(a rule.Attributes) Rules
	// RuleSet returns the rules.
	RuleSet() *rule.Set
	// Read returns the attributes of a check with those that its caller sends in another
	// form, such as the claims of a token. The error makes the check invalid.
	Read(given rule.Attributes) (rule.Attributes, error)
	// Count receives every outcome, with the attributes, the cost and the span of its request.
	Count(a rule.Attributes, cost int64, o *rule.Outcome, span w3ctrace.Ref)
	// CountError is called for every valid check that charges and has no outcome. A mistake of
	// the caller is no such check: a canary would end by errors that any caller can make up.
	CountError(a rule.Attributes)
}

// Report says what one call to the store decided. The outcomes of checks go to
// [Rules.Count] instead.
type Report struct {
	Took   time.Duration // from the start of the request to its decisions
	Checks int           // valid checks
	Takes  int           // valid takes
	Span   w3ctrace.Ref  // of the request; empty if its trace is not sampled

	// Decisions on takes. A take whose group failed has none. A degraded decision counts
	// only as degraded, under the failure policy that decided. A denied take whose limits
	// fail open has no count: the emergency has denied it.
	Allowed, Denied int
	Degraded        [stint.FailLastKnown + 1]int

	// Ended counts the takes by how they ended, and EndedChecks the checks that have no
	// outcome, and the items of which it is not known what they are.
	Ended, EndedChecks [Endings]int

	// Emergency counts the takes that the limit of the emergency joined, as a rule does:
	// those that it denied, and those that all their limits admitted. Local are those that it
	// decided without the store.
	Emergency struct{ Allowed, Denied, Local int }
}

// Ending is how a check or a take ended, whichever rule or limit decided.
type Ending uint8

// The endings.
const (
	Allowed Ending = iota
	Denied
	DegradedAllowed // without the store
	DegradedDenied
	Failed  // no decision: the store failed
	Invalid // the caller's mistake

	Endings
)

// EndingOf returns how an item with a decision ended.
func EndingOf(allowed, degraded bool) Ending {
	switch {
	case allowed && degraded:
		return DegradedAllowed
	case allowed:
		return Allowed
	case degraded:
		return DegradedDenied
	}
	return Denied
}

// EndingOfError returns how an item ended that has no decision.
func EndingOfError(err error) Ending {
	if code := stint.CodeOf(err); code == stint.CodeInvalid || code == stint.CodeConflict {
		return Invalid
	}
	return Failed
}

// count adds the decision on the claims of a take.
func (r *Report) count(d *stint.Decision, claims []stint.Claim) {
	r.Ended[EndingOf(d.Allowed, d.Degraded)]++
	switch {
	case d.Degraded:
		if policy := failurePolicy(claims); d.Allowed || policy != stint.FailOpen {
			r.Degraded[policy]++
		}
	case d.Allowed:
		r.Allowed++
	default:
		r.Denied++
	}
}

// failurePolicy returns the policy that decides the claims of a take while the store fails:
// closed before local and last known, and those before open. It ignores the claim of the
// emergency, which has counts of its own.
func failurePolicy(claims []stint.Claim) stint.OnFailure {
	policy := stint.FailOpen
	for i := range claims {
		switch p := claims[i].Policy.OnFailure; {
		case p == stint.FailOpen || claims[i].Limit.Rule() == emergency.Rule:
		case p == stint.FailClosed || policy == stint.FailOpen:
			policy = p
		}
	}
	return policy
}

// Decider decides the requests of one surface.
type Decider struct{ options Options }

// New returns a decider.
func New(o Options) *Decider {
	if o.Observe == nil {
		o.Observe = func(Report) {}
	}
	if o.Emergency == nil {
		o.Emergency = func() *emergency.InForce { return nil }
	}
	return &Decider{o}
}

// TakeGroups decides groups of claims that need no more checks, by one call to the store,
// and reports the decisions of the enforced groups. Surfaces use it that have claims already
// and too many for a [Batch] to be cheap: those of another Stint, and those of RESP's
// pipelines. errs has the error of each part of the groups, or is nil if none failed. If err
// is not nil, nothing was decided. The reported duration begins at started. span is that of the
// request.
func (d *Decider) TakeGroups(ctx context.Context, started time.Time, span w3ctrace.Ref, groups []stint.Group, out []stint.Decision) (errs []error, err error) {
	_, parts := stint.Sizes(groups)
	report := Report{Takes: parts, Span: span}
	if e := d.options.Emergency(); e == nil {
		err = d.takeGroups(ctx, groups, out)
	} else {
		err = d.takeInEmergency(ctx, e, groups, out, &report)
	}
	errs, err = storekit.PartErrors(err, parts)
	report.Took = time.Since(started)
	var combined stint.Decision
	part := 0
	for i := range groups {
		g := &groups[i]
		own := out[:len(g.Claims)]
		switch failed := errorOfPart(err, errs, part); {
		case failed != nil:
			report.Ended[EndingOfError(failed)]++
		case len(own) > 0:
			binding, decision := combine(g.Claims, own, &combined)
			report.count(decision, g.Claims)
			d.taken(g.Claims, binding, decision, span)
		}
		claims, parts := stint.Sizes(groups[i : i+1])
		out, part = out[claims:], part+parts
	}
	d.options.Observe(report)
	return errs, err
}

// taken reports a take. It passes the decision by value: a pointer in the hands of an unknown
// function would put each decision on the heap.
func (d *Decider) taken(claims []stint.Claim, binding int, decision *stint.Decision, span w3ctrace.Ref) {
	if d.options.Denied != nil && !decision.Allowed {
		d.options.Denied(&claims[binding], *decision)
	}
	if d.options.Taken != nil {
		d.options.Taken(claims, *decision, span)
	}
}

// errorOfPart returns the error of a part of a call: that of the whole call, or its own.
func errorOfPart(err error, errs []error, part int) error {
	if errs != nil {
		return errs[part]
	}
	return err
}

// Reject reports a check or a take that is the caller's mistake, and that no batch has.
func (d *Decider) Reject(take bool) {
	var r Report
	if take {
		r.Ended[Invalid] = 1
	} else {
		r.EndedChecks[Invalid] = 1
	}
	d.options.Observe(r)
}

// combine returns the index of the binding claim of a group, and the combined decision, which it
// writes to room if there are several.
func combine(claims []stint.Claim, decisions []stint.Decision, room *stint.Decision) (binding int, d *stint.Decision) {
	if len(claims) == 1 {
		return 0, &decisions[0]
	}
	binding, *room = stint.Combine(claims, decisions)
	return binding, room
}

// IsFailure reports whether an error of a decision should be logged. A mistake of the
// caller should not. Neither should the error of an open circuit, which was logged when
// it opened, nor that of callers over a budget, which is counted: a flood of either
// would fill the log.
func IsFailure(err error) bool {
	failed, ok := errors.AsType[*stint.Error](err)
	return !ok || !ofCaller(failed) && failed.Kind != stint.KindBreakerOpen
}

// ofCaller reports whether an error is a mistake of the caller, or says that callers have
// used up a budget.
func ofCaller(e *stint.Error) bool {
	return e.Code == stint.CodeInvalid || e.Code == stint.CodeConflict || e.Kind == stint.KindCallerBudget || e.Kind == stint.KindOnceBudget
}

// Explain returns what a caller may know of an error of the store. The cause may name
// internal servers, so only the log gets it.
func Explain(e *stint.Error) string {
	if ofCaller(e) {
		return e.Error()
	}
	return "no decision could be made: the store fails (" + e.KindName() + ")"
}

// stringBlock is the size of a block of strings in bytes: one allocation for some
// hundred keys. A store that keeps one key retains at most one block.
const stringBlock = 4 << 10

// Strings copies parsed bytes to strings, which stay valid while the buffer of the bytes
// is reused. Many strings share one block of memory, which saves an allocation for each.
// The zero value is ready for use.
type Strings struct{ block strings.Builder }

// Keep returns the text as a string. A block never grows, so earlier strings never move.
func (s *Strings) Keep(text []byte) string {
	if len(text) > stringBlock/4 {
		return string(text)
	}
	if s.block.Cap()-s.block.Len() < len(text) {
		s.block = strings.Builder{}
		s.block.Grow(stringBlock)
	}
	from := s.block.Len()
	s.block.Write(text)
	return s.block.String()[from:]
}
