package httpapi

import (
	"strconv"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/rule"
)

// Decisions are encoded by hand: the members and their order are a contract with callers,
// and a batch has up to a thousand of them. No text needs escaping: the names of rules
// and limits consist of letters, digits and _.:-, and reasons have no quotes.

// appendNumbers appends the members that a decision and each of its lines share.
func appendNumbers(b []byte, d *stint.Decision) []byte {
	b = strconv.AppendBool(append(b, `"allowed":`...), d.Allowed)
	b = strconv.AppendInt(append(b, `,"limit":`...), d.Limit, 10)
	b = strconv.AppendInt(append(b, `,"remaining":`...), d.Remaining, 10)
	never := d.RetryAfter == stint.Never
	if !never {
		b = strconv.AppendInt(append(b, `,"retry_after_ms":`...), milliseconds(d.RetryAfter), 10)
	}
	b = strconv.AppendInt(append(b, `,"reset_after_ms":`...), milliseconds(d.ResetAfter), 10)
	b = strconv.AppendInt(append(b, `,"delay_ms":`...), milliseconds(d.Delay), 10)
	b = strconv.AppendBool(append(b, `,"never":`...), never)
	b = strconv.AppendBool(append(b, `,"degraded":`...), d.Degraded)
	if d.Penalty != stint.NoPenalty {
		b = appendName(b, `,"penalty":"`, d.Penalty.String())
	}
	return strconv.AppendInt(append(b, `,"at_us":`...), d.At, 10)
}

// milliseconds returns d in milliseconds, rounded up. A caller that waits for the result
// never comes back before d is over.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// appendAnswer appends the answer to a check or a take: the combined decision, then one
// line for each claim.
func appendAnswer(b []byte, a *decide.Answer) []byte {
	if a.Outcome != nil {
		return appendOutcome(b, a.Outcome)
	}
	b = appendNumbers(append(b, '{'), a.Decision)
	b = append(appendName(b, `,"rule":"`, a.DecidingRule()), `,"limits":[`...)
	for i := range a.Claims {
		l := a.Claims[i].Limit
		b = append(appendLine(b, i, l.Rule(), l.Name(), &a.Decisions[i]), '}')
	}
	return append(b, ']', '}')
}

func appendOutcome(b []byte, o *rule.Outcome) []byte {
	if o.List != rule.ListNone || o.Binding < 0 {
		b = strconv.AppendBool(append(b, `{"allowed":`...), o.Allowed())
		if o.List == rule.ListDeny {
			b = append(b, `,"listed":true`...)
		}
	} else {
		b = appendNumbers(append(b, '{'), &o.Decision)
		b = appendName(b, `,"rule":"`, o.Hits[o.Binding].Rule.ID)
		if reason := o.Reason(); reason != "" {
			b = appendName(b, `,"reason":"`, reason)
		}
	}
	b = append(b, `,"limits":[`...)
	for i := range o.Hits {
		h := &o.Hits[i]
		b = appendLine(b, i, h.Rule.ID, h.Limit.Name(), &h.Decision)
		if h.Shadow { // decided, but never denies
			b = append(b, `,"shadow":true`...)
		}
		b = append(b, '}')
	}
	return append(b, ']', '}')
}

// appendLine appends the decision of the i-th claim, without the closing brace.
func appendLine(b []byte, i int, rule, name string, d *stint.Decision) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	b = appendName(b, `{"rule":"`, rule)
	b = appendName(b, `,"name":"`, name)
	return appendNumbers(append(b, ','), d)
}

func appendName(b []byte, member, name string) []byte {
	b = append(append(b, member...), name...)
	return append(b, '"')
}
