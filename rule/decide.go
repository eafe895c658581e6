package rule

import (
	"context"
	"fmt"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// Decide finds the rules that match the request and takes their claims from the
// store. The enforced claims form one atomic group, and the claims of each shadow
// rule observe it. cost applies where a rule does not configure one; 0 peeks.
//
// The error is a [*stint.Error]. Its code is CodeInvalid for an invalid cost or
// attribute and CodeExhausted for too many sets of alternatives; otherwise it
// is the store's error, and the Outcome then holds the Hits that were sent to
// the store, without decisions. A shadow rule causes an error only if its
// conditions need an attribute that is invalid.
//
// A leaky bucket denies a request that it would delay past the deadline of ctx, and
// does not charge it.
//
// Decide is shorthand for [Set.DecideInto] with a new Outcome.
func (s *Set) Decide(ctx context.Context, store stint.Store, a Attributes, cost int64) (Outcome, error) {
	var o Outcome
	err := s.DecideInto(ctx, store, a, cost, &o)
	return o, err
}

// DecideInto is [Set.Decide] with an Outcome that the caller provides. It
// overwrites the Hits. A caller that reuses one Outcome for many requests saves
// the allocation.
func (s *Set) DecideInto(ctx context.Context, store stint.Store, a Attributes, cost int64, o *Outcome) error {
	q := s.borrow(a, cost)
	defer s.release(q)
	q.plan()
	if done, err := q.answer(o); done || err != nil {
		return err
	}
	if err := q.takeClaims(ctx, store); err != nil {
		return err
	}
	q.decided(o)
	return nil
}

// plan builds the claims that the request sends to the store.
func (q *request) plan() {
	if q.cost < 0 || q.cost > stint.MaxCost {
		q.err = &stint.Error{Code: stint.CodeInvalid, Problem: fmt.Sprintf("cost: %d is out of range", q.cost), Mend: rangeMend(0, stint.MaxCost)}
		return
	}
	if q.err = q.checkPath(); q.err == nil {
		q.list = q.collectClaims()
	}
}

// answer initializes the outcome and reports whether the outcome is final
// without the store.
func (q *request) answer(o *Outcome) (done bool, err error) {
	*o = Outcome{Decision: stint.Decision{Allowed: true}, Binding: -1, Hits: o.Hits[:0], List: q.list}
	if q.list == ListDeny {
		o.Decision = stint.Decision{RetryAfter: stint.Never}
	}
	if q.err != nil || q.list != ListNone {
		return true, q.err
	}
	o.Hits = append(append(o.Hits, q.hits...), q.shadows...)
	if q.denied {
		q.denyOutcome(o)
		return true, nil
	}
	return len(q.enforced)+len(q.shadow) == 0, nil
}

// collectClaims checks the lists and collects the claims of the rules that match. It
// returns the list that decides the request, if any.
func (q *request) collectClaims() List {
	s := q.set
	if q.listed(&s.lists.deny) {
		return ListDeny
	}
	allowed := q.listed(&s.lists.allow)
	if q.err != nil || allowed && !s.rulesDeny {
		return listIf(allowed)
	}
	q.found = s.index.collect(q, q.found[:0])
	for _, i := range q.found {
		r := s.rules[i]
		if !r.match.match(q) {
			continue
		}
		if q.deniedByRule(r) {
			return ListDeny
		}
		if !allowed {
			before := q.err
			q.claim(r)
			if r.Mode == Shadow { // its errors must not fail the request
				q.err = before
			}
		}
	}
	return listIf(allowed)
}

func listIf(allowed bool) List {
	if allowed {
		return ListAllow
	}
	return ListNone
}

func (q *request) deniedByRule(r *Rule) bool {
	return r.Mode != Shadow && q.listed(&r.lists.deny)
}

// listed reports whether the request is on the list.
func (q *request) listed(list *selector) bool {
	_, ok := q.selected(list)
	return ok
}

// denyOutcome builds the outcome of a request that a rule denies without the
// store. Nothing is counted for the request, by shadow rules either. Of the
// shadow hits, only the unconditional denials remain.
func (q *request) denyOutcome(o *Outcome) {
	n := len(q.hits)
	o.Hits = o.Hits[:n]
	for _, h := range q.shadows {
		if h.Decision.RetryAfter == stint.Never {
			o.Hits = append(o.Hits, h)
		}
	}
	o.Binding, o.Decision = 0, q.hits[0].Decision
}

// takeClaims fills q.decisions: first the decisions of the enforced claims, then
// those of the shadow claims.
func (q *request) takeClaims(ctx context.Context, store stint.Store) error {
	if store == nil {
		return &stint.Error{Problem: "the store is nil", Mend: "pass the store that counts"}
	}
	if usable := stint.MaxDelayOf(ctx); usable != 0 {
		q.boundDelays(usable)
	}
	n := len(q.enforced) + len(q.shadow)
	q.decisions = append(q.decisions[:0], make([]stint.Decision, n)...)
	if len(q.enforced) == 1 && len(q.shadow) == 0 {
		d, err := store.Take(ctx, q.enforced[0])
		q.decisions[0] = d
		return err
	}
	q.makeGroup()
	err := store.TakeGroups(ctx, q.group[:], q.decisions)
	if errs, whole := storekit.PartErrors(err, q.group[0].Parts()); whole != nil {
		return whole
	} else if errs != nil {
		return q.enforcedError(errs)
	}
	return nil
}

// boundDelays sets the greatest delay that the caller can use.
func (q *request) boundDelays(usable time.Duration) {
	for _, claims := range [...][]stint.Claim{q.enforced, q.shadow} {
		for i := range claims {
			claims[i].MaxDelay = usable
		}
	}
}

// makeGroup makes the enforced claims a group that the claims of each shadow rule
// observe.
func (q *request) makeGroup() {
	q.lists = q.lists[:0]
	for start := 0; start < len(q.shadow); {
		end := start + 1
		for end < len(q.shadow) && q.shadow[end].Limit.Rule() == q.shadow[start].Limit.Rule() {
			end++
		}
		q.lists = append(q.lists, q.shadow[start:end])
		start = end
	}
	q.group[0] = stint.Group{Claims: q.enforced, Shadows: q.lists}
}

// enforcedError returns the error of the enforced claims, if any. Errors of
// shadows are ignored: their decisions become allowed and degraded.
func (q *request) enforcedError(errs []error) error {
	if errs[0] != nil {
		return errs[0]
	}
	shadows := q.decisions[len(q.enforced):]
	for i, claims := range q.lists {
		if errs[1+i] != nil {
			for j := range claims {
				shadows[j] = stint.Decision{Allowed: true, Degraded: true, At: q.time()}
			}
		}
		shadows = shadows[len(claims):]
	}
	return nil
}

// decided copies the store's decisions to the hits, which are in the same
// order, and combines the enforced ones. A shadow rule that denies without the
// store keeps the decision that its hit already has.
func (q *request) decided(o *Outcome) {
	next := 0
	for i := range o.Hits {
		h := &o.Hits[i]
		if h.Shadow && h.Decision.RetryAfter == stint.Never {
			continue
		}
		h.Decision = q.decisions[next]
		next++
	}
	if n := len(q.enforced); n > 0 {
		o.Binding, o.Decision = stint.Combine(q.enforced, q.decisions[:n])
	}
}

// List tells which list a request is on.
type List uint8

// The lists.
const (
	ListNone  List = iota
	ListAllow      // admitted without being counted
	ListDeny       // denied without being counted: HTTP status 403
)

var listNames = []string{"none", "allow", "deny"}

// String returns "none", "allow" or "deny".
func (l List) String() string {
	if int(l) < len(listNames) {
		return listNames[l]
	}
	return fmt.Sprintf("List(%d)", l)
}

// Outcome is the answer of a rule set to a request.
type Outcome struct {
	List List
	// Decision is the combined decision of the enforced claims. It is allowed and
	// has a zero Limit when no enforced claim applied.
	Decision stint.Decision
	// Binding is the index in Hits of the binding claim. It is −1 when no enforced
	// claim applied.
	Binding int
	// Hits has one entry for each claim: first the claims of enforced rules, then
	// those of shadow rules, each in file order.
	Hits []Hit
}

// Hit is one claim of a rule together with its decision.
type Hit struct {
	Rule     *Rule
	Limit    stint.Limit
	Key      string // [KeyText] makes it readable
	Shadow   bool
	Decision stint.Decision
}

// Unavailable reports whether the request is denied because the store failed: at least
// one of its enforced rules fails closed, whichever rule has the longest wait.
func (o *Outcome) Unavailable() bool {
	if o.Binding < 0 || o.Allowed() {
		return false
	}
	for i := range o.Hits {
		if h := &o.Hits[i]; !h.Shadow && h.Decision.Unavailable {
			return true
		}
	}
	return false
}

// Reason returns why a penalty denied the request, as a sentence for its caller, or "" if
// no penalty did.
func (o *Outcome) Reason() string {
	if o.Binding < 0 || o.Decision.Penalty == stint.NoPenalty {
		return ""
	}
	p := o.Hits[o.Binding].Rule.Penalty
	if p == nil { // the rules have just changed: the store punishes by the new ones
		return ""
	}
	end := time.UnixMicro(o.Decision.At).Add(o.Decision.RetryAfter + time.Second - time.Microsecond).UTC().Truncate(time.Second).Format(time.RFC3339)
	if o.Decision.Penalty == stint.HotKey {
		return fmt.Sprintf("Banned until %s after too many requests per second", end)
	}
	verb, plural := "Blocked", "s"
	if o.Decision.Penalty == stint.Ban {
		verb = "Banned"
	}
	if p.Strikes.Max() == 1 {
		plural = ""
	}
	return fmt.Sprintf("%s until %s after %d denial%s", verb, end, p.Strikes.Max(), plural)
}

// Allowed reports whether the request is admitted.
func (o *Outcome) Allowed() bool {
	return o.List != ListDeny && o.Decision.Allowed
}
