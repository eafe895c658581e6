package redisstore

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/callerbudget"
	"github.com/stintdev/stint/storekit"
)

// A group that may be repeated (stint.Once) has a script call of its own, of once.lua.
// The script keeps the reply under a record's key, in the same atomic step as the charge,
// and answers a repeat with that reply. A reply has the states that the script found, and
// this program computes the decisions from it; so it computes those of the first call
// again, on whatever node.
//
// On one server a record's key has only the ID, so an ID belongs to one group whatever
// its keys. On a Cluster the record must be in the slot of the group. A group in several
// slots is taken as several units (see crossSlot), each with a record of its own. A repeat
// after a crash gets the units that were charged from their records, and charges the
// others: each is charged once. To undo a charged unit deletes its record in the same
// step, and happens only if there is a record.
//
// That the ID belongs to another group is exact in each slot. For groups in other slots a
// Cluster has a mark in the slot of the ID, which the store makes before the group is
// taken and deletes after a denial. Marks are a best effort: if a node crashes, or an
// identical group is denied and admitted at one time, another group with the ID may be
// taken. Two calls of one group in several slots at the same time are exact unless one
// of them is denied: the charges that it undoes may then be those that the other one
// found.

// DefaultOnceBytes is the default of [Options.OnceBytes].
const DefaultOnceBytes = 128 << 20

// onceCall is the call of a group that may be repeated.
type onceCall struct {
	id     [16]byte // digest of the ID
	group  [16]byte // digest of the group
	unit   int      // of a group in several slots: number of the unit
	mode   onceMode
	marked bool  // this call has made the mark of the ID
	err    error // why the group cannot be taken

	repeated bool // the group is remembered; set by the batch
}

// onceMode says what once.lua does.
type onceMode string

const (
	onceTake   onceMode = "take"
	onceAny    onceMode = "any"
	onceFind   onceMode = "find"
	onceDry    onceMode = "dry"
	onceUndo   onceMode = "undo"
	onceMark   onceMode = "mark"
	onceUnmark onceMode = "unmark"
)

// status is the last byte of a reply of once.lua.
const (
	statusDecided    = 0
	statusRemembered = 1
	statusRepeated   = 2
	statusConflict   = 3
	statusNoUndo     = 4
	statusNotFound   = 5
)

// onceTrailer is how many bytes once.lua adds to the reply of take.lua.
const onceTrailer = 2

// newOnce returns the call of a group, or nil if the group is not remembered.
func newOnce(g *stint.Group) *onceCall {
	if g.Once == nil || !g.Repeatable() {
		return nil
	}
	if err := g.Once.Validate(); err != nil {
		return &onceCall{err: err}
	}
	if err := stint.ValidateClaims(g.Claims); err != nil {
		return &onceCall{err: err}
	}
	return &onceCall{id: g.Once.Digest(), group: g.Digest(), mode: onceTake}
}

// of returns the call of a unit of the group.
func (o *onceCall) of(unit int, mode onceMode) *onceCall {
	return &onceCall{id: o.id, group: o.group, unit: unit, mode: mode}
}

// The keys of records and of marks: see key.go.
const (
	recordMark = "!"
	markMark   = "!!"
)

// name returns the part of a key that stands for the ID and the unit.
func (o *onceCall) name() string {
	id := o.id
	if o.unit > 0 {
		sum := sha256.Sum256(append(id[:], byte(o.unit>>8), byte(o.unit)))
		copy(id[:], sum[:])
	}
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// recordKey returns the key of the record of a group whose first claim is c.
func (e *encoding) recordKey(o *onceCall, c *stint.Claim) string {
	first := ""
	if e.cluster {
		first, _, _ = strings.Cut(c.Key, partSeparator)
	}
	return string(e.appendKey(nil, first, recordMark, o.name()))
}

// args returns the arguments of once.lua after those of take.lua. bounded says that the
// reply of take.lua has a byte for the group.
func (o *onceCall) args(bounded bool) []string {
	flag := byte(0)
	if bounded {
		flag = 1
	}
	return []string{string(append(o.group[:len(o.group):len(o.group)], flag)), string(o.mode)}
}

// invokeOnce returns the call of once.lua for the only group of the batch.
func (b *batch) invokeOnce() invocation {
	b.plain = false
	b.sentAt = b.encoding.callers.Now()
	b.encodeAll()
	call := b.invoke(b.encoding.once)
	call.keys = append(call.keys, b.encoding.recordKey(b.once, b.lines[0].claim))
	call.args = append(call.args[:1:1], b.once.args(b.boundedGroup(&b.groups[0]))...)
	b.names, b.recordBytes = call.keys, len(call.keys[len(call.keys)-1])
	return call
}

// decodeOnce decodes a reply of once.lua.
func (b *batch) decodeOnce(data string, out []stint.Decision) error {
	end := len(data) - onceTrailer
	if end < answerHead {
		return garbled("is too short")
	}
	switch status := data[end+1]; status {
	case statusDecided:
	case statusRemembered:
		b.encoding.noteRecord(b.recordBytes, end)
	case statusRepeated:
		return b.decodeRepeat(data[:end], data[end] == 1, out)
	case statusConflict:
		return storekit.OnceConflict()
	case statusNoUndo:
		return nil
	case statusNotFound:
		return b.encoding.refuseRecord()
	default:
		return garbled("has an unknown status")
	}
	var errs [1]error
	b.decodeReply(data[:end], out, errs[:])
	return errs[0]
}

// decodeRepeat decodes the reply to the first call of the group. bounded says that it has
// a byte for the group.
func (b *batch) decodeRepeat(data string, bounded bool, out []stint.Decision) error {
	b.groups[0].flags &^= dryGroup // the first call charged, although this one may be dry
	b.once.repeated, b.repeatBounded = true, bounded
	var errs [1]error
	b.decodeReply(data, out, errs[:])
	for i := range out {
		out[i].Repeated = true
	}
	return errs[0]
}

// repeats reports whether the reply is that of an earlier call.
func (b *batch) repeats() bool { return b.once != nil && b.once.repeated }

// recordLife is how long a record stays in the server, in milliseconds, beside
// Options.KeepFor.
var recordLife = stint.RememberFor.Milliseconds() + 1

// noteRecord adds a record with a reply of some bytes, or a mark, to the account.
func (e *encoding) noteRecord(keyBytes, replyBytes int) {
	const groupBytes = 16 + 1 // ARGV[2] of once.lua
	e.records.Note(&callerbudget.Wrote{
		Class: recordClass, After: recordLife + e.keep, AnsweredAt: e.records.Now(),
		KeyBytes: int64(keyBytes), NewBytes: int64(groupBytes + replyBytes),
	})
}

// assumeRecord adds the record that a call without an answer may have made.
func (b *batch) assumeRecord() {
	if b.once != nil && (b.once.mode == onceTake || b.once.mode == onceAny) {
		b.encoding.noteRecord(b.recordBytes, answerHead+len(b.order)*(1+maxFresh))
	}
}

// recordClass is the class of records in their account: all live about a minute.
const recordClass callerbudget.Class = 1

// modeOfNew returns the mode of a call that may make a record: onceTake, or onceFind while
// there is no room for one. A repeat is answered even then.
func (e *encoding) modeOfNew() onceMode {
	if _, full := e.records.Wait(recordClass); full {
		return onceFind
	}
	return onceTake
}

// refuseRecord counts a group for which there is no room, and returns its error.
func (e *encoding) refuseRecord() error {
	e.records.Refused.Add(1)
	wait, _ := e.records.Wait(recordClass)
	return storekit.OnceBudget(max(wait, time.Millisecond))
}
