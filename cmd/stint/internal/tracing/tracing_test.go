package tracing

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc/metadata"

	"github.com/stintdev/stint"
)

const marked = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// record returns a tracer and what it records.
func recorder(o Options) (*Tracer, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	o.Provider = sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	return New(o), spans
}

func send(handler http.HandlerFunc, parent string) {
	r := httptest.NewRequest(http.MethodPost, "/secret-path", nil)
	if parent != "" {
		r.Header.Set("Traceparent", parent)
	}
	handler(httptest.NewRecorder(), r)
}

func TestSampling(t *testing.T) {
	unmarked := strings.TrimSuffix(marked, "1") + "0"
	for name, c := range map[string]struct {
		sampler Sampler
		parent  string
		want    bool
	}{
		"aMarkIsObeyed":              {Sampler{Parent: true}, marked, true},
		"noMarkIsObeyed":             {Sampler{Parent: true, Ratio: 1}, unmarked, false},
		"withoutAParentTheRatio":     {Sampler{Parent: true, Ratio: 1}, "", true},
		"anInvalidParentIsNone":      {Sampler{Parent: true, Ratio: 1}, marked + "-more", true},
		"aMarkMayBeIgnored":          {Sampler{}, marked, false},
		"unmarkedByTheRatioInstead":  {Sampler{Ratio: 1}, unmarked, true},
		"nothingWithoutAnyOfTheTwo":  {Sampler{Parent: true}, "", false},
		"anInvalidParentIsNotMarked": {Sampler{Parent: true}, "00-x-y-01", false},
	} {
		t.Run(name, func(t *testing.T) {
			tracer, spans := recorder(Options{Sampler: c.sampler})
			send(tracer.Listener().HTTP("/v1/check", func(http.ResponseWriter, *http.Request) {}), c.parent)
			if got := len(spans.Ended()) == 1; got != c.want {
				t.Errorf("recorded: %v", got)
			}
		})
	}
}

// Messages of a stream are recorded in the trace of the stream, within the bound of the
// listener.
func TestMessagesOfAStreamAreRecorded(t *testing.T) {
	tracer, spans := recorder(Options{Sampler: Sampler{Parent: true}, MaxRequests: 3})
	l := tracer.Listener()
	stream := metadata.NewIncomingContext(t.Context(), metadata.Pairs("traceparent", marked))
	for range 5 {
		if ctx, span := l.Messages(stream, "/stint.v1.LimiterService/Stream"); span != nil {
			if got := RefOf(ctx, []string{marked}).SpanID(); got != span.SpanContext().SpanID().String() {
				t.Errorf("the reference is to span %s", got)
			}
			span.End()
		} else if got := RefOf(ctx, []string{marked}); string(got) != marked[3:52] {
			t.Errorf("the reference is %s, want the span of the caller", got)
		}
	}
	if n := len(spans.Ended()); n != 3 || spans.Ended()[0].Parent().TraceID().String() != marked[3:35] || spans.Ended()[0].Name() != "stint.v1.LimiterService/Stream" {
		t.Errorf("%d spans", n)
	}
	if _, span := (*Listener)(nil).Messages(stream, ""); span != nil {
		t.Error("a span without a tracer")
	}
}

// Marked requests use up their own bound, which leaves that of other requests and of other
// listeners alone, and a second later there is room again.
func TestBounds(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	tracer, spans := recorder(Options{Sampler: Sampler{Parent: true, Ratio: 1}, MaxRequests: 3, Clock: func() time.Time { return now }})
	handler := func(http.ResponseWriter, *http.Request) {}
	public, private := tracer.Listener().HTTP("", handler), tracer.Listener().HTTP("", handler)
	for _, step := range []struct {
		when     string
		do       func()
		recorded int
	}{
		{"aFlood", func() {
			for range 1000 {
				send(public, marked)
			}
		}, 3},
		{"requestsWithoutAMark", func() { send(public, "") }, 4},
		{"anotherListener", func() { send(private, marked) }, 5},
		{"theSameSecond", func() { send(public, marked) }, 5},
		{"theNextSecond", func() { now = now.Add(time.Second); send(public, marked) }, 6},
		{"theClockGoesBack", func() { now = now.Add(-time.Hour); send(public, marked) }, 7},
	} {
		step.do()
		if got := len(spans.Ended()); got != step.recorded {
			t.Errorf("%s: %d spans, want %d", step.when, got, step.recorded)
		}
	}
	if byMark, sampled := tracer.Dropped(); byMark != 998 || sampled != 0 {
		t.Errorf("dropped %d and %d", byMark, sampled)
	}
}

// A panic ends the span and has no text in it.
func TestAPanicLeavesNoText(t *testing.T) {
	tracer, spans := recorder(Options{Sampler: Sampler{Parent: true}})
	func() {
		defer func() { _ = recover() }()
		send(tracer.Listener().HTTP("/v1/check", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = tracer.Store(brokenStore{}).Take(r.Context(), stint.Claim{Key: "planted"})
		}), marked)
	}()
	for _, span := range spans.Ended() {
		if len(span.Events()) > 0 {
			t.Errorf("%s has %v", span.Name(), span.Events())
		}
	}
	if len(spans.Ended()) != 2 {
		t.Errorf("%d spans", len(spans.Ended()))
	}
}

type brokenStore struct{ stint.Store }

func (brokenStore) Take(context.Context, stint.Claim) (stint.Decision, error) { panic("planted") }

type failingStore struct{ stint.Store }

func (failingStore) TakeGroups(context.Context, []stint.Group, []stint.Decision) error {
	return &stint.Error{Code: stint.CodeUnavailable, Problem: "planted", Err: errors.New("planted")}
}

func TestDecisionsAreDescribed(t *testing.T) {
	rule := stint.Spec{Rule: "orders", Name: "hourly", Limit: 1, Window: time.Hour}
	one, err := rule.Compile()
	if err != nil {
		t.Fatal(err)
	}
	rule.FromCaller, rule.Name = true, "planted"
	brought, err := rule.Compile()
	if err != nil {
		t.Fatal(err)
	}
	group := func(l stint.Limit, key string) stint.Group {
		return stint.Group{Claims: []stint.Claim{{Key: key, Limit: l, Cost: 1}}}
	}
	for name, c := range map[string]struct {
		store  stint.Store
		groups []stint.Group
		want   map[string]string
	}{
		"allowed": {stint.NewMemory(stint.MemoryOptions{}), []stint.Group{group(one, "a")},
			map[string]string{"stint.allowed": "true", "stint.degraded": "false", "stint.rule": "orders", "stint.limit": "hourly"}},
		"theFirstDenialAnswers": {stint.NewMemory(stint.MemoryOptions{}), []stint.Group{group(brought, "a"), group(one, "a"), group(one, "a")},
			map[string]string{"stint.allowed": "false", "stint.degraded": "false", "stint.rule": "orders", "stint.limit": "hourly", "stint.decisions": "3", "stint.denied": "1"}},
		"namesOfCallersAreLeftOut": {stint.NewMemory(stint.MemoryOptions{}), []stint.Group{group(brought, "a")},
			map[string]string{"stint.allowed": "true", "stint.degraded": "false"}},
		"failed": {failingStore{}, []stint.Group{group(one, "a")}, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			tracer, spans := recorder(Options{Sampler: Sampler{Parent: true}})
			send(tracer.Listener().HTTP("", func(_ http.ResponseWriter, r *http.Request) {
				_ = tracer.Store(c.store).TakeGroups(r.Context(), c.groups, make([]stint.Decision, len(c.groups)))
			}), marked)
			decision := spans.Ended()[0]
			got := map[string]string{}
			for _, a := range decision.Attributes() {
				got[string(a.Key)] = a.Value.String()
			}
			if len(got) != len(c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			for attribute, value := range c.want {
				if got[attribute] != value {
					t.Errorf("%s: got %q, want %q", attribute, got[attribute], value)
				}
			}
			if strings.Contains(decision.Status().Description, "planted") {
				t.Error("the text of an error is in the status")
			}
		})
	}
}

// Without a tracer every part is the one below it.
func TestWithoutATracer(t *testing.T) {
	var tracer *Tracer
	store := stint.NewMemory(stint.MemoryOptions{})
	if tracer.Store(store) != stint.Store(store) || tracer.Calls() != nil || tracer.Listener() != nil || tracer.Span(t.Context()) != nil {
		t.Error("a nil tracer is not nothing")
	}
}

func BenchmarkUnsampledTake(b *testing.B) {
	tracer, _ := recorder(Options{Sampler: Sampler{Parent: true}})
	limit := stint.MustParseLimit("1000000000/h")
	memory := stint.NewMemory(stint.MemoryOptions{})
	for name, store := range map[string]stint.Store{"without": memory, "with": tracer.Store(memory)} {
		b.Run(name, func(b *testing.B) {
			ctx := context.WithValue(b.Context(), http.ServerContextKey, 1)
			for b.Loop() {
				if _, err := store.Take(ctx, stint.Claim{Key: "k", Limit: limit, Cost: 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
