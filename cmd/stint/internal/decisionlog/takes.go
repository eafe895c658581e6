package decisionlog

import (
	"strconv"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
)

// Takes is the rule of decisions on limits that callers bring, in lines and counts. No rule can
// have this name.
const Takes = "(take)"

// RecordTake logs a decision on limits that the caller brings, or leaves it out: the combined
// decision of the claims of one take. Peeks, refunds and resets are never logged. The line has
// no name of a limit, because the caller chooses it. span is that of the request.
func (l *Log) RecordTake(claims []stint.Claim, d stint.Decision, span w3ctrace.Ref) {
	if claims[0].Cost <= 0 || claims[0].Cost == stint.Forget {
		return
	}
	key := claims[0].Key
	c := choice{notable: !d.Allowed || d.Degraded, span: span}
	if !l.chosen(&c, func() string { return key }) || !l.admit(&c, l.takes) {
		return
	}
	line, _ := lines.Get().(*[]byte)
	*line = l.appendTake((*line)[:0], &claims[0], &d, &c)
	l.append(l.takes, &c, *line)
	lines.Put(line)
}

func (l *Log) appendTake(b []byte, claim *stint.Claim, d *stint.Decision, c *choice) []byte {
	b = l.appendKey(appendTime(b, d.At, c.now), claim.Key, claim.Cost)
	b = appendText(append(b, `,"rule":`...), Takes)
	return l.appendSample(appendAnswer(b, d, d.Allowed, d.Degraded, true), c)
}

// appendKey appends a key that is counted, shortened and as its hash, and the cost.
func (l *Log) appendKey(b []byte, key string, cost int64) []byte {
	b = appendText(append(b, `,"key":`...), impact.Shorten(key))
	b = append(b, `,"id":`...)
	b = appendHash(b, &l.options.Key, key)
	return appendInt(append(b, `,"cost":`...), cost)
}

// appendAnswer appends the answer to a request, with the numbers of the decision if a limit
// counted it.
func appendAnswer(b []byte, d *stint.Decision, allowed, degraded, counted bool) []byte {
	b = strconv.AppendBool(append(b, `,"allowed":`...), allowed)
	if counted {
		b = appendInt(append(b, `,"limit":`...), d.Limit)
		b = appendInt(append(b, `,"remaining":`...), d.Remaining)
	}
	b = appendRetry(b, allowed, d.RetryAfter)
	return strconv.AppendBool(append(b, `,"degraded":`...), degraded)
}
