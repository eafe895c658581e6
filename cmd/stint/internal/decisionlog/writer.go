package decisionlog

import (
	"bytes"
	"time"
)

// LastLinesLost is logged at the end with the number of lines that the sink does not take.
const LastLinesLost = "decision log: the last lines are lost, because the file, the stream or the collector does not take them"

// Run writes lines until done is closed, then writes the remaining ones and closes the sink.
// All decisions must have been recorded when done is closed.
func (l *Log) Run(done <-chan struct{}) {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	w := writer{log: l}
	for {
		select {
		case <-ticker.C:
		case <-l.wake:
		case <-done:
			if lost := w.flush(); lost > 0 {
				l.options.Logger.Error(LastLinesLost, "lines", lost)
			}
			if err := l.options.Sink.Close(); err != nil {
				l.options.Logger.Error("decision log: cannot be closed", "error", err)
			}
			return
		}
		w.flush()
	}
}

// writer writes what the log has collected. One goroutine uses it.
type writer struct {
	log    *Log
	lines  []byte   // with those of the log, two buffers that swap
	of     []source // of lines
	failed bool     // the last write failed, and was logged
}

// flush writes all lines, and returns the number of those that the sink does not take.
func (w *writer) flush() (lost int) {
	l := w.log
	if l.reopen.Swap(false) {
		w.reopen()
	}
	l.mu.Lock()
	w.lines, l.mu.lines = l.mu.lines, w.lines[:0]
	w.of, l.mu.of = l.mu.of, w.of[:0]
	l.writing.Store(int64(len(w.of)))
	l.mu.Unlock()
	if len(w.lines) == 0 {
		return 0
	}
	stored, err := l.options.Sink.WriteLines(w.lines)
	w.count(stored)
	l.writing.Store(0)
	switch {
	case err != nil && !w.failed:
		l.options.Logger.Error("decision log: cannot be written; lines are dropped and counted until it can", "error", err)
	case err == nil && w.failed:
		l.options.Logger.Info("decision log: can be written again")
	}
	w.failed = err != nil
	return len(w.of) - stored
}

// count counts the lines that the sink has stored, and drops the others.
func (w *writer) count(stored int) {
	l := w.log
	for _, from := range w.of[:stored] {
		if from.notable {
			l.denied.Add(1)
		} else {
			l.allowed.Add(1)
		}
	}
	for _, from := range w.of[stored:] {
		l.drop(from.share, from.notable, ByWrite, from.minute)
		if from.missed > 0 {
			l.missed.add(from.missed, from.minute)
		}
	}
}

func (w *writer) reopen() {
	if s, ok := w.log.options.Sink.(Reopener); ok {
		if err := s.Reopen(); err != nil {
			w.log.options.Logger.Error("decision log: cannot be opened again", "error", err)
		}
	}
}

// countLines returns the number of complete lines.
func countLines(lines []byte) int { return bytes.Count(lines, []byte{'\n'}) }
