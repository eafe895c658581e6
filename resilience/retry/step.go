package retry

import "time"

// Step is the decision of a policy after an attempt that failed.
type Step struct {
	Attempt    int           // the attempt that failed, from 1
	Wait       time.Duration // before the next attempt; 0 unless Stop is Continue
	RetryAfter time.Duration // the part of the wait that the server asked for
	Stop       Stop
	Err        error // the error of the attempt; nil if there was a response
	Status     int   // of the response; 0 if there was none
}

// Stop is the reason why there is no retry.
type Stop uint8

// The reasons.
const (
	Continue         Stop = iota // there is a retry
	StopNotRetryable             // repeating would not help, or could do harm
	StopAttempts                 // all attempts are made
	StopContext                  // the context has ended
	StopDeadline                 // the wait would end after the deadline or TotalTime
	StopRetryAfter               // the server asks for a longer wait than MaxRetryAfter
	StopBudget                   // the budget has no retry left
)

// String returns the reason in the form used in logs. Package clientmetrics makes its
// label values from it.
func (s Stop) String() string {
	names := [...]string{"retry", "not to be repeated", "attempts used up", "context ended", "deadline too near",
		"asked to wait too long", "budget used up"}
	if int(s) >= len(names) {
		return "unknown"
	}
	return names[s]
}
