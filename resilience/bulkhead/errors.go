package bulkhead

import (
	"errors"
	"fmt"
	"time"
)

// Why a bulkhead let a call go without a place; [errors.Is] finds them in a
// [*RefusedError].
var (
	ErrFull   = errors.New("bulkhead is full")                      // and so is its queue
	ErrWaited = errors.New("bulkhead was full for too long")        // MaxWait is over
	ErrNames  = errors.New("bulkhead set has no room for the name") // all its names are in use
)

// RefusedError says that there was no place for a call. A caller whose context
// has ended gets the context's error instead.
type RefusedError struct {
	Name   string // the name in a Set; "" outside of one
	Reason error  // ErrFull, ErrWaited or ErrNames
	Limit  int
	Waited time.Duration // 0 unless it waited
}

// Error returns the name, the reason and the limit.
func (e *RefusedError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("%v (limit %d, waited %v)", e.Reason, e.Limit, e.Waited)
	}
	return fmt.Sprintf("%q: %v (limit %d, waited %v)", e.Name, e.Reason, e.Limit, e.Waited)
}

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Reason }

// Retryable is false, for package retry: a retry would ask what has just said
// no.
func (e *RefusedError) Retryable() bool { return false }
