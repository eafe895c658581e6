// Package tracing records spans of requests, of their decisions and of the calls to the
// store, in the traces of the callers.
//
// A server without a [Tracer] passes nil ones: every method of a nil pointer does nothing.
// Requests that are not sampled cost a look at one header field, and nothing after it.
//
// Anyone who reaches a listener can mark requests as sampled. So each listener has two
// bounds on the requests a second that it records: one for requests that their callers have
// marked, and one for requests that it samples itself. Callers can use up the first alone,
// and not that of another listener. What a bound drops is counted.
//
// No span has a key, a path, a header field or the text of an error. Names of rules and
// limits come from settings; those that callers bring are left out.
package tracing

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
)

// scope is the name of the instrumentation scope.
const scope = "github.com/stintdev/stint"

// DefaultMaxRequests is the default of Options.MaxRequests.
const DefaultMaxRequests = 100

// Options configures a [Tracer].
type Options struct {
	// Provider makes the spans. It must record all of them, because the Tracer samples.
	Provider trace.TracerProvider
	Sampler  Sampler
	// MaxRequests is how many requests a second a listener records at most of those that
	// their callers have marked, and of those that it samples itself. 0 means
	// DefaultMaxRequests.
	MaxRequests int
	// Clock returns the time, for the bounds. Nil means time.Now.
	Clock func() time.Time
}

// Sampler says which requests are recorded.
type Sampler struct {
	// Parent lets the mark of a caller decide on requests that have a trace context.
	Parent bool
	// Ratio is the share of the other requests that is recorded, from 0 to 1.
	Ratio float64
}

// Tracer records spans. It is safe for concurrent use.
type Tracer struct {
	tracer  trace.Tracer
	options Options
	dropped dropped
}

// dropped counts the requests that a bound kept from being recorded.
type dropped struct{ marked, sampled atomic.Uint64 }

// New returns a tracer.
func New(o Options) *Tracer {
	if o.MaxRequests == 0 {
		o.MaxRequests = DefaultMaxRequests
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Tracer{tracer: o.Provider.Tracer(scope), options: o}
}

// Dropped returns how many requests were to be recorded and were not, because of the bound
// on requests that callers mark, and because of that on requests that the tracer samples.
func (t *Tracer) Dropped() (marked, sampled uint64) {
	return t.dropped.marked.Load(), t.dropped.sampled.Load()
}

// Listener records the requests of one listener, within bounds of its own.
type Listener struct {
	tracer          *Tracer
	marked, sampled budget
}

// Listener returns a Listener; nil if t is nil.
func (t *Tracer) Listener() *Listener {
	if t == nil {
		return nil
	}
	return &Listener{tracer: t}
}

// begin begins the span of a request with the given trace context. The span is nil if the
// request is not recorded. describe returns the name and the attributes of a recorded one.
func (l *Listener) begin(ctx context.Context, parents, states []string, describe func() (string, []attribute.KeyValue)) (context.Context, trace.Span) {
	parent, hasParent := w3ctrace.Parse(parents)
	if !l.samples(&parent, hasParent) {
		return ctx, nil
	}
	if hasParent {
		ctx = trace.ContextWithRemoteSpanContext(ctx, spanContext(&parent, states))
	}
	name, attributes := describe()
	return l.tracer.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...)) //nolint:spancheck // the caller ends it
}

// samples decides whether a request is recorded.
func (l *Listener) samples(parent *w3ctrace.Context, hasParent bool) bool {
	s := &l.tracer.options.Sampler
	if hasParent && s.Parent {
		return parent.Sampled && l.take(&l.marked, &l.tracer.dropped.marked)
	}
	return s.Ratio > 0 && (s.Ratio >= 1 || rand.Float64() < s.Ratio) && l.take(&l.sampled, &l.tracer.dropped.sampled)
}

func (l *Listener) take(b *budget, dropped *atomic.Uint64) bool {
	if b.take(l.tracer.options.Clock(), uint64(l.tracer.options.MaxRequests)) {
		return true
	}
	dropped.Add(1)
	return false
}

// spanContext returns the span of the caller. An invalid trace state is left out.
func spanContext(c *w3ctrace.Context, states []string) trace.SpanContext {
	config := trace.SpanContextConfig{TraceID: c.TraceID, SpanID: c.SpanID, TraceFlags: trace.FlagsSampled, Remote: true}
	if state := strings.Join(states, ","); state != "" && w3ctrace.ValidState(state) {
		config.TraceState, _ = trace.ParseTraceState(state) // without a state after an error
	}
	return trace.NewSpanContext(config)
}

// budget bounds events in each second.
type budget struct {
	state atomic.Uint64 // the second, shifted by countBits, and the events in it
}

const countBits = 24

// take counts an event, and returns false if the second has had as many as max.
func (b *budget) take(now time.Time, most uint64) bool {
	second := uint64(now.Unix()) << countBits
	for {
		old := b.state.Load()
		count := uint64(0)
		if old>>countBits<<countBits == second {
			count = old - second
		}
		if count >= most {
			return false
		}
		if b.state.CompareAndSwap(old, second+count+1) {
			return true
		}
	}
}

// Span returns the recorded span in ctx, or nil.
func (t *Tracer) Span(ctx context.Context) trace.Span {
	if t == nil {
		return nil
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		return span
	}
	return nil
}

// Child begins a span below the one in ctx. The span is nil if ctx has none that is
// recorded.
func (t *Tracer) Child(ctx context.Context, name string, kind trace.SpanKind, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	if t.Span(ctx) == nil {
		return ctx, nil
	}
	return t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attributes...)) //nolint:spancheck // the caller ends it
}

// Parent returns the value of [w3ctrace.Parent] for requests that are sent under a span.
func Parent(span trace.Span) string {
	c := span.SpanContext()
	return w3ctrace.Context{TraceID: c.TraceID(), SpanID: c.SpanID(), Sampled: c.IsSampled()}.String()
}

// fail marks a span as failed, with a word of a small set.
func fail(span trace.Span, kind string) { span.SetStatus(codes.Error, kind) }

// RefOf returns the span under which an operator finds a request: the one that the server
// records, or else that of the caller if it is sampled. parents are the values of
// [w3ctrace.Parent].
func RefOf(ctx context.Context, parents []string) w3ctrace.Ref {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		c := span.SpanContext()
		return w3ctrace.Context{TraceID: c.TraceID(), SpanID: c.SpanID()}.Ref()
	}
	return w3ctrace.SampledRef(parents)
}
