package otlpexport

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/log"
	sdk "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"

	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
)

// Logs sends the lines of the decision log as log records. It implements the sink of package
// decisionlog, which calls it in one goroutine, bounds the lines that wait while it sends, and
// counts and logs those that the collector does not take. So it has no queue.
type Logs struct {
	exporter sdk.Exporter
	timeout  time.Duration // of one send
	logger   log.Logger
	records  recordRoom
}

// eventName is the name of all records.
const eventName = "stint.decision"

func openLogs(t target, timeout time.Duration, r *resource.Resource) (*Logs, error) {
	if t.endpoint == "" {
		return nil, nil //nolint:nilnil // logs are not exported
	}
	l := &Logs{timeout: timeout}
	var err error
	if t.protocol == overGRPC {
		l.exporter, err = otlploggrpc.New(context.Background(), otlploggrpc.WithEndpointURL(t.endpoint))
	} else {
		l.exporter, err = otlploghttp.New(context.Background(), otlploghttp.WithEndpointURL(t.endpoint))
	}
	if err != nil {
		return nil, fmt.Errorf("otlp: %w", err)
	}
	l.logger = sdk.NewLoggerProvider(sdk.WithResource(r), sdk.WithProcessor(&l.records)).Logger(scope)
	return l, nil
}

// scope is the name of the instrumentation scope.
const scope = "github.com/stintdev/stint"

// WriteLines sends lines, each a JSON object. It returns how many the collector has taken, from
// the first on. Of records that it takes only in part, it does not say which, so they count as
// not taken.
func (l *Logs) WriteLines(lines []byte) (stored int, err error) {
	for len(lines) > 0 {
		l.records.kept = l.records.kept[:0]
		for len(lines) > 0 && len(l.records.kept) < maxBatch {
			text, rest, _ := bytes.Cut(lines, []byte{'\n'})
			if err := l.emit(text); err != nil {
				return stored, err
			}
			lines = rest
		}
		if err := l.send(); err != nil {
			return stored, err
		}
		stored += len(l.records.kept)
	}
	return stored, nil
}

func (l *Logs) send() error {
	ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
	defer cancel()
	if err := l.exporter.Export(ctx, l.records.kept); err != nil {
		return errors.New("the collector of --otlp does not take logs (check that it runs, and its URL and protocol): " + short(err))
	}
	return nil
}

// Close ends the exporter.
func (l *Logs) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	return l.exporter.Shutdown(ctx) //nolint:wrapcheck // its caller says what it is of
}

// emit makes the record of a line. Its attributes are the members of the line, with their names
// and types, but for the ids of the trace and the span, which a record has places for.
func (l *Logs) emit(text []byte) error {
	var members line
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&members); err != nil {
		return fmt.Errorf("a line is not JSON: %w", err)
	}
	var r log.Record
	r.SetEventName(eventName)
	r.SetTimestamp(members.time())
	r.SetBody(attribute.StringValue(members.body()))
	severity := members.severity()
	r.SetSeverity(severity)
	r.SetSeverityText(severity.String())
	for name, value := range members {
		if name != traceMember && name != spanMember {
			r.AddAttributes(attribute.KeyValue{Key: attribute.Key(name), Value: valueOf(value)})
		}
	}
	l.logger.Emit(members.context(), r)
	return nil
}

// line is a line of the decision log.
type line map[string]any

// The members with the ids of the trace and the span.
const (
	traceMember = "trace_id"
	spanMember  = "span_id"
)

func (l line) text(name string) string {
	text, _ := l[name].(string)
	return text
}

func (l line) time() time.Time {
	n, _ := l["t_us"].(json.Number)
	us, _ := n.Int64()
	return time.UnixMicro(us)
}

// context returns a context with the span of the request, from which the record takes it.
func (l line) context() context.Context {
	id, span := l.text(traceMember), l.text(spanMember)
	if id == "" {
		return context.Background()
	}
	c, _ := w3ctrace.Parse([]string{"00-" + id + "-" + span + "-01"})
	return trace.ContextWithSpanContext(context.Background(),
		trace.NewSpanContext(trace.SpanContextConfig{TraceID: c.TraceID, SpanID: c.SpanID, TraceFlags: trace.FlagsSampled}))
}

// severity rates a denial above an admission, and a decision without the store above both: a
// denial is the work of the server, and a degraded decision its failure.
func (l line) severity() log.Severity {
	switch {
	case l["degraded"] == true:
		return log.SeverityError
	case l["allowed"] != true:
		return log.SeverityWarn
	}
	return log.SeverityInfo
}

// body returns the decision for people, such as "denied by orders/fixed_window:1m".
func (l line) body() string {
	text := "denied"
	if l["allowed"] == true {
		text = "allowed"
	}
	switch rule, limit := l.text("rule"), l.text("limit_name"); {
	case l.text("list") != "":
		text += " by the " + l.text("list") + " list"
	case rule != "" && limit != "":
		text += " by " + rule + "/" + limit
	default:
		text += " by " + cmp.Or(rule, "no rule")
	}
	if l["degraded"] == true {
		text += ", without the store"
	}
	return text
}

// valueOf returns a value of a line as the value of an attribute.
func valueOf(v any) attribute.Value {
	switch v := v.(type) {
	case bool:
		return attribute.BoolValue(v)
	case string:
		return attribute.StringValue(v)
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return attribute.Int64Value(n)
		}
		f, _ := v.Float64() // it is a number in JSON
		return attribute.Float64Value(f)
	case []any:
		texts := make([]string, len(v))
		for i := range v {
			texts[i] = fmt.Sprint(v[i])
		}
		return attribute.StringSliceValue(texts)
	}
	return attribute.StringValue(fmt.Sprint(v))
}

// recordRoom is a processor that keeps the records of a send. The SDK makes records only for
// processors.
type recordRoom struct{ kept []sdk.Record }

// OnEmit implements [sdk.Processor].
func (r *recordRoom) OnEmit(_ context.Context, record *sdk.Record) error {
	r.kept = append(r.kept, record.Clone())
	return nil
}

// Enabled implements [sdk.Processor].
func (*recordRoom) Enabled(context.Context, sdk.EnabledParameters) bool { return true }

// Shutdown implements [sdk.Processor].
func (*recordRoom) Shutdown(context.Context) error { return nil }

// ForceFlush implements [sdk.Processor].
func (*recordRoom) ForceFlush(context.Context) error { return nil }
