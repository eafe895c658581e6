package server

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Any client can provoke log lines about single requests, for example by garbage or while
// a store or an upstream fails. Each such message is limited to a few lines a second, and
// the next line reports the number of suppressed ones.
const linesPerSecond = 10

// perRequest returns the prefixes of messages about single requests.
func perRequest() []string {
	return []string{"no decision", "request failed", "http: panic serving", "panic serving gRPC", "panic serving resp"}
}

// boundedLog is a log handler that bounds the messages about single requests.
type boundedLog struct {
	slog.Handler

	kinds map[string]*logBudget // by prefix; read-only
}

// boundLog returns a logger that wraps log with that bound.
func boundLog(log *slog.Logger) *slog.Logger {
	b := &boundedLog{log.Handler(), map[string]*logBudget{}}
	for _, begin := range perRequest() {
		b.kinds[begin] = &logBudget{}
	}
	return slog.New(b)
}

// Handle implements [slog.Handler].
func (b *boundedLog) Handle(ctx context.Context, r slog.Record) error {
	if budget := b.budgetOf(r.Message); budget != nil {
		suppressed, ok := budget.take(r.Time)
		if !ok {
			return nil
		}
		if suppressed > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int64("suppressed", suppressed))
		}
	}
	return b.Handler.Handle(ctx, r)
}

func (b *boundedLog) budgetOf(message string) *logBudget {
	for begin, budget := range b.kinds {
		if strings.HasPrefix(message, begin) {
			return budget
		}
	}
	return nil
}

// WithAttrs implements [slog.Handler].
func (b *boundedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &boundedLog{b.Handler.WithAttrs(attrs), b.kinds}
}

// WithGroup implements [slog.Handler].
func (b *boundedLog) WithGroup(name string) slog.Handler {
	return &boundedLog{b.Handler.WithGroup(name), b.kinds}
}

// logBudget counts the lines of the current second and the suppressed lines.
type logBudget struct {
	mu         sync.Mutex
	second     int64 // Unix time
	lines      int   // lines written in that second
	suppressed int64 // lines suppressed since the last one written
}

// take reports whether a line may be written, and how many were suppressed since the last
// one.
func (l *logBudget) take(now time.Time) (suppressed int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if second := now.Unix(); second != l.second {
		l.second, l.lines = second, 0
	}
	if l.lines == linesPerSecond {
		l.suppressed++
		return 0, false
	}
	l.lines++
	suppressed, l.suppressed = l.suppressed, 0
	return suppressed, true
}
