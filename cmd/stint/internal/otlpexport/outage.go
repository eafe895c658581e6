package otlpexport

import (
	"context"
	"log/slog"
	"sync/atomic"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
)

// outage logs a collector that does not take what it is sent: once when that begins, and
// once when it ends.
type outage struct {
	what string
	log  *slog.Logger
	down atomic.Bool
}

func (o *outage) note(err error) {
	switch failed := err != nil; {
	case o.down.Swap(failed) == failed:
	case failed:
		o.log.Warn("the collector of --otlp does not take "+o.what+" (check that it runs, and its URL and protocol)", "error", short(err))
	default:
		o.log.Info("the collector of --otlp takes " + o.what + " again")
	}
}

// metricOutage is an exporter that logs outages. The totals of a failed export are in the
// next one.
type metricOutage struct {
	metric.Exporter

	outage outage
}

// Export implements [metric.Exporter].
func (m *metricOutage) Export(ctx context.Context, all *metricdata.ResourceMetrics) error {
	m.outage.note(m.Exporter.Export(ctx, all))
	return nil
}

// spanOutage is an exporter that logs outages.
type spanOutage struct {
	*otlptrace.Exporter

	outage outage
}

// ExportSpans implements [trace.SpanExporter].
func (s *spanOutage) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	err := s.Exporter.ExportSpans(ctx, spans)
	s.outage.note(err)
	return err
}

// Lengths of the queue of spans and of what is sent at once.
const (
	maxQueue = 4096
	maxBatch = 512
)

// queue is a batch processor that counts the spans that it does not deliver, which that of
// the SDK does not tell. The processor has room for all that the queue lets in.
type queue struct {
	trace.SpanProcessor

	waiting atomic.Int64
	sending atomic.Int64
	dropped atomic.Uint64
}

// unsent returns the number of spans that are neither delivered nor dropped.
func (q *queue) unsent() int64 { return q.waiting.Load() + q.sending.Load() }

func newQueue(to trace.SpanExporter) *queue {
	q := &queue{}
	q.SpanProcessor = trace.NewBatchSpanProcessor(&delivery{to, q}, trace.WithMaxQueueSize(maxQueue), trace.WithMaxExportBatchSize(maxBatch))
	return q
}

// OnEnd implements [trace.SpanProcessor].
func (q *queue) OnEnd(s trace.ReadOnlySpan) {
	if q.waiting.Add(1) > maxQueue {
		q.waiting.Add(-1)
		q.dropped.Add(1)
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// delivery is the exporter behind a queue.
type delivery struct {
	trace.SpanExporter

	queue *queue
}

// ExportSpans implements [trace.SpanExporter].
func (d *delivery) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	n := int64(len(spans))
	d.queue.sending.Add(n)
	d.queue.waiting.Add(-n)
	defer d.queue.sending.Add(-n)
	if d.SpanExporter.ExportSpans(ctx, spans) != nil {
		d.queue.dropped.Add(uint64(len(spans)))
	}
	return nil // the error was logged
}
