package redisstore

import (
	"encoding/binary"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/callerbudget"
)

// Values in a reply that stand in place of the length of a state.
const (
	wrongType = 254 // the key holds a value of another type
	corrupt   = 255 // the value is not a state
)

// decode decodes the reply of a script; see decodeReply.
func (b *batch) decode(data string, out []stint.Decision, errs []error) {
	if b.once != nil {
		errs[0] = b.decodeOnce(data, out)
		return
	}
	b.decodeReply(data, out, errs)
}

// decodeReply repeats the steps of the script on the states that the script found, and
// writes the decisions: one for each caller of each line in the order of add, and
// within a line in the order of again. errs has one entry per group, nil if the group
// was decided.
func (b *batch) decodeReply(data string, out []stint.Decision, errs []error) {
	r, err := b.open(data)
	if err == nil {
		err = b.answer(r, out, errs)
	}
	if err == nil {
		return
	}
	for i := range errs {
		errs[i] = err
	}
}

// answers is a reply, split into its parts.
type answers struct {
	now     int64
	allowed int    // callers, by the script's count
	sizes   []byte // for each key, in the order sent
	logs    []byte // logBytes for each claim on a log
	refused []byte // 1 or 0 for each group that may make no state
	states  []byte
}

func (b *batch) open(data string) (r answers, err error) {
	b.data = append(b.data[:0], data...)
	logs, refusals, written := 0, 0, 0
	if !b.plain {
		logs, refusals, written = b.count()
	}
	if b.repeats() {
		if refusals = 0; b.repeatBounded {
			refusals = 1
		}
	}
	now, allowed, rest, err := readHead(b.data, len(b.order)+logs*logBytes+refusals+written*wroteBytes)
	if err != nil {
		return r, err
	}
	r.now, r.allowed = now, allowed
	r.sizes, rest = rest[:len(b.order)], rest[len(b.order):]
	r.logs, rest = rest[:logs*logBytes], rest[logs*logBytes:]
	r.refused, rest = rest[:refusals], rest[refusals:]
	r.states = rest[written*wroteBytes:]
	if b.repeats() {
		r.refused = nil // the group was admitted
	} else if written > 0 {
		b.noteWritten(rest)
	}
	return r, nil
}

// readHead reads the head of a reply and returns the rest, which has the given length in
// bytes or more.
func readHead(data []byte, least int) (now int64, allowed int, rest []byte, err error) {
	if len(data) < answerHead+least {
		return 0, 0, nil, garbled("is too short")
	}
	if now = readInt7(data); now < 0 || now > maxMicros {
		return 0, 0, nil, garbled("has no valid time")
	}
	return now, int(binary.BigEndian.Uint32(data[7:])), data[answerHead:], nil
}

const answerHead = 7 + 4

// count returns three numbers of the batch: claims on logs; groups that may not create a state,
// as the script counts them; and keys of limits that callers brought.
func (b *batch) count() (logs, bounded, callers int) {
	for i := range b.lines {
		if b.lines[i].limit.kind == logKind {
			logs += b.lines[i].times
		}
	}
	for i := range b.groups {
		if g := &b.groups[i]; b.boundedGroup(g) {
			bounded += b.parts(g)
		}
	}
	for i := range b.firstOn {
		if b.lines[b.firstOn[i]].limit.class > 0 {
			callers++
		}
	}
	return logs, bounded, callers
}

// parts returns as how many groups the script gets a group. A line on a log becomes
// one group per caller.
func (b *batch) parts(g *lineGroup) int {
	if l := &b.lines[g.first]; g.lines == 1 && l.limit.kind == logKind {
		return l.times
	}
	return 1
}

// wroteBytes is the length of the script's report on a key of a caller's limit: class
// (B), remaining ms before and after (i7 each), bytes before and after (I4 each). All
// are 0 if the key was not written.
const wroteBytes = 1 + 7 + 7 + 4 + 4

// noteWritten adds the written states to the account of callers' limits.
func (b *batch) noteWritten(data []byte) {
	w := callerbudget.Wrote{SentAt: b.sentAt, AnsweredAt: b.encoding.callers.Now()}
	for _, i := range b.order {
		l := &b.lines[b.firstOn[i]]
		if l.limit.class == 0 {
			continue
		}
		w.Class, w.Before, w.After = callerbudget.Class(data[0]), readInt7(data[1:]), readInt7(data[8:])
		w.OldBytes, w.NewBytes = int64(binary.BigEndian.Uint32(data[15:])), int64(binary.BigEndian.Uint32(data[19:]))
		w.KeyBytes, w.Log = int64(len(b.keys.key(i))-shapeBytes), l.limit.kind == logKind
		data = data[wroteBytes:]
		if w.Class > 0 && int(w.Class) <= callerbudget.Classes {
			b.encoding.callers.Note(&w)
		}
	}
}

// assumeWritten adds all states that a call without an answer may have created to the
// account.
func (b *batch) assumeWritten() {
	w := callerbudget.Wrote{AnsweredAt: b.encoding.callers.Now()}
	for i := range b.lines {
		l := &b.lines[i]
		if l.limit.class == 0 || l.claim.Cost+l.claim.Extra <= 0 {
			continue
		}
		w.Class, w.After = l.limit.class, callerbudget.LifeOf(l.limit.limit)+b.encoding.keep
		w.KeyBytes, w.NewBytes, w.Log = int64(len(b.keys.key(l.key))-shapeBytes), maxFresh, l.limit.kind == logKind
		b.encoding.callers.Note(&w)
	}
}

// maxFresh is the longest value of a new state: a sliding counter of 60 buckets.
const maxFresh = 7 + 4*(stint.MaxBuckets+1)

// answer decides all groups. The script took the same steps, so both must allow the
// same number of callers. A difference is an error, because the decisions would not
// match the charges.
func (b *batch) answer(r answers, out []stint.Decision, errs []error) error {
	if err := b.readStates(&r); err != nil {
		return err
	}
	replay := verifier{batch: b, answers: r, admitted: true}
	for i := range b.groups {
		g := &b.groups[i]
		n := b.callers(g)
		errs[i] = replay.group(g, out[:n])
		out = out[n:]
	}
	if replay.allowed != r.allowed {
		return disagreement()
	}
	return nil
}

// callers returns how many decisions a group takes.
func (b *batch) callers(g *lineGroup) int {
	if g.lines == 1 {
		return b.lines[g.first].times
	}
	return g.lines
}

// readStates decodes the states of the keys, each under the limit of the first
// line on it.
func (b *batch) readStates(r *answers) error {
	b.states, b.faults = grow(b.states, len(b.order)), grow(b.faults, len(b.order))
	for at, i := range b.order {
		l := &b.lines[b.firstOn[i]]
		size := int(r.sizes[at])
		if size >= wrongType {
			b.faults[i] = unreadable(size, l.claim)
			continue
		}
		if size > len(r.states) {
			return garbled("is too short")
		}
		b.states[i], b.faults[i] = l.limit.limit.DecodeState(r.states[:size])
		r.states = r.states[size:]
	}
	if len(r.states) > 0 {
		return garbled("is too long")
	}
	return nil
}

// unreadable returns the error of a key whose value is not a state.
func unreadable(size int, c *stint.Claim) error {
	e := &stint.Error{
		Code: stint.CodeInternal, Kind: stint.KindCorrupt, Problem: "state: the value of a key is not a state of " + c.Limit.Name(),
		Mend: "let no other program write below the prefix of the store's keys; reset the key",
	}
	if size == wrongType {
		e.Kind, e.Problem = stint.KindWrongType, "state: a key of "+c.Limit.Name()+" holds a value of another type"
	}
	return e
}

// disagreement returns the error of a script whose steps differ from this program's.
func disagreement() error { return garbled("differs from the steps of this program") }

// garbled returns the error of a reply that no script sends.
func garbled(problem string) error {
	return &stint.Error{
		Code: stint.CodeInternal, Kind: stint.KindGarbled, Problem: "the script's reply " + problem,
		Mend: "run the same version of Stint on every node, and check that no proxy changes bytes on the way to the server",
	}
}

func readInt7(data []byte) int64 {
	high, low := binary.BigEndian.Uint32(data), binary.BigEndian.Uint32(data[3:])
	return int64(uint64(high)<<32|uint64(low)<<8) >> 8
}

// The log of a key can be 90 kB long, so take.lua does not send it. For each claim it
// sends what the decision needs:
//
//	allowed B, at i7, counted I4, granted I4,
//	newest i7, oldest to leave for one unit more i7, and for the cost i7
//
// The last three are times at which units were admitted, 0 for none.
const logBytes = 1 + 7 + 4 + 4 + 3*7

// reportLog returns the decision of a claim on a log, as package stint computes it.
func (v *verifier) reportLog(l *line) (d stint.Decision) {
	data := v.nextLog()
	n := l.limit.limit.Numbers()
	window := n.Window - v.answers.now
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

func (v *verifier) nextLog() []byte {
	data := v.answers.logs[:logBytes]
	v.answers.logs = v.answers.logs[logBytes:]
	return data
}

// skipLogs skips the entries of the lines of a group that failed.
func (v *verifier) skipLogs(lines []line) {
	for i := range lines {
		for range lines[i].times {
			if lines[i].limit.kind == logKind {
				v.nextLog()
			}
		}
	}
}

// maxMicros is the longest time in a decision.
const maxMicros = 1<<53 - 1

func micros(us int64) time.Duration { return time.Duration(min(us, maxMicros)) * time.Microsecond }
