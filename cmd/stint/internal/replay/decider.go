package replay

import (
	"context"
	"fmt"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// decider decides events and counts the decisions.
type decider interface {
	// decide decides an event at its time. An error with CodeInvalid means that the
	// event is invalid; any other error ends the replay.
	decide(ctx context.Context, p *pending, out *result) error
	// fields returns the values of the event that was decided last.
	fields(p *pending) fields
	// perRule returns the counts of each rule.
	perRule() []RuleCount
	// keysDenied returns how many keys were counted, and the keys with the most denials.
	keys(top int) (count int, denied []KeyCount)
}

// result is what a decider says of an event.
type result struct {
	rule, key string // rule and key of the binding claim; empty without one; rule.KeyText makes the key readable
	decision  stint.Decision
	caller    identityText
	counted   []int // the rules that counted it, as indexes of the counts
	denied    []int // those of them that denied it
}

// limitDecider decides every event by one limit. Events may change the limit's
// numbers.
type limitDecider struct {
	store   stint.Store
	limit   stint.Limit
	format  Format
	secret  bool // keys are credentials
	byKey   bool // of a decision log the hash of the key counts, which is shown whole
	callers *callerTally
	show    func(identityText) string
	counts  RuleCount
	scratch fields
}

func newLimitDecider(store stint.Store, o *Options, callers *callerTally) *limitDecider {
	d := &limitDecider{store: store, limit: o.Limit, format: o.Format, secret: secretBy(o.By), byKey: o.By == "key", callers: callers, show: o.show}
	d.counts = RuleCount{Rule: o.Limit.Rule(), Mode: rule.Enforce.String()}
	return d
}

func (d *limitDecider) decide(ctx context.Context, p *pending, out *result) (err error) {
	if p.limit.Valid() {
		d.limit = p.limit
	}
	out.rule, out.key = d.counts.Rule, p.text
	out.decision, err = d.store.Take(ctx, stint.Claim{Key: p.text, Limit: d.limit, Cost: p.cost, At: p.at})
	if err != nil {
		return err
	}
	out.caller = identityText{p.text, kindOfLimit, d.secret && (!d.byKey || p.caller == 0)}
	d.counts.Events++
	out.counted = onlyLimit
	if out.decision.Allowed {
		d.counts.Allowed++
		out.denied = nil
		return nil
	}
	d.counts.Denied++
	out.denied = onlyLimit
	return nil
}

// onlyLimit are the indexes of the counts of one limit.
var onlyLimit = []int{0}

// fields reads the line of the event again. An event has only its key until then.
func (d *limitDecider) fields(p *pending) fields {
	d.scratch, _, _ = d.format.fields(p.raw, d.scratch[:0]) // it was read before
	return d.scratch
}

func (d *limitDecider) perRule() []RuleCount {
	n := d.counts.Denied
	d.counts.Attribution = Attribution{Binding: n, Sole: n, Alone: n}
	return []RuleCount{d.counts}
}

// keys returns the callers: the limit counts by them.
func (d *limitDecider) keys(top int) (count int, denied []KeyCount) {
	for _, c := range d.callers.top(top, d.show) {
		denied = append(denied, KeyCount{Key: c.Caller, Denied: c.Denied})
	}
	return d.callers.requests.count, denied
}

// limitReader compiles the changes of limit in events, once for each text. A
// change keeps the scope of the first limit, and its name unless the change has
// one, so the state of a key continues when only numbers change.
type limitReader struct {
	first stint.Limit
	known map[string]stint.Limit
}

// rememberedLimits is the number of cached texts.
const rememberedLimits = 1024

func (r *limitReader) read(text string) (stint.Limit, error) {
	if limit, ok := r.known[text]; ok {
		return limit, nil
	}
	limit, err := r.compile(text)
	if err != nil {
		return limit, err
	}
	if len(r.known) >= rememberedLimits {
		clear(r.known)
	}
	r.known[text] = limit
	return limit, nil
}

func (r *limitReader) compile(text string) (stint.Limit, error) {
	if text[0] != '{' && text[0] != '"' {
		return stint.Limit{}, fmt.Errorf(`limit: %.40s is not a limit (write an object, or a text such as "100/m")`, text)
	}
	spec, err := rule.ParseSpec([]byte(text))
	if err != nil {
		return stint.Limit{}, err
	}
	spec.Namespace, spec.Rule = r.first.Namespace(), r.first.Rule()
	if spec.Name == "" {
		spec.Name = r.first.Name()
	}
	return spec.Compile()
}
