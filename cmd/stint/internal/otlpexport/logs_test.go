package otlpexport

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/log"
	sdk "go.opentelemetry.io/otel/sdk/log"
)

// taker is an exporter that takes a number of sends.
type taker struct {
	room    int
	records []sdk.Record
}

func (e *taker) Export(_ context.Context, records []sdk.Record) error {
	if e.room--; e.room < 0 {
		return errors.New("full\nof " + strings.Repeat("x", 1000))
	}
	e.records = append(e.records, records...)
	return nil
}

func (*taker) Shutdown(context.Context) error   { return nil }
func (*taker) ForceFlush(context.Context) error { return nil }

func newLogs(e sdk.Exporter) *Logs {
	l := &Logs{exporter: e, timeout: time.Second}
	l.logger = sdk.NewLoggerProvider(sdk.WithProcessor(&l.records)).Logger(scope)
	return l
}

func TestRecordsSayWhatWasDecided(t *testing.T) {
	to := &taker{room: 1}
	l := newLogs(to)
	want := []struct {
		line, body string
		severity   log.Severity
	}{
		{`{"t_us":5,"rule":"a","limit_name":"day","allowed":true,"degraded":false}`, "allowed by a/day", log.SeverityInfo},
		{`{"t_us":5,"rule":"a","limit_name":"day","allowed":false,"degraded":false}`, "denied by a/day", log.SeverityWarn},
		{`{"t_us":5,"rule":"a","limit_name":"day","allowed":true,"degraded":true}`, "allowed by a/day, without the store", log.SeverityError},
		{`{"t_us":5,"rule":"(take)","allowed":false}`, "denied by (take)", log.SeverityWarn},
		{`{"t_us":5,"rule":"","allowed":true}`, "allowed by no rule", log.SeverityInfo},
		{`{"t_us":5,"rule":"","allowed":false,"list":"deny"}`, "denied by the deny list", log.SeverityWarn},
	}
	var text strings.Builder
	for _, w := range want {
		text.WriteString(w.line + "\n")
	}
	if n, err := l.WriteLines([]byte(text.String())); n != len(want) || err != nil {
		t.Fatal(n, err)
	}
	for i, w := range want {
		if r := &to.records[i]; r.Body().AsString() != w.body || r.Severity() != w.severity || !r.Timestamp().Equal(time.UnixMicro(5)) {
			t.Errorf("%s: %v, %v at %v", w.line, r.Body(), r.Severity(), r.Timestamp())
		}
	}
}

// What a collector does not take is not counted as stored, and its answer is bounded.
func TestLinesThatTheCollectorTook(t *testing.T) {
	l := newLogs(&taker{room: 2})
	n, err := l.WriteLines([]byte(strings.Repeat(`{"allowed":true}`+"\n", 3*maxBatch-1)))
	if n != 2*maxBatch || err == nil || !strings.Contains(err.Error(), "does not take logs") || len(err.Error()) > 400 || strings.Contains(err.Error(), "\n") {
		t.Errorf("%d lines, %v", n, err)
	}
}
