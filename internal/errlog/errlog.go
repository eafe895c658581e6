// Package errlog logs why requests could not be decided, at a bounded rate.
//
// A store that fails under load fails every request. A line for each of them would fill
// disks and hide the first one, which names the cause. So each kind of failure gets one
// line in ten seconds, with the number of failures that were not written since the line
// before.
package errlog

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stintdev/stint"
)

// Every is the least time between two lines of one kind of failure.
const Every = 10 * time.Second

// codes is the number of kinds of failure; unknown ones count as the first.
const codes = int(stint.CodeContended) + 1

// Log logs failures. It is safe for concurrent use; a nil Log logs nothing.
type Log struct {
	logger  *slog.Logger
	message string
	now     func() time.Time

	mu    sync.Mutex
	kinds [codes]kind // guarded by mu
}

// kind is what a Log knows of one kind of failure.
type kind struct {
	written    time.Time // of the last line
	suppressed int64     // failures since then
}

// New returns a Log whose lines have the message, or nil if the logger is nil.
func New(logger *slog.Logger, message string, now func() time.Time) *Log {
	if logger == nil {
		return nil
	}
	return &Log{logger: logger, message: message, now: now}
}

// Note logs the error of a request. It ignores nil, errors that are the client's fault,
// and all errors of a request that has ended.
func (l *Log) Note(ctx context.Context, err error) {
	if l == nil || err == nil || ctx.Err() != nil {
		return
	}
	code := stint.CodeOf(err)
	if code == stint.CodeInvalid || code == stint.CodeConflict || code == stint.CodeCanceled {
		return
	}
	if suppressed, ok := l.due(code); ok {
		l.logger.LogAttrs(ctx, slog.LevelError, l.message,
			slog.String("error", err.Error()), slog.String("code", code.String()), slog.Int64("suppressed", suppressed))
	}
}

// due reports whether a line may be written, and the failures since the last one.
func (l *Log) due(code stint.Code) (suppressed int64, ok bool) {
	if int(code) >= codes {
		code = stint.CodeInternal
	}
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	k := &l.kinds[code]
	if since := now.Sub(k.written); since >= 0 && since < Every { // below 0: the clock was set back
		k.suppressed++
		return 0, false
	}
	suppressed, k.written, k.suppressed = k.suppressed, now, 0
	return suppressed, true
}
