package oteltest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/contrib/stintotel"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/internal/nameset"
	"github.com/stintdev/stint/lease"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/resilience/retry"
	"github.com/stintdev/stint/resilience/retrybudget"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// telemetry is a Telemetry with an SDK that keeps everything.
type telemetry struct {
	*stintotel.Telemetry

	t      *testing.T
	reader *metric.ManualReader
	spans  *tracetest.SpanRecorder
	tracer *trace.TracerProvider
}

func newTelemetry(t *testing.T) *telemetry {
	t.Helper()
	reader, spans := metric.NewManualReader(), tracetest.NewSpanRecorder()
	tracer := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	o := stintotel.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader), metric.WithCardinalityLimit(0)), TracerProvider: tracer}
	return &telemetry{must(stintotel.New(o)), t, reader, spans, tracer}
}

// values returns the value of each series by its name and attributes; of a histogram, the
// count.
func (y *telemetry) values() map[string]float64 {
	y.t.Helper()
	var all metricdata.ResourceMetrics
	check(y.t, y.reader.Collect(y.t.Context(), &all))
	values := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			put := func(of attribute.Set, v float64) {
				values[m.Name+"{"+strings.ReplaceAll(of.Encoded(attribute.DefaultEncoder()), "stint.", "")+"}"] = v
			}
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					put(p.Attributes, float64(p.Value))
				}
			case metricdata.Sum[float64]:
				for _, p := range d.DataPoints {
					put(p.Attributes, p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					put(p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					put(p.Attributes, float64(p.Count))
				}
			}
		}
	}
	return values
}

// want checks values, one a line: "name{attributes} value".
func (y *telemetry) want(lines ...string) {
	y.t.Helper()
	got := y.values()
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "} ")
		if v, ok := got[name+"}"]; !ok || fmt.Sprint(v) != value {
			y.t.Errorf("%s} is %v (%v), want %s", name, v, ok, value)
		}
	}
	if y.t.Failed() {
		y.t.Log(got)
	}
}

// tree returns the spans that have ended, as paths from the root with their attribute
// stint.result, sorted.
func (y *telemetry) tree() (paths []string) {
	byID := map[string]trace.ReadOnlySpan{}
	for _, s := range y.spans.Ended() {
		byID[s.SpanContext().SpanID().String()] = s
	}
	for _, s := range byID {
		path := s.Name()
		for up, ok := byID[s.Parent().SpanID().String()]; ok; up, ok = byID[up.Parent().SpanID().String()] {
			path = up.Name() + " > " + path
		}
		for _, a := range s.Attributes() {
			if a.Key == "stint.result" || a.Key == "stint.part" {
				path += " = " + a.Value.AsString()
			}
		}
		for _, e := range s.Events() {
			path += " ! " + e.Name
		}
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

func (y *telemetry) wantSpans(paths ...string) {
	y.t.Helper()
	if got := y.tree(); !slices.Equal(got, paths) {
		y.t.Errorf("spans\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(paths, "\n\t"))
	}
	if begun, ended := len(y.spans.Started()), len(y.spans.Ended()); begun != ended {
		y.t.Errorf("%d spans begun and %d ended", begun, ended)
	}
}

func limit(t *testing.T, name string, n int64) stint.Limit {
	t.Helper()
	return must(stint.Spec{Name: name, Limit: n, Window: time.Hour}.Compile())
}

// The totals of limiters and stores equal what happened, whatever happened at once.
func TestTotalsOfLimitersAndStores(t *testing.T) {
	y := newTelemetry(t)
	guarded := must(guard.New(stint.NewMemory(stint.MemoryOptions{}), guard.Options{Observer: y}))
	leasing := must(lease.New(guarded, lease.Options{}))
	t.Cleanup(func() { check(t, errors.Join(leasing.Close(), guarded.Close())) })
	check(t, y.WatchStore("limits", guarded))
	check(t, y.WatchStore("limits", leasing))
	login := must(stint.NewLimiter(leasing, "login", limit(t, "hour", 50), limit(t, "day", 90))).WithObserver(y)
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 20 {
				if _, err := login.Allow(t.Context(), "a key"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	y.want(
		"stint.limiter.decisions{limiter=login,op=take,result=allowed} 50",
		"stint.limiter.decisions{limiter=login,op=take,result=denied} 110",
		"stint.limiter.denials{limit=hour,limiter=login} 110",
		"stint.limiter.duration{limiter=login,op=take} 160",
		"stint.store.calls{result=ok,shard=,store=guard} 160",
		"stint.store.call_duration{store=guard} 160",
		"stint.store.claims{store=guard} 320",
		"stint.keys{store=limits} 2",
		"stint.lease_keys{store=limits} 0",
		"stint.lease_local{decision=allow,store=limits} 0",
		"stint.store_breaker_open{shard=,store=limits} 0",
	)
	if n := len(y.spans.Ended()); n != 320 {
		t.Errorf("%d spans, want one for each decision and each call", n)
	}
	for _, s := range y.spans.Ended() {
		if text := fmt.Sprint(s.Name(), s.Attributes()); strings.Contains(text, "a key") {
			t.Fatalf("a key is shown: %s", text)
		}
	}
}

// A decision is a child of the caller's span, and the call to the store one of the
// decision.
func TestSpansAreChildrenOfTheCaller(t *testing.T) {
	y := newTelemetry(t)
	guarded := must(guard.New(stint.NewMemory(stint.MemoryOptions{}), guard.Options{Observer: y}))
	t.Cleanup(func() { check(t, guarded.Close()) })
	login := must(stint.NewLimiter(stint.ObserveStore(guarded, "limits", y), "login", limit(t, "hour", 1))).WithObserver(y)
	ctx, span := y.tracer.Tracer("test").Start(t.Context(), "handler")
	_, _ = login.Allow(ctx, "k")
	_, _ = login.Allow(ctx, "k")
	_, _ = login.Allow(ctx, "")
	span.End()
	const take = "handler > take login"
	y.wantSpans("handler",
		take+" = allowed", take+" = denied", take+" = invalid",
		take+" > store call limits = invalid", take+" > store call limits = ok", take+" > store call limits = ok",
		take+" > store call limits > store call guard = invalid", take+" > store call limits > store call guard = ok", take+" > store call limits > store call guard = ok")
	for _, s := range y.spans.Ended() {
		failed := slices.Contains(s.Attributes(), attribute.String("stint.result", "invalid"))
		if (s.Status().Code == codes.Error) != failed {
			t.Errorf("%s %v has status %v", s.Name(), s.Attributes(), s.Status())
		}
	}
}

type failing struct{ stint.Store }

func (failing) Take(context.Context, stint.Claim) (stint.Decision, error) {
	return stint.Decision{}, &stint.Error{Code: stint.CodeUnavailable, Kind: "readonly"}
}

func TestFailuresAndBreakers(t *testing.T) {
	y := newTelemetry(t)
	guarded := must(guard.New(failing{}, guard.Options{Observer: y}))
	t.Cleanup(func() { check(t, guarded.Close()) })
	login := must(stint.NewLimiter(guarded, "login", limit(t, "hour", 50))).WithObserver(y).With(stint.Policy{OnFailure: stint.FailClosed})
	for range 21 {
		_, _ = login.Allow(t.Context(), "k")
	}
	y.want(
		"stint.limiter.decisions{limiter=login,op=take,result=unavailable} 21",
		"stint.limiter.denials{limit=hour,limiter=login} 21",
		"stint.store.calls{result=readonly,shard=,store=guard} 20",
		"stint.store.breaker_changes{shard=,store=guard,to=open} 1",
	)
}

// A call of a client with its attempts, over a real connection.
func TestClient(t *testing.T) {
	y := newTelemetry(t)
	answers := []int{503, 200}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(answers[0])
		answers = answers[1:]
	}))
	defer server.Close()
	retries := must(retrybudget.New(retrybudget.Options{}))
	parts := client.Chain{Name: "orders", Observer: y, Bulkhead: must(bulkhead.New(bulkhead.Options{Limit: 3})), Breaker: must(breaker.New(breaker.Options{}))}
	check(t, y.WatchClient(parts, retries))
	c := &http.Client{Transport: must(client.New(client.Options{Chain: parts, Retry: &retry.Options{Base: time.Millisecond, Budget: retries}}))}
	defer c.CloseIdleConnections()
	get := func() {
		if resp, err := c.Do(must(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil))); err == nil {
			resp.Body.Close()
		}
	}
	get()
	parts.Breaker.ForceOpen()
	get()
	y.want(
		"stint.client.calls{dependency=orders,result=2xx} 1", "stint.client.calls{dependency=orders,result=refused} 1",
		"stint.client.call_duration{dependency=orders} 2",
		"stint.client.attempts{dependency=orders,result=5xx} 1", "stint.client.attempts{dependency=orders,result=2xx} 1",
		"stint.client.refused{dependency=orders,part=breaker} 1",
		"stint.client.retries{decision=retry,dependency=orders} 1",
		"stint.client_breaker_state{dependency=orders,state=forced_open} 1",
		"stint.client_bulkhead_limit{dependency=orders} 3",
		"stint.client_budget_left{dependency=orders} 9",
	)
	y.wantSpans("request orders = 2xx", "request orders = refused ! refused", "request orders > attempt orders = 2xx", "request orders > attempt orders = 5xx")
}

// An attempt that was begun may still be refused, by the deadline.
func TestRefusalEndsItsAttempt(t *testing.T) {
	y := newTelemetry(t)
	ctx := y.Start(t.Context(), stint.Event{Kind: stint.EventRequest, Name: "orders"})
	attempt := y.Start(ctx, stint.Event{Kind: stint.EventAttempt, Name: "orders", Attempt: 1})
	refused := errors.New("no time is left")
	y.Observe(attempt, stint.Event{Kind: stint.EventRefusal, Name: "orders", Attempt: 1, Result: "deadline", Err: refused})
	y.Observe(ctx, stint.Event{Kind: stint.EventRequest, Name: "orders", Result: "refused", Err: refused})
	y.wantSpans("request orders = refused", "request orders > attempt orders = deadline")
}

// Two at once, such as for two backends, each end their own spans.
func TestTwoAtOnce(t *testing.T) {
	a, b := newTelemetry(t), newTelemetry(t)
	l := must(stint.NewLimiter(stint.ObserveStore(stint.NewMemory(stint.MemoryOptions{}), "memory", stint.Observers(b, a)), "login", limit(t, "hour", 1))).WithObserver(stint.Observers(a, b))
	_, _ = l.Allow(t.Context(), "k")
	for _, y := range []*telemetry{a, b} {
		y.want("stint.limiter.decisions{limiter=login,op=take,result=allowed} 1", "stint.store.calls{result=ok,shard=,store=memory} 1")
		if begun, ended := len(y.spans.Started()), len(y.spans.Ended()); begun != 2 || ended != 2 {
			t.Errorf("%d spans begun and %d ended", begun, ended)
		}
	}
}

// Thousands of limiters, or of watched stores, by mistake do not make thousands of
// series, and no total is lost.
func TestSeriesAreBounded(t *testing.T) {
	y, memory := newTelemetry(t), stint.NewMemory(stint.MemoryOptions{})
	var failed error
	for i := range nameset.Max + 500 {
		name := fmt.Sprint("user-", i)
		l := must(stint.NewLimiter(memory, name, limit(t, name, 1))).WithObserver(y)
		_, _ = l.Allow(t.Context(), "k")
		_, _ = l.Allow(t.Context(), "k")
		failed = errors.Join(failed, y.WatchClient(client.Chain{Name: name}, nil))
	}
	y.want("stint.limiter.decisions{limiter=_other,op=take,result=denied} 500", "stint.limiter.denials{limit=_other,limiter=_other} 500")
	series, names := 0, map[string]bool{}
	for name := range y.values() {
		if strings.HasPrefix(name, "stint.limiter.decisions{") {
			series++
		}
	}
	for _, s := range y.spans.Ended() {
		names[s.Name()] = true
	}
	if series > 2*nameset.Max+2 || len(names) > nameset.Max+1 || failed == nil {
		t.Errorf("%d series, %d names of spans, %v", series, len(names), failed)
	}
}

func TestMissingValues(t *testing.T) {
	for _, y := range []*stintotel.Telemetry{nil, {}} {
		ctx := y.Start(t.Context(), stint.Event{})
		y.Observe(ctx, stint.Event{})
		if ctx != t.Context() || y.WatchStore("limits", stint.NewMemory(stint.MemoryOptions{})) != nil {
			t.Error("a Telemetry that New did not make observes")
		}
	}
	y := newTelemetry(t)
	if y.WatchStore("nil", nil) == nil || y.WatchStore("nil", (*stint.Memory)(nil)) == nil {
		t.Error("a store that is missing is watched")
	}
	global := must(stintotel.New(stintotel.Options{})) // the global providers do nothing until the program sets others
	global.Observe(global.Start(t.Context(), stint.Event{Kind: stint.EventDecision}), stint.Event{Kind: stint.EventDecision})
	check(t, global.WatchStore("limits", stint.NewMemory(stint.MemoryOptions{})))
}
