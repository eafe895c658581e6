package client

import (
	"time"

	"github.com/stintdev/stint/resilience/retry"
)

// Observer is told what happens to the calls of a client. Its method is called
// by many goroutines at once, in the middle of calls, so it should be quick.
// Package clientmetrics has one for Prometheus.
type Observer interface {
	Observe(e Event)
}

// Event is one thing that happened.
type Event struct {
	Kind    Kind
	Name    string // the dependency
	Attempt int    // from 1; of Ended: how many there were

	Took   time.Duration // of Sent and Ended, to the answer's header
	Result string        // of Sent and Ended: "1xx" to "5xx" (429 is "429") or "UNAVAILABLE", "error", "timeout", "canceled", "refused"
	Part   Part          // of Refused
	Step   retry.Step    // of Decided
	Err    error         // of all but Decided; nil where there was an answer
}

// Kind is what an [Event] is about.
type Kind uint8

// The kinds.
const (
	Sent    Kind = iota // an attempt was sent, and answered or not
	Refused             // a part refused an attempt
	Decided             // an attempt failed, and a retry was decided on or against
	Ended               // the call is over, but for its body
)

// String returns the kind in lower case: "sent".
func (k Kind) String() string {
	switch k {
	case Sent:
		return "sent"
	case Refused:
		return "refused"
	case Decided:
		return "decided"
	case Ended:
		return "ended"
	}
	return "unknown"
}

// Observe tells the Observer, if there is one, and whose name it is.
func (p *Parts) Observe(e Event) {
	if p.Observer != nil {
		e.Name = p.Name
		p.Observer.Observe(e)
	}
}
