package adaptive

import "time"

// Gate lets calls in or sheds them. It is safe for use by many goroutines at
// once.
type Gate interface {
	// Enter asks whether a call may go ahead. If so, end the Call.
	Enter() (c Call, ok bool)
}

// enter asks a gate, or lets in where there is none.
func enter(g Gate) (Call, bool) {
	if g == nil {
		return Call{}, true
	}
	return g.Enter()
}

// Outcome is what a call says of the load.
type Outcome uint8

// The outcomes.
const (
	Served  Outcome = iota // it was answered, well or not
	Dropped                // there was too much load: refused further on, or too late
	Ignored                // nothing: its caller gave up
)

// Call is a call that a [Gate] let in. Say once by Answer how it went, and
// once by Leave that it is over, or both by End. The zero Call belongs to no
// gate, and may be ended too.
type Call struct {
	gate  ender
	start time.Duration
}

type ender interface {
	answer(c Call, o Outcome)
	leave()
	now() time.Duration
}

// Answer says how the call went; its latency is the time until then.
func (c Call) Answer(o Outcome) {
	if c.gate != nil {
		c.gate.answer(c, o)
	}
}

// Leave says that the call holds nothing up any more.
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
