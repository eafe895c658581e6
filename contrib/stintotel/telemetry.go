package stintotel

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/nameset"
)

// scope is the name of the instrumentation scope.
const scope = "github.com/stintdev/stint/contrib/stintotel"

// Options configures a [Telemetry]. The zero value is useful.
type Options struct {
	// MeterProvider makes the metrics. Nil means the global one.
	MeterProvider metric.MeterProvider
	// TracerProvider makes the spans. Nil means the global one; the provider of
	// OpenTelemetry's package trace/noop makes none.
	TracerProvider trace.TracerProvider
}

// Telemetry is a [stint.Observer]. Make one with [New]; a nil or zero Telemetry observes
// nothing. It is safe for concurrent use.
type Telemetry struct {
	meter  metric.Meter // nil in a zero Telemetry
	tracer trace.Tracer

	decisions, denials                      metric.Int64Counter
	storeCalls, storeClaims, breakerChanges metric.Int64Counter
	calls, attempts, refused, retries       metric.Int64Counter
	decisionTime, storeTime, callTime       metric.Float64Histogram

	names, results nameset.Set[string]
	pairs          nameset.Set[[2]string] // of a limiter and a limit, or a store and a shard

	mu      sync.Mutex
	watched map[attribute.KeyValue]metric.Registration // guarded by mu
}

// New returns a Telemetry that reports to the providers. The error is that of a provider
// which refuses an instrument.
func New(o Options) (*Telemetry, error) {
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	t := &Telemetry{meter: o.MeterProvider.Meter(scope), tracer: o.TracerProvider.Tracer(scope)}
	var errs []error
	for _, c := range []struct {
		to         *metric.Int64Counter
		name, help string
	}{
		{&t.decisions, "stint.limiter.decisions", "Calls of limiters by what they were asked for and how they ended."},
		{&t.denials, "stint.limiter.denials", "Denials by the limit that denied for longest."},
		{&t.storeCalls, "stint.store.calls", "Calls to stores, or round trips to their servers, by how they ended."},
		{&t.storeClaims, "stint.store.claims", "Claims that the calls to stores carried."},
		{&t.breakerChanges, "stint.store.breaker_changes", "Changes of state of the circuit breakers of stores, by the new state."},
		{&t.calls, "stint.client.calls", "Calls by how they ended, their attempts taken together."},
		{&t.attempts, "stint.client.attempts", "Attempts that were sent, by how they ended."},
		{&t.refused, "stint.client.refused", "Attempts that were not sent, by the part that refused."},
		{&t.retries, "stint.client.retries", "What followed from attempts that failed: a retry, or why not."},
	} {
		var err error
		*c.to, err = t.meter.Int64Counter(c.name, metric.WithDescription(c.help))
		errs = append(errs, err)
	}
	for _, h := range []struct {
		to         *metric.Float64Histogram
		name, help string
		first      float64
	}{
		{&t.decisionTime, "stint.limiter.duration", "Time of a call of a limiter; of a wait, the whole wait.", 1e-6},
		{&t.storeTime, "stint.store.call_duration", "Time of a call to a store.", 1e-6},
		{&t.callTime, "stint.client.call_duration", "Time from a call's beginning to its answer, waits and retries included.", 1e-3},
	} {
		var err error
		*h.to, err = t.meter.Float64Histogram(h.name, metric.WithUnit("s"), metric.WithDescription(h.help), metric.WithExplicitBucketBoundaries(buckets(h.first)...))
		errs = append(errs, err)
	}
	return t, errors.Join(errs...)
}

// buckets returns the bounds of 16 buckets in seconds. Each bound is twice the one before,
// or four times if the first is below a millisecond.
func buckets(first float64) (bounds []float64) {
	factor := 2.0
	if first < 1e-3 {
		factor = 4
	}
	for range 16 {
		bounds = append(bounds, first)
		first *= factor
	}
	return bounds
}

func (t *Telemetry) made() bool { return t != nil && t.meter != nil }

// Start begins a span for the event. It is a child of the span in ctx.
func (t *Telemetry) Start(ctx context.Context, e stint.Event) context.Context {
	if !t.made() {
		return ctx
	}
	return t.startSpan(ctx, &e)
}

// Observe counts an event, and ends its span.
func (t *Telemetry) Observe(ctx context.Context, e stint.Event) {
	if !t.made() {
		return
	}
	name, result := bounded(&t.names, e.Name), bounded(&t.results, e.Result)
	switch e.Kind {
	case stint.EventDecision:
		t.observeDecision(ctx, name, result, &e)
	case stint.EventStoreCall:
		store, shard := t.pair(e.Name, e.Shard)
		add(ctx, t.storeCalls, 1, attribute.String("stint.store", store), attribute.String("stint.shard", shard), attribute.String("stint.result", result))
		record(ctx, t.storeTime, e.Took, attribute.String("stint.store", name))
		add(ctx, t.storeClaims, int64(e.Claims), attribute.String("stint.store", name))
	case stint.EventBreaker:
		store, shard := t.pair(e.Name, e.Shard)
		add(ctx, t.breakerChanges, 1, attribute.String("stint.store", store), attribute.String("stint.shard", shard), attribute.String("stint.to", result))
	case stint.EventRequest:
		add(ctx, t.calls, 1, attribute.String("stint.dependency", name), attribute.String("stint.result", result))
		record(ctx, t.callTime, e.Took, attribute.String("stint.dependency", name))
	case stint.EventAttempt:
		add(ctx, t.attempts, 1, attribute.String("stint.dependency", name), attribute.String("stint.result", result))
	case stint.EventRefusal:
		add(ctx, t.refused, 1, attribute.String("stint.dependency", name), attribute.String("stint.part", result))
	case stint.EventRetry:
		add(ctx, t.retries, 1, attribute.String("stint.dependency", name), attribute.String("stint.decision", result))
	}
	t.endSpan(ctx, result, &e)
}

func (t *Telemetry) observeDecision(ctx context.Context, name, result string, e *stint.Event) {
	op := bounded(&t.results, e.Op)
	add(ctx, t.decisions, 1, attribute.String("stint.limiter", name), attribute.String("stint.op", op), attribute.String("stint.result", result))
	record(ctx, t.decisionTime, e.Took, attribute.String("stint.limiter", name), attribute.String("stint.op", op))
	if e.Err != nil || e.Decision.Allowed {
		return
	}
	limiter, limit := t.pair(e.Name, limitOf(e))
	add(ctx, t.denials, 1, attribute.String("stint.limiter", limiter), attribute.String("stint.limit", limit))
}

// limitOf returns the name of the limit that bound a decision: "" if it is not known, as
// of a wait for several limits, and for a limit that a caller brought.
func limitOf(e *stint.Event) string {
	if !e.Limit.Valid() || e.Limit.FromCaller() {
		return ""
	}
	return e.Limit.Name()
}

func add(ctx context.Context, to metric.Int64Counter, n int64, of ...attribute.KeyValue) {
	to.Add(ctx, n, metric.WithAttributeSet(attribute.NewSet(of...)))
}

func record(ctx context.Context, to metric.Float64Histogram, took time.Duration, of ...attribute.KeyValue) {
	to.Record(ctx, took.Seconds(), metric.WithAttributeSet(attribute.NewSet(of...)))
}

// pair returns two names that occur together as values of attributes.
func (t *Telemetry) pair(a, b string) (string, string) {
	if !t.pairs.Accepts([2]string{a, b}) {
		return nameset.Other, nameset.Other
	}
	return a, b
}

// bounded returns a name as the value of an attribute.
func bounded(names *nameset.Set[string], name string) string {
	if names.Accepts(name) {
		return name
	}
	return nameset.Other
}
