package breaker

import "time"

// State is the state of a [Breaker].
type State uint8

// The states.
const (
	Closed     State = iota // lets calls through and counts how they end
	Open                    // refuses calls until the open period has passed
	HalfOpen                // lets a few calls through, as probes
	ForcedOpen              // refuses calls until Reset
	Disabled                // lets calls through and counts nothing, until Reset
)

// String returns the state in lower case: "half-open".
func (s State) String() string {
	names := [...]string{"closed", "open", "half-open", "forced open", "disabled"}
	if int(s) >= len(names) {
		return "unknown"
	}
	return names[s]
}

// Reason is why a [Breaker] changed its state.
type Reason uint8

// The reasons.
const (
	ReasonConsecutive Reason = iota + 1 // ConsecutiveFailures is reached
	ReasonFailures                      // FailureRatio is reached
	ReasonSlow                          // SlowRatio is reached
	ReasonProbe                         // a probe failed, was slow, or was the last that had to succeed
	ReasonTime                          // the open period has passed
	ReasonCaller                        // ForceOpen, Disable or Reset
)

// String returns the reason in the form used in logs: "failures in a row".
func (r Reason) String() string {
	names := [...]string{"unknown", "failures in a row", "failure ratio", "slow calls", "probe", "time", "caller"}
	if int(r) >= len(names) {
		return "unknown"
	}
	return names[r]
}

// Change is one change of state.
type Change struct {
	From, To State
	Reason   Reason
	OpenFor  time.Duration // how long it will be open; 0 unless To is Open
	Counts   Counts        // the calls in the window that the change ended
}

// word is a state in the low 8 bits and, above them, the number of changes so far. A call
// stores the word under which it began; its result counts only while the breaker still
// has that word.
type word uint64

const stateBits = 8

func (w word) state() State { return State(w & (1<<stateBits - 1)) }

func (w word) next(s State) word { return (w>>stateBits+1)<<stateBits | word(s) }
