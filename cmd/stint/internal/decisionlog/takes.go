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
func (l *Log) RecordTake(claims []stint.Claim, d *stint.Decision, span w3ctrace.Ref) {
	if claims[0].Cost <= 0 || claims[0].Cost == stint.Forget {
		return
	}
	key := claims[0].Key
	c := choice{notable: !d.Allowed || d.Degraded, span: span}
	if !l.chosen(&c, func() string { return key }) || !l.admit(&c, l.takes) {
		return
	}
	line, _ := lines.Get().(*[]byte)
	*line = l.appendTake((*line)[:0], &claims[0], d, &c)
	l.append(l.takes, c.notable, *line)
	lines.Put(line)
}

func (l *Log) appendTake(b []byte, claim *stint.Claim, d *stint.Decision, c *choice) []byte {
	b = appendTime(b, d.At, c.now)
	b = appendText(append(b, `,"key":`...), impact.Shorten(claim.Key))
	b = append(b, `,"id":`...)
	b = appendHash(b, &l.options.Key, claim.Key)
	b = appendInt(append(b, `,"cost":`...), claim.Cost)
	b = appendText(append(b, `,"rule":`...), Takes)
	b = strconv.AppendBool(append(b, `,"allowed":`...), d.Allowed)
	b = appendInt(append(b, `,"limit":`...), d.Limit)
	b = appendInt(append(b, `,"remaining":`...), d.Remaining)
	b = appendRetry(b, d.Allowed, d.RetryAfter)
	b = strconv.AppendBool(append(b, `,"degraded":`...), d.Degraded)
	return l.appendSample(b, c)
}
