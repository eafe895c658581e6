package server

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint"
)

// StoreErrors counts the calls to a store that brought no decision, by kind.
// It is safe for use by many goroutines at once. Make it by [NewStoreErrors].
type StoreErrors struct{ byKind *prometheus.CounterVec }

// NewStoreErrors returns a counter that has counted nothing.
func NewStoreErrors() *StoreErrors {
	e := &StoreErrors{prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_store_errors_total",
		Help: "Calls to the store that brought no decision, by kind."}, []string{"kind"})}
	for _, code := range []stint.Code{stint.CodeInternal, stint.CodeUnavailable, stint.CodeTimeout, stint.CodeCanceled, stint.CodeExhausted} {
		e.byKind.WithLabelValues(kindOf(&stint.Error{Code: code}))
	}
	return e
}

// Count counts the errors of one call, each by its [stint.Error.Kind]. A wrong
// claim is its caller's mistake and is not counted; nor is nil.
func (e *StoreErrors) Count(err error) {
	eachError(err, func(one *stint.Error) { e.byKind.WithLabelValues(kindOf(one)).Inc() })
}

// eachError calls each for every error of a store that is not its caller's.
func eachError(err error, each func(*stint.Error)) {
	if err == nil {
		return
	}
	errs := []error{err}
	if groups, ok := errors.AsType[*stint.GroupsError](err); ok {
		errs = groups.Errs
	}
	for _, err := range errs {
		if one := storeError(err); one != nil && one.Code != stint.CodeInvalid {
			each(one)
		}
	}
}

// storeError is the error as stores have it, nil for nil.
func storeError(err error) *stint.Error {
	if err == nil {
		return nil
	}
	if coded, ok := errors.AsType[*stint.Error](err); ok {
		return coded
	}
	return &stint.Error{Code: stint.CodeInternal}
}

func kindOf(e *stint.Error) string {
	if e.Kind != "" {
		return e.Kind
	}
	switch e.Code {
	case stint.CodeInvalid:
		return "invalid"
	case stint.CodeUnavailable:
		return "unavailable"
	case stint.CodeTimeout:
		return "timeout"
	case stint.CodeCanceled:
		return "canceled"
	case stint.CodeExhausted:
		return "exhausted"
	}
	return "internal"
}
