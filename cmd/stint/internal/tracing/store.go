package tracing

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// Store is a [stint.Store] that records the decisions of another store on recorded
// requests: as a span, and as attributes of the span of the request.
type Store struct {
	inner  stint.Store
	tracer *Tracer
}

// Store returns a store that records the decisions of inner. It returns inner if t is nil.
func (t *Tracer) Store(inner stint.Store) stint.Store {
	if t == nil {
		return inner
	}
	return &Store{inner, t}
}

// Unwrap returns the store whose decisions are recorded.
func (s *Store) Unwrap() stint.Store { return s.inner }

// Take implements [stint.Store].
func (s *Store) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	if request := s.tracer.Span(ctx); request != nil {
		return s.recordTake(ctx, request, c)
	}
	return s.inner.Take(ctx, c)
}

// recordTake is apart from Take, as recordGroups is from TakeGroups: their large frames would
// have the stacks of the requests that are not recorded grow once more.
func (s *Store) recordTake(ctx context.Context, request trace.Span, c stint.Claim) (stint.Decision, error) {
	ctx, span := s.tracer.Child(ctx, "decide", trace.SpanKindInternal)
	defer func() { span.End() }() // deferred by itself, it would record the text of a panic
	d, err := s.inner.Take(ctx, c)
	if err != nil {
		fail(span, kindOf(err))
		return d, err
	}
	record(decided(&c, &d), span, request)
	return d, nil
}

// TakeGroups implements [stint.Store].
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if request := s.tracer.Span(ctx); request != nil {
		return s.recordGroups(ctx, request, groups, out)
	}
	return s.inner.TakeGroups(ctx, groups, out)
}

func (s *Store) recordGroups(ctx context.Context, request trace.Span, groups []stint.Group, out []stint.Decision) error {
	ctx, span := s.tracer.Child(ctx, "decide", trace.SpanKindInternal)
	defer func() { span.End() }() // deferred by itself, it would record the text of a panic
	err := s.inner.TakeGroups(ctx, groups, out)
	if err != nil {
		fail(span, kindOf(err))
	}
	_, parts := stint.Sizes(groups)
	if errs, whole := storekit.PartErrors(err, parts); whole == nil {
		record(attributesOf(groups, out, errs), span, request)
	}
	return err
}

// attributesOf describes the decision that answers a call: that of the first group that is
// denied, or of the first that is decided.
func attributesOf(groups []stint.Group, out []stint.Decision, errs []error) []attribute.KeyValue {
	var first []attribute.KeyValue
	part, denied, decidedGroups := 0, 0, 0
	for i := range groups {
		g := &groups[i]
		if (errs == nil || errs[part] == nil) && len(g.Claims) > 0 {
			binding, d := stint.Combine(g.Claims, out[:len(g.Claims)])
			if decidedGroups == 0 || denied == 0 && !d.Allowed {
				first = decided(&g.Claims[max(0, binding)], &d)
			}
			decidedGroups++
			if !d.Allowed {
				denied++
			}
		}
		claims, parts := stint.Sizes(groups[i : i+1])
		out, part = out[claims:], part+parts
	}
	if len(groups) > 1 {
		first = append(first, attribute.Int("stint.decisions", decidedGroups), attribute.Int("stint.denied", denied))
	}
	return first
}

// decided describes a decision on a claim. The names of limits that callers bring are left
// out, because they may hold anything.
func decided(c *stint.Claim, d *stint.Decision) []attribute.KeyValue {
	attributes := []attribute.KeyValue{attribute.Bool("stint.allowed", d.Allowed), attribute.Bool("stint.degraded", d.Degraded)}
	if !c.Limit.Valid() || c.Limit.FromCaller() {
		return attributes
	}
	return append(attributes, attribute.String("stint.rule", c.Limit.Rule()), attribute.String("stint.limit", c.Limit.Name()))
}

func record(attributes []attribute.KeyValue, spans ...trace.Span) {
	for _, span := range spans {
		span.SetAttributes(attributes...)
	}
}

// kindOf returns the kind of an error of a store: of several, that of the first.
func kindOf(err error) string {
	if groups, ok := errors.AsType[*stint.GroupsError](err); ok {
		err = errors.Join(groups.Errs...)
	}
	if one, ok := errors.AsType[*stint.Error](err); ok {
		return one.KindName()
	}
	return (&stint.Error{Code: stint.CodeInternal}).KindName()
}

// Calls returns an observer that records the calls to a shared store; nil if t is nil.
func (t *Tracer) Calls() stint.Observer {
	if t == nil {
		return nil
	}
	return (*calls)(t)
}

type calls Tracer

// Start implements [stint.Observer].
func (c *calls) Start(ctx context.Context, e stint.Event) context.Context {
	if e.Kind != stint.EventStoreCall {
		return ctx
	}
	ctx, _ = (*Tracer)(c).Child(ctx, "store call", trace.SpanKindClient,
		attribute.String("stint.store", e.Name), attribute.String("stint.shard", e.Shard), attribute.Int("stint.claims", e.Claims))
	return ctx
}

// Observe implements [stint.Observer].
func (c *calls) Observe(ctx context.Context, e stint.Event) {
	if e.Kind != stint.EventStoreCall {
		return
	}
	span := (*Tracer)(c).Span(ctx)
	if span == nil {
		return
	}
	span.SetAttributes(attribute.String("stint.result", e.Result))
	if e.Err != nil {
		fail(span, e.Result)
	}
	span.End()
}
