package stint

import "fmt"

// Code says what kind of failure kept a decision from being made. Each
// surface translates it once, at its own edge.
type Code uint8

// The codes. A denial is none of them: it is a [Decision].
const (
	CodeInternal    Code = iota // a bug, or a state that cannot be read
	CodeInvalid                 // the claim is wrong: key, limit, cost or group
	CodeUnavailable             // the store cannot be reached or answers with errors
	CodeTimeout                 // the deadline ended first; the outcome is unknown
	CodeCanceled                // the caller gave up
	CodeExhausted               // a bound of the store was reached
)

// KindCallerBudget is the [Error.Kind] of a claim that was refused because the
// budget of the limits that callers bring is used up. Nothing was charged, and
// all other limits are decided as ever.
const KindCallerBudget = "caller_budget"

// Error is the one error type of a [Store]: no decision could be made.
type Error struct {
	Code    Code
	Kind    string // finer than Code, one word of few, for metrics: "readonly"; may be empty
	Problem string // what is wrong
	Mend    string // what to do about it; may be empty
	Err     error  // the cause; may be nil
}

// Error returns what is wrong, the cause and the mend in one line.
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
	switch e.Code {
	case CodeInvalid:
		return "invalid"
	case CodeUnavailable:
		return "unavailable"
	case CodeTimeout:
		return "timeout"
	case CodeCanceled:
		return "canceled"
	case CodeExhausted:
		return "exhausted"
	}
	return "internal"
}

// LimitError says which field of a [Spec] is wrong, and the mend.
type LimitError struct {
	Field   string // as rule files name it: "capacity", "window"
	Problem string
	Mend    string
}

// Error returns the field, what is wrong with it and the mend in one line.
func (e *LimitError) Error() string {
	if e.Mend == "" {
		return fmt.Sprintf("%s: %s", e.Field, e.Problem)
	}
	return fmt.Sprintf("%s: %s (%s)", e.Field, e.Problem, e.Mend)
}

func invalid(problem, mend string) error {
	return &Error{Code: CodeInvalid, Problem: problem, Mend: mend}
}
