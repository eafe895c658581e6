package metrics

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint"
)

// StoreCalls is a [stint.Observer] that measures the calls to a store. It is safe for
// concurrent use. Make it with [NewStoreCalls].
type StoreCalls struct {
	duration prometheus.Histogram
	errors   *prometheus.CounterVec // label: kind
	down     atomic.Bool            // the last call found the store failing
	last     atomic.Pointer[string] // the kind of the last error of a failing store
}

// NewStoreCalls returns a StoreCalls without measurements.
func NewStoreCalls() *StoreCalls {
	c := &StoreCalls{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "stint_store_duration_seconds",
			Help: "Time of one call to the store.", Buckets: durations()}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_store_errors_total",
			Help: "Calls to the store that returned no decision, by kind."}, []string{"kind"}),
	}
	for _, code := range []stint.Code{stint.CodeInternal, stint.CodeUnavailable, stint.CodeTimeout, stint.CodeCanceled, stint.CodeExhausted} {
		c.errors.WithLabelValues((&stint.Error{Code: code}).KindName())
	}
	return c
}

// Start implements [stint.Observer].
func (c *StoreCalls) Start(ctx context.Context, _ stint.Event) context.Context { return ctx }

// Observe counts a call to the store. For a [*stint.GroupsError] it counts each error by
// its [stint.Error.Kind]. The caller's mistakes are not counted: an invalid claim, and a
// request id that belongs to another request.
func (c *StoreCalls) Observe(_ context.Context, e stint.Event) {
	if e.Kind != stint.EventStoreCall {
		return
	}
	c.duration.Observe(e.Took.Seconds())
	down := false
	eachError(e.Err, func(e *stint.Error) {
		c.errors.WithLabelValues(e.KindName()).Inc()
		if e.Code == stint.CodeUnavailable || e.Code == stint.CodeTimeout {
			down = true
			kind := e.KindName()
			c.last.Store(&kind)
		}
	})
	if c.down.Load() != down { // store only on change: every processor reads this cache line
		c.down.Store(down)
	}
}

// LastError returns the kind of the last error of a failing store, and "" before the first.
func (c *StoreCalls) LastError() string {
	if kind := c.last.Load(); kind != nil {
		return *kind
	}
	return ""
}

func (c *StoreCalls) up() bool { return !c.down.Load() }

// eachError calls each for every store error that the caller did not cause.
func eachError(err error, each func(*stint.Error)) {
	if err == nil {
		return
	}
	errs := []error{err}
	if groups, ok := errors.AsType[*stint.GroupsError](err); ok {
		errs = groups.Errs
	}
	for _, err := range errs {
		if one := storeError(err); one != nil && one.Code != stint.CodeInvalid && one.Code != stint.CodeConflict {
			each(one)
		}
	}
}

// storeError converts err to a *stint.Error; nil stays nil.
func storeError(err error) *stint.Error {
	if err == nil {
		return nil
	}
	if coded, ok := errors.AsType[*stint.Error](err); ok {
		return coded
	}
	return &stint.Error{Code: stint.CodeInternal}
}
