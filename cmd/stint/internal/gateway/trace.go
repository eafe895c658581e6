package gateway

import (
	"net/http"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/stintdev/stint/cmd/stint/internal/tracing"
	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
)

// setTrace writes a valid trace context, derived from the request, to out. The gateway
// forwards a valid context unchanged, because a span id that is never reported would break
// the trace: traced replaces it for a request that is recorded. Without a valid context it begins a trace, which it marks as sampled: an
// upstream that follows its caller's decision would record nothing without the mark.
func setTrace(in, out http.Header, room *memory) {
	parents, state := in[w3ctrace.Parent], strings.Join(in[w3ctrace.State], ",")
	delete(out, w3ctrace.State)
	if _, ok := w3ctrace.Parse(parents); !ok {
		out[w3ctrace.Parent] = room.one(w3ctrace.New(true).String())
		return
	}
	out[w3ctrace.Parent] = parents
	if state != "" && w3ctrace.ValidState(state) {
		out[w3ctrace.State] = room.one(state)
	}
}

// traced sends a request as a span of its own if it is recorded, and as it is otherwise. The
// span ends when the response begins. The upstream gets its trace context.
func (g *Gateway) traced(r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	t := g.options.Tracer
	if t.Span(r.Context()) == nil { // nearly always
		return send(r)
	}
	route := exchangeOf(r).route
	ctx, span := t.Child(r.Context(), "upstream "+route.group.options.Name, trace.SpanKindClient,
		attribute.String("stint.route", route.name), attribute.String("stint.upstream", route.group.options.Name))
	defer func() { span.End() }() // deferred by itself, it would record the text of a panic
	r = r.WithContext(ctx)
	r.Header[w3ctrace.Parent] = []string{tracing.Parent(span)}
	res, err := send(r)
	if err != nil {
		span.SetStatus(codes.Error, "no response")
		return res, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", res.StatusCode))
	if res.StatusCode >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, strconv.Itoa(res.StatusCode))
	}
	return res, nil
}
