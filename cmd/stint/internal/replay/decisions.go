package replay

import (
	"io"
	"strconv"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// decisionWriter writes one JSON line for each decided event. Without an
// output it does nothing.
type decisionWriter struct {
	out io.Writer
	buf []byte
}

func (w *decisionWriter) write(p *pending, r *result) error {
	if w.out == nil {
		return nil
	}
	w.buf = appendDecision(w.buf, p, r)
	if len(w.buf) < blockSize {
		return nil
	}
	return w.flush()
}

func (w *decisionWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	_, err := w.out.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

func appendDecision(b []byte, p *pending, r *result) []byte {
	d := &r.decision
	b = appendNumber(b, `{"n":`, p.line())
	b = appendNumber(b, `,"t_us":`, p.t)
	b = appendQuoted(append(b, `,"rule":`...), r.rule)
	b = appendQuoted(append(b, `,"key":`...), rule.KeyText(r.key))
	b = strconv.AppendBool(append(b, `,"allowed":`...), d.Allowed)
	b = appendNumber(b, `,"limit":`, d.Limit)
	b = appendNumber(b, `,"remaining":`, d.Remaining)
	b = appendNumber(b, `,"retry_after_us":`, microseconds(d.RetryAfter))
	b = appendNumber(b, `,"reset_after_us":`, microseconds(d.ResetAfter))
	b = appendNumber(b, `,"delay_us":`, microseconds(d.Delay))
	return append(b, "}\n"...)
}

// appendNumber appends a member of a JSON object, given what precedes its value.
func appendNumber(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), n, 10)
}

// microseconds returns a duration in microseconds, and -1 for [stint.Never].
func microseconds(d time.Duration) int64 {
	if d == stint.Never {
		return -1
	}
	return d.Microseconds()
}
