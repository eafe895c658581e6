// Package otlpexport sends metrics, spans and the decision log to a collector of
// OpenTelemetry, by OTLP over gRPC or HTTP.
//
// [Open] reads the flag and the standard variables of the environment. [Export.Tracer]
// records spans, [Export.Logs] sends lines of the decision log, and [Export.Run] sends the
// metrics of a registry, at an interval, and what is left at the end.
//
// No request waits for the collector. Metrics are totals, so one that arrives late has lost
// nothing. Spans wait in a queue of fixed length; those that find it full, or that the
// collector refuses, are dropped and counted. Lines wait in the buffer of the decision log. A
// collector that fails is logged once for each of these, until it works again.
package otlpexport

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/stintdev/stint/cmd/stint/internal/tracing"
)

// endTime bounds the sending of what is left at the end. The server has then drained, and
// has a second left of the ten after SIGTERM.
const endTime = 500 * time.Millisecond

// Export sends to a collector. Make it with [Open]. A nil Export sends nothing.
type Export struct {
	metrics  metric.Exporter // nil: no metrics
	provider *trace.TracerProvider
	queue    *queue
	tracer   *tracing.Tracer // nil: no spans
	logs     *Logs           // nil: no logs
	resource *resource.Resource
	log      *slog.Logger
}

// Options configures an [Export].
type Options struct {
	URL         string // of --otlp; empty: that of the environment
	Version     string // of the program
	DecisionLog bool   // logs are sent, too
	Logger      *slog.Logger
}

// Open prepares the export to the URL of --otlp, or to that of the standard variables of
// the environment. It returns nil if neither names a collector, or if OTEL_SDK_DISABLED is
// true. It connects to nothing. An error names the flag or the variable that is wrong.
func Open(o Options) (*Export, error) {
	s, err := readSettings(o.URL, o.DecisionLog, os.Getenv)
	if s == nil || err != nil {
		return nil, err
	}
	log := o.Logger
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Debug("OpenTelemetry", "error", short(err)) }))
	e := &Export{log: log}
	if e.resource, err = describe(o.Version); err != nil {
		return nil, err
	}
	if err := e.openTraces(s.targets[traces], s.sampler); err != nil {
		return nil, err
	}
	if e.metrics, err = openMetrics(s.targets[metrics]); err != nil {
		return nil, err
	}
	if e.logs, err = openLogs(s.targets[logs], s.logTimeout, e.resource); err != nil {
		return nil, err
	}
	var signals []string
	for _, signal := range slices.Sorted(maps.Keys(s.targets)) {
		signals = append(signals, strings.ToLower(signal)+" to "+s.targets[signal].endpoint+" ("+s.targets[signal].protocol+")")
	}
	log.Info("exporting over OTLP", "signals", signals)
	return e, nil
}

// describe returns the attributes of this process. Each process has an id of its own,
// because a collector would take the totals of several for those of one.
func describe(version string) (*resource.Resource, error) {
	r, err := resource.New(context.Background(), resource.WithTelemetrySDK(),
		resource.WithAttributes(
			attribute.String("service.name", "stint"), attribute.String("service.version", version),
			attribute.String("service.instance.id", rand.Text()),
		), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return r, nil
}

func (e *Export) openTraces(t target, sampler tracing.Sampler) error {
	if t.endpoint == "" {
		return nil
	}
	client := otlptracehttp.NewClient(otlptracehttp.WithEndpointURL(t.endpoint))
	if t.protocol == overGRPC {
		client = otlptracegrpc.NewClient(otlptracegrpc.WithEndpointURL(t.endpoint))
	}
	// The exporter over HTTP starts nothing, and that over gRPC connects in the background.
	exporter, err := otlptrace.New(context.Background(), client)
	if err != nil {
		return fmt.Errorf("otlp: %w", err)
	}
	e.queue = newQueue(&spanOutage{exporter, outage{what: "spans", log: e.log}})
	e.provider = trace.NewTracerProvider(trace.WithSpanProcessor(e.queue), trace.WithResource(e.resource), trace.WithSampler(trace.AlwaysSample()))
	e.tracer = tracing.New(tracing.Options{Provider: e.provider, Sampler: sampler})
	return nil
}

func openMetrics(t target) (e metric.Exporter, err error) {
	switch {
	case t.endpoint == "":
		return nil, nil //nolint:nilnil // metrics are not exported
	case t.protocol == overGRPC:
		e, err = otlpmetricgrpc.New(context.Background(), otlpmetricgrpc.WithEndpointURL(t.endpoint))
	default:
		e, err = otlpmetrichttp.New(context.Background(), otlpmetrichttp.WithEndpointURL(t.endpoint))
	}
	if err != nil {
		return nil, fmt.Errorf("otlp: %w", err)
	}
	return e, nil
}

// Tracer returns the tracer, or nil if spans are not exported.
func (e *Export) Tracer() *tracing.Tracer {
	if e == nil {
		return nil
	}
	return e.tracer
}

// Logs returns the sink of the decision log, or nil if logs are not exported.
func (e *Export) Logs() *Logs {
	if e == nil {
		return nil
	}
	return e.logs
}

// DroppedSpans returns how many spans were recorded and not delivered.
func (e *Export) DroppedSpans() uint64 {
	if e == nil || e.queue == nil {
		return 0
	}
	return e.queue.dropped.Load()
}

// Run sends the metrics of a registry until ctx ends, and then what is left.
func (e *Export) Run(ctx context.Context, registry prometheus.Gatherer) {
	var meters *metric.MeterProvider
	if e.metrics != nil {
		reader := metric.NewPeriodicReader(&metricOutage{e.metrics, outage{what: "metrics", log: e.log}},
			metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(registry))))
		meters = metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(e.resource))
	}
	<-ctx.Done()
	e.end(context.WithoutCancel(ctx), meters)
}

// end sends what is left, within endTime, and logs what could not be sent.
func (e *Export) end(ctx context.Context, meters *metric.MeterProvider) {
	end, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	before := e.DroppedSpans()
	var wait sync.WaitGroup
	if e.provider != nil {
		wait.Go(func() { _ = e.provider.Shutdown(end) }) // the spans are counted below
	}
	if meters != nil {
		wait.Go(func() {
			if err := meters.Shutdown(end); err != nil {
				e.log.Warn("the last metrics were not sent", "error", short(err))
			}
		})
	}
	ended := make(chan struct{})
	go func() { wait.Wait(); close(ended) }()
	select { // an exporter that obeys no deadline must not keep the process
	case <-ended:
	case <-end.Done():
	}
	if e.queue == nil {
		return
	}
	if lost := int64(e.DroppedSpans()-before) + e.queue.unsent(); lost > 0 {
		e.log.Warn("the last spans were not sent", "spans", lost)
	}
}

// short returns an error as one bounded line: it may have what a collector has answered.
func short(err error) string {
	const most = 200
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
