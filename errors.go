package stint

import (
	"errors"
	"fmt"
	"time"
)

// Code is the kind of failure that kept a store from deciding. Each surface
// (HTTP, gRPC, RESP) translates it in one place, at its own edge.
//
// A Code is an error, so that programs can compare with it:
// errors.Is(err, stint.CodeUnavailable). [CodeOf] returns the code of an error
// for a switch.
type Code uint8

// The codes. A denial is not an error: it is a [Decision].
const (
	CodeInternal    Code = iota // a bug, or a state that cannot be read
	CodeInvalid                 // the claim is wrong: key, limit, cost or group
	CodeUnavailable             // the store cannot be reached or answers with errors
	CodeTimeout                 // the deadline passed before the answer, so the outcome is unknown; or see KindWait
	CodeCanceled                // the caller gave up
	CodeExhausted               // a bound of the store was reached
	CodeConflict                // the group's Once has the ID of another group
	CodeContended               // other writers changed the key first, again and again; nothing was charged
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
	// KindOnceBudget is a group with a [Once] that was refused because the store has no
	// room to remember it. Nothing was charged. All groups without a Once are decided
	// normally.
	KindOnceBudget Kind = "once_budget"
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

// KindWait is a wait of a limiter that would pass the deadline. The limiter has
// decided, and charged nothing. Any other error of CodeTimeout is that of a store
// that did not answer in time, so its outcome is unknown.
const KindWait Kind = "wait"

// Error is the only error type of a [Store]. It means that no decision could be
// made.
type Error struct {
	Code    Code
	Kind    Kind   // finer than Code; may be empty
	Problem string // the problem, as a sentence without a full stop
	Mend    string // what to do about it; may be empty
	Err     error  // the cause; may be nil

	// RetryAfter is how long until the same call may succeed. A wait of a limiter
	// that would pass the deadline has it, and so has KindOnceBudget. 0: unknown.
	RetryAfter time.Duration
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

// Is reports whether the target is the Code of the error.
func (e *Error) Is(target error) bool { return is(e.Code, target) }

func is(code Code, target error) bool {
	c, ok := target.(Code) //nolint:errorlint // errors.Is unwraps the error, and not its target
	return ok && c == code
}

// KindName returns Kind, or the name of Code where Kind is empty.
func (e *Error) KindName() string {
	switch {
	case e.Kind != "":
		return string(e.Kind)
	case int(e.Code) < len(codeNames):
		return codeNames[e.Code]
	}
	return codeNames[CodeInternal]
}

// CodeOf returns the Code of an error: that of the first [*Error] in its chain,
// CodeInvalid for a [*LimitError], and CodeInternal for every other error. A nil
// error has no code; CodeOf returns CodeInternal for it too.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	if _, ok := errors.AsType[*LimitError](err); ok {
		return CodeInvalid
	}
	code, _ := errors.AsType[Code](err)
	return code
}

// String returns the name of the code, such as "unavailable".
func (c Code) String() string { return nameOf("code", codeNames[:], c) }

// Error returns the name of the code.
func (c Code) Error() string { return c.String() }

var codeNames = [...]string{"internal", "invalid", "unavailable", "timeout", "canceled", "exhausted", "conflict", "contended"}

// nameOf returns the name of a value of a type, such as "code(9)" for a value
// without one.
func nameOf[V ~uint8](kind string, names []string, v V) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, uint8(v))
}

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

// Is reports whether the target is CodeInvalid, which is the code of every
// mistake in a limit.
func (e *LimitError) Is(target error) bool { return is(CodeInvalid, target) }

func invalid(problem, mend string) error {
	return &Error{Code: CodeInvalid, Problem: problem, Mend: mend}
}
