package w3ctrace

import (
	"context"
	"encoding/hex"
)

// The parts of a traceparent of version 00: version, trace id, span id and flags, such as
// 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.
const (
	parentLength = 55
	traceFrom    = 3
	traceTo      = traceFrom + 32
	spanTo       = traceTo + 1 + 16
	sampledFlag  = 1
)

// Ref refers to a span of a trace that is sampled: the id of the trace and that of the span,
// with a hyphen between them. It is empty without such a span. Metrics and logs show it, so
// that an operator finds the trace of a request: one that is not sampled is stored nowhere.
type Ref string

// SampledRef returns the span that the values of [Parent] name. Most requests of a caller with
// traces are not sampled, so it allocates nothing: a Ref is a part of the header field.
func SampledRef(parents []string) Ref {
	if len(parents) != 1 {
		return ""
	}
	parent := parents[0]
	if len(parent) != parentLength || parent[:traceFrom] != "00-" || parent[traceTo] != '-' || parent[spanTo] != '-' {
		return ""
	}
	if flags := hexDigit(parent[parentLength-1]); flags < 0 || flags&sampledFlag == 0 {
		return ""
	}
	if !isRef(parent[traceFrom:traceTo]) || !isRef(parent[traceTo+1:spanTo]) {
		return ""
	}
	return Ref(parent[traceFrom:spanTo])
}

// Ref returns the reference to a span, whether it is sampled or not.
func (c Context) Ref() Ref {
	text := append(hex.AppendEncode(make([]byte, 0, spanTo), c.TraceID[:]), '-')
	return Ref(hex.AppendEncode(text, c.SpanID[:]))
}

// TraceID returns the id of the trace in hexadecimal; empty for the empty Ref.
func (r Ref) TraceID() string { return string(r[:min(len(r), traceTo-traceFrom)]) }

// SpanID returns the id of the span in hexadecimal; empty for the empty Ref.
func (r Ref) SpanID() string { return string(r[min(len(r), traceTo-traceFrom+1):]) }

// isRef reports whether an id has only digits in lower-case hexadecimal, and one that is not 0.
// Callers choose the ids.
func isRef(id string) bool {
	set := false
	for i := range len(id) {
		if hexDigit(id[i]) < 0 {
			return false
		}
		set = set || id[i] != '0'
	}
	return set
}

// hexDigit returns the value of a digit, and a negative number for another character. The
// letters of a traceparent are lower case.
func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}

type refKey struct{}

// WithRef returns a context with the span of a request, for a [Ref] that FromContext returns.
func WithRef(ctx context.Context, r Ref) context.Context {
	if r == "" {
		return ctx
	}
	return context.WithValue(ctx, refKey{}, r)
}

// FromContext returns the span that [WithRef] has put into a context, or the empty Ref.
func FromContext(ctx context.Context) Ref {
	r, _ := ctx.Value(refKey{}).(Ref)
	return r
}
