package replay

import (
	"io"
	"strconv"
	"time"

	"github.com/stintdev/stint"
)

// decisionWriter writes one JSON line for each decided event. Without an
// output it does nothing.
type decisionWriter struct {
	out io.Writer
	buf []byte
}

func (w *decisionWriter) write(p *pending, v *verdict) error {
	if w.out == nil {
		return nil
	}
	w.buf = appendDecision(w.buf, p, v)
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

func appendDecision(b []byte, p *pending, v *verdict) []byte {
	d := &v.decision
	b = append(b, `{"n":`...)
	b = strconv.AppendInt(b, p.line(), 10)
	b = append(b, `,"t_us":`...)
	b = strconv.AppendInt(b, p.t, 10)
	b = append(b, `,"rule":`...)
	b = appendQuoted(b, v.rule)
	b = append(b, `,"key":`...)
	b = appendQuoted(b, v.key)
	b = append(b, `,"allowed":`...)
	b = strconv.AppendBool(b, d.Allowed)
	b = append(b, `,"limit":`...)
	b = strconv.AppendInt(b, d.Limit, 10)
	b = append(b, `,"remaining":`...)
	b = strconv.AppendInt(b, d.Remaining, 10)
	b = append(b, `,"retry_after_us":`...)
	b = appendMicroseconds(b, d.RetryAfter)
	b = append(b, `,"reset_after_us":`...)
	b = appendMicroseconds(b, d.ResetAfter)
	b = append(b, `,"delay_us":`...)
	b = appendMicroseconds(b, d.Delay)
	return append(b, "}\n"...)
}

// appendMicroseconds appends a duration in microseconds, and [stint.Never] as
// -1.
func appendMicroseconds(b []byte, d time.Duration) []byte {
	if d == stint.Never {
		return append(b, "-1"...)
	}
	return strconv.AppendInt(b, d.Microseconds(), 10)
}
