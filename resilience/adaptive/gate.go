package adaptive

import "time"

// Gate admits calls or sheds them. It is safe for concurrent use.
type Gate interface {
	// Enter reports whether a call may go ahead. If ok, the caller must end the Call.
	Enter() (c Call, ok bool)
}

// enter calls the gate's Enter. A nil gate admits every call.
func enter(g Gate) (Call, bool) {
	if g == nil {
		return Call{}, true
	}
	return g.Enter()
}

// Outcome is what a call tells about the load.
type Outcome uint8

// The outcomes.
const (
	Served  Outcome = iota // the call was answered, successfully or not
	Dropped                // overload: it was refused further on, or was too late
	Ignored                // the result is unknown, because the caller gave up
)

// Call is a call that a [Gate] admitted. Report its outcome once by Answer and its end
// once by Leave, or both by End. The zero Call belongs to no gate; ending it does
// nothing.
type Call struct {
	gate  ender
	start time.Duration
}

type ender interface {
	answer(c Call, o Outcome)
	leave()
	now() time.Duration
}

// Answer reports the outcome of the call. The call's latency is the time from Enter until
// Answer.
func (c Call) Answer(o Outcome) {
	if c.gate != nil {
		c.gate.answer(c, o)
	}
}

// Leave frees the call's place.
func (c Call) Leave() {
	if c.gate != nil {
		c.gate.leave()
	}
}

// End is shorthand for Answer and Leave.
func (c Call) End(o Outcome) {
	c.Answer(o)
	c.Leave()
}
