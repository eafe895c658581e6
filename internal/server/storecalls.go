package server

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint"
)

// StoreCalls measures the calls to a store. It is safe for use by many
// goroutines at once. Make it by [NewStoreCalls].
type StoreCalls struct {
	duration prometheus.Histogram
	errors   *prometheus.CounterVec // by kind
	down     atomic.Bool            // the last call found the store failing
}

// NewStoreCalls returns one that has measured nothing.
func NewStoreCalls() *StoreCalls {
	c := &StoreCalls{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "stint_store_duration_seconds",
			Help: "Time of one call to the store.", Buckets: durations()}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_store_errors_total",
			Help: "Calls to the store that brought no decision, by kind."}, []string{"kind"}),
	}
	for _, code := range []stint.Code{stint.CodeInternal, stint.CodeUnavailable, stint.CodeTimeout, stint.CodeCanceled, stint.CodeExhausted} {
		c.errors.WithLabelValues((&stint.Error{Code: code}).KindName())
	}
	return c
}

// Observe counts one call that took so long and ended with err, which may be a
// [*stint.GroupsError]: each error by its [stint.Error.Kind]. A wrong claim is
// its caller's mistake and is not counted.
func (c *StoreCalls) Observe(took time.Duration, err error) {
	c.duration.Observe(took.Seconds())
	down := false
	eachError(err, func(e *stint.Error) {
		c.errors.WithLabelValues(e.KindName()).Inc()
		down = down || e.Code == stint.CodeUnavailable || e.Code == stint.CodeTimeout
	})
	if c.down.Load() != down { // every processor reads this line all the time
		c.down.Store(down)
	}
}

func (c *StoreCalls) up() bool { return !c.down.Load() }

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
