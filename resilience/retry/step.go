package retry

import "time"

// Step is what a policy decided after an attempt that failed.
type Step struct {
	Attempt int           // the one that failed, from 1
	Wait    time.Duration // before the next; 0 unless Stop is Continue
	Hint    time.Duration // the part of the wait that the server asked for
	Stop    Stop
	Err     error // what the attempt returned; nil when it was a response
	Status  int   // of the response; 0 when there was none
}

// Stop is why there is no retry.
type Stop uint8

// The reasons.
const (
	Continue     Stop = iota // there is a retry
	StopVerdict              // repeating would not help, or could do harm
	StopAttempts             // all attempts are made
	StopContext              // the context has ended
	StopDeadline             // the wait would end after the deadline or TotalTime
	StopHint                 // the server asks for a longer wait than MaxHint
	StopBudget               // the budget has no retry left
)

// String returns the reason as a log would have it.
func (s Stop) String() string {
	switch s {
	case Continue:
		return "retry"
	case StopVerdict:
		return "not to be repeated"
	case StopAttempts:
		return "attempts used up"
	case StopContext:
		return "context ended"
	case StopDeadline:
		return "deadline too near"
	case StopHint:
		return "asked to wait too long"
	case StopBudget:
		return "budget used up"
	}
	return "unknown"
}
