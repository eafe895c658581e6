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

// KindCallerBudget is the [Error.Kind] of a claim that was refused because the
// budget for limits that callers bring is used up. Nothing was charged. All
// other limits are decided normally.
const KindCallerBudget = "caller_budget"

// Error is the only error type of a [Store]. It means that no decision could be
// made.
type Error struct {
	Code    Code
	Kind    string // finer than Code, for metrics: one of a small set of words, such as "readonly"; may be empty
	Problem string // what is wrong
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
		return e.Kind
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
