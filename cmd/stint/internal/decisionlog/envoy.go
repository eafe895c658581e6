package decisionlog

import (
	"github.com/stintdev/stint/cmd/stint/internal/envoyrls"
	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
)

// Domains says which domains the files of Envoy's rate limit service define. Each has a share of
// the lines, as a rule has. The counts of other domains are forgotten.
func (l *Log) Domains(names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.domains = names
	l.assignLocked()
}

// RecordEnvoy logs a decision on a request from Envoy, or leaves it out. The rule of the line is
// the domain. Requests that only peek or refund are never logged.
func (l *Log) RecordEnvoy(d *envoyrls.Decided, span w3ctrace.Ref) {
	if d.Cost <= 0 {
		return
	}
	c := choice{notable: !d.Allowed || d.Degraded, span: span}
	if !l.chosen(&c, func() string { return d.Key }) {
		return
	}
	of := l.shareOf(d.Rule)
	if !l.admit(&c, of) {
		return
	}
	line, _ := lines.Get().(*[]byte)
	*line = l.appendEnvoy((*line)[:0], d, &c)
	l.append(of, &c, *line)
	lines.Put(line)
}

// shareOf returns the share of a rule or a domain in force, or else that of decisions of no rule.
func (l *Log) shareOf(name string) *share {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.mu.shares[name]; s != nil {
		return s
	}
	return l.none
}

func (l *Log) appendEnvoy(b []byte, d *envoyrls.Decided, c *choice) []byte {
	b = l.appendKey(appendTime(b, d.Decision.At, c.now), d.Key, d.Cost)
	b = append(b, `,"surface":"envoy","rule":`...)
	b = appendText(b, d.Rule)
	if d.Limit != "" {
		b = append(b, `,"limit_name":`...)
		b = appendText(b, d.Limit)
	}
	b = appendAnswer(b, &d.Decision, d.Allowed, d.Degraded, d.Limit != "")
	limits, shadow := list{member: "limits"}, list{member: "shadow_deny"}
	for name := range d.Limits() {
		if limits.n < maxLimits {
			b = appendText(limits.next(b), name)
		}
	}
	b = limits.end(b)
	for name, denies := range d.Limits() {
		if denies && shadow.n < maxLimits {
			b = appendText(shadow.next(b), name)
		}
	}
	return l.appendSample(shadow.end(b), c)
}
