package breaker

import "time"

// State is what a [Breaker] does with the calls that it is asked about.
type State uint8

// The states.
const (
	Closed     State = iota // lets calls through and counts how they end
	Open                    // refuses calls until its time is over
	HalfOpen                // lets a few calls through, as probes
	ForcedOpen              // refuses calls until Reset
	Disabled                // lets calls through and counts nothing, until Reset
)

// String returns the state in lower case: "half-open".
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case HalfOpen:
		return "half-open"
	case ForcedOpen:
		return "forced open"
	case Disabled:
		return "disabled"
	}
	return "unknown"
}

// Reason is why a [Breaker] changed its state.
type Reason uint8

// The reasons.
const (
	ReasonConsecutive Reason = iota + 1 // so many failures in a row
	ReasonFailures                      // the share of failures in the window
	ReasonSlow                          // the share of slow calls in the window
	ReasonProbe                         // how a probe ended
	ReasonTime                          // the time to be open is over
	ReasonCaller                        // ForceOpen, Disable or Reset
)

// String returns the reason as a log would have it.
func (r Reason) String() string {
	switch r {
	case ReasonConsecutive:
		return "failures in a row"
	case ReasonFailures:
		return "failure ratio"
	case ReasonSlow:
		return "slow calls"
	case ReasonProbe:
		return "probe"
	case ReasonTime:
		return "time"
	case ReasonCaller:
		return "caller"
	}
	return "unknown"
}

// Change is one change of state.
type Change struct {
	From, To State
	Reason   Reason
	OpenFor  time.Duration // how long it will be open; 0 unless To is Open
}

// word is a state and, above it, how many changes there have been. A call
// remembers the word that it began under: its result counts only while that
// still stands.
type word uint64

const stateBits = 8

func (w word) state() State { return State(w & (1<<stateBits - 1)) }

func (w word) next(s State) word { return (w>>stateBits+1)<<stateBits | word(s) }
