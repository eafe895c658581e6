package stint

import "fmt"

// Code is the kind of failure that kept a store from deciding. Each surface
// (HTTP, gRPC, RESP) translates it in one place, at its own edge.
type Code uint8

// The codes. A denial is not an error: it is a [Decision].
const (
	CodeInternal    Code = iota // a bug, or a state that cannot be read
	CodeInvalid                 // the claim is wrong: key, limit, cost or group
	CodeUnavailable             // the store cannot be reached or answers with errors
	CodeTimeout                 // the deadline passed before the answer; the outcome is unknown
	CodeCanceled                // the caller gave up
	CodeExhausted               // a bound of the store was reached
)

// Kind is finer than [Code]: one word of a small set, such as "readonly". Its text is
// stable, because metrics and the wire have it. A store may use kinds of its own.
type Kind string

// The kinds that a caller of any store can act on, as package guard does.
const (
	// KindCallerBudget is a claim that was refused because the budget for limits
	// that callers bring is used up. Nothing was charged. All other limits are
	// decided normally.
	KindCallerBudget Kind = "caller_budget"
	// KindCorrupt is a key whose value is not a state, and KindWrongType one whose
	// value has another type. Only claims on that key fail.
	KindCorrupt   Kind = "corrupt"
	KindWrongType Kind = "wrongtype"
	// KindReplicas is a charge that stands but was confirmed by too few replicas (see
	// [Policy.Replicas]).
	KindReplicas Kind = "replicas"
	// KindTryAgain is a claim whose key is moving to another server. Nothing was
	// charged.
	KindTryAgain Kind = "try_again"
	// KindScript is a store's program that failed on its server, and KindGarbled an
	// answer that this program cannot read. Every claim fails on such a server.
	KindScript  Kind = "script"
	KindGarbled Kind = "garbled"
	// KindBreakerOpen is a claim that was refused because the store has failed and its
	// circuit breaker is open. The store got no call. See package guard.
	KindBreakerOpen Kind = "breaker_open"
)

// Error is the only error type of a [Store]. It means that no decision could be
// made.
type Error struct {
	Code    Code
	Kind    Kind   // finer than Code; may be empty
	Problem string // the problem, as a sentence without a full stop
	Mend    string // what to do about it; may be empty
	Err     error  // the cause; may be nil
}

// Error returns the problem, the cause and the mend in one line.
func (e *Error) Error() string {
	s := e.Problem
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Mend != "" {
		s += " (" + e.Mend + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindName returns Kind, or the name of Code where Kind is empty.
func (e *Error) KindName() string {
	if e.Kind != "" {
		return string(e.Kind)
	}
	if int(e.Code) < len(codeNames) {
		return codeNames[e.Code]
	}
	return codeNames[CodeInternal]
}

var codeNames = [...]string{"internal", "invalid", "unavailable", "timeout", "canceled", "exhausted"}

// LimitError says which field of a [Spec] is wrong and how to mend it.
type LimitError struct {
	Field   string // the name of the field in rule files: "capacity", "window"
	Problem string
	Mend    string
}

// Error returns the field, the problem and the mend in one line.
func (e *LimitError) Error() string {
	if e.Mend == "" {
		return fmt.Sprintf("%s: %s", e.Field, e.Problem)
	}
	return fmt.Sprintf("%s: %s (%s)", e.Field, e.Problem, e.Mend)
}

func invalid(problem, mend string) error {
	return &Error{Code: CodeInvalid, Problem: problem, Mend: mend}
}
