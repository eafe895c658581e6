package redisstore

import (
	"encoding/binary"
	"time"

	"github.com/stintdev/stint"
)

// The log of a key can be 90 kB long, so take.lua does not send it. It sends
// what a decision needs of it, for each claim:
//
//	allowed B, at i7, counted I4, granted I4,
//	newest i7, oldest to leave for one unit more i7, and for the cost i7
//
// the last three being times at which units were admitted, 0 for none.
const logBytes = 1 + 7 + 4 + 4 + 3*7

// tellLog is what package stint tells of a log.
func (r *replay) tellLog(l *line) (d stint.Decision) {
	data := r.nextLog()
	n := l.limit.limit.Numbers()
	window := n.Window - r.answers.now
	counted := int64(binary.BigEndian.Uint32(data[8:]))
	d.Allowed, d.Limit, d.At = data[0] == 1, n.Max, readInt7(data[1:])
	d.Granted = int64(binary.BigEndian.Uint32(data[12:]))
	d.Remaining = max(0, n.Max-counted)
	if counted > 0 {
		d.ResetAfter = micros(readInt7(data[16:]) + window)
		d.NextAfter = micros(readInt7(data[23:]) + window)
	}
	switch {
	case d.Allowed:
	case l.claim.Cost > n.Max:
		d.RetryAfter = stint.Never
	default:
		d.RetryAfter = micros(readInt7(data[30:]) + window)
	}
	return d
}

func (r *replay) nextLog() []byte {
	data := r.answers.logs[:logBytes]
	r.answers.logs = r.answers.logs[logBytes:]
	return data
}

// skipLogs passes over what was sent for the lines of a group that failed.
func (r *replay) skipLogs(lines []line) {
	for i := range lines {
		for range lines[i].times {
			if lines[i].limit.kind == logKind {
				r.nextLog()
			}
		}
	}
}

// maxMicros is the longest time told.
const maxMicros = 1<<53 - 1

func micros(us int64) time.Duration { return time.Duration(min(us, maxMicros)) * time.Microsecond }
