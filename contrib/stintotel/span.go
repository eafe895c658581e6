package stintotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/stintdev/stint"
)

// spanKey is the key of the span that a Telemetry has begun in a context. A context may
// have spans of other observers on top of it.
type spanKey struct{ of *Telemetry }

// startedSpan is a span and the kind of the event that began it.
type startedSpan struct {
	trace.Span

	kind stint.EventKind
}

// startSpan begins the span of an event. The name of a span has the name of the limiter,
// store or dependency, so the number of span names is bounded by theirs.
func (t *Telemetry) startSpan(ctx context.Context, e *stint.Event) context.Context {
	name := bounded(&t.names, e.Name)
	var attributes []attribute.KeyValue
	switch e.Kind {
	case stint.EventDecision:
		attributes = []attribute.KeyValue{attribute.String("stint.limiter", name), attribute.String("stint.op", e.Op), attribute.Int64("stint.cost", e.Cost)}
		name = e.Op + " " + name
	case stint.EventStoreCall:
		attributes = []attribute.KeyValue{attribute.String("stint.store", name), attribute.String("stint.shard", e.Shard), attribute.Int("stint.claims", e.Claims)}
		name = "store call " + name
	case stint.EventAttempt:
		attributes = []attribute.KeyValue{attribute.String("stint.dependency", name), attribute.Int("stint.attempt", e.Attempt)}
		name = "attempt " + name
	default:
		attributes = []attribute.KeyValue{attribute.String("stint.dependency", name)}
		name = e.Kind.String() + " " + name
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithAttributes(attributes...)) //nolint:spancheck // endSpan ends it
	return context.WithValue(ctx, spanKey{t}, startedSpan{span, e.Kind})        //nolint:spancheck // as above
}

// endSpan ends the span of an event. A refusal ends the span of its attempt. If no attempt
// began, the refusal becomes an event of the request's span.
func (t *Telemetry) endSpan(ctx context.Context, result string, e *stint.Event) {
	span, ok := ctx.Value(spanKey{t}).(startedSpan)
	refusal := e.Kind == stint.EventRefusal
	switch {
	case !ok || !span.IsRecording():
		if ok && !refusal {
			span.End()
		}
		return
	case refusal && span.kind == stint.EventRequest:
		span.AddEvent("refused", trace.WithAttributes(attribute.Int("stint.attempt", e.Attempt), attribute.String("stint.part", result)))
		return
	case refusal:
		span.SetAttributes(attribute.String("stint.part", result))
	default:
		span.SetAttributes(attribute.String("stint.result", result))
	}
	if e.Kind == stint.EventDecision && e.Err == nil {
		span.SetAttributes(attribute.String("stint.limit", limitOf(e)), attribute.Int64("stint.remaining", e.Decision.Remaining))
	}
	if e.Err != nil {
		span.SetStatus(codes.Error, result)
	}
	span.End()
}
