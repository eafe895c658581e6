package metrics

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/nameset"
)

// StoreCalls is a [stint.Observer] that measures the calls to a store. It is safe for
// concurrent use. Make it with [NewStoreCalls].
type StoreCalls struct {
	duration *prometheus.HistogramVec // label: shard
	errors   *prometheus.CounterVec   // labels: shard, kind
	down     atomic.Bool              // the last call found the store failing
	last     atomic.Pointer[failure]  // the last error of a failing store

	only   *shardCalls // of the shard "": that of a store of one server
	shards sync.Map    // the other *shardCalls, by name
	names  nameset.Set[string]
}

// shardCalls measure the calls to one server of the store.
type shardCalls struct {
	label    string // the name of the server, or nameset.Other
	duration prometheus.Observer
}

// NewStoreCalls returns a StoreCalls without measurements. native adds native buckets to its
// histogram.
func NewStoreCalls(native bool) *StoreCalls {
	c := &StoreCalls{
		duration: newHistogram(prometheus.HistogramOpts{Name: "stint_store_duration_seconds",
			Help: "Time of one call to the store, by server.", Buckets: durations()}, native, "shard"),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_store_errors_total",
			Help: "Calls to the store that returned no decision, by server and kind."}, []string{"shard", "kind"}),
	}
	c.only = c.newShard("")
	return c
}

// shard returns the measurements of a server.
func (c *StoreCalls) shard(name string) *shardCalls {
	if name == "" {
		return c.only
	}
	if s, ok := c.shards.Load(name); ok {
		calls, _ := s.(*shardCalls) // the map holds nothing else
		return calls
	}
	if !c.names.Accepts(name) { // servers of a Cluster come and go: too many share a series
		return c.newShard(nameset.Other)
	}
	calls := c.newShard(name)
	c.shards.Store(name, calls)
	return calls
}

// newShard makes the series of a server that alerts use before their first event, so that a
// rate over them is 0 and not missing.
func (c *StoreCalls) newShard(label string) *shardCalls {
	for _, code := range []stint.Code{stint.CodeInternal, stint.CodeUnavailable, stint.CodeTimeout, stint.CodeCanceled, stint.CodeExhausted} {
		c.errors.WithLabelValues(label, (&stint.Error{Code: code}).KindName())
	}
	return &shardCalls{label, c.duration.WithLabelValues(label)}
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
	shard := c.shard(e.Shard)
	shard.duration.Observe(e.Took.Seconds())
	down := false
	eachError(e.Err, func(e *stint.Error) {
		c.errors.WithLabelValues(shard.label, e.KindName()).Inc()
		if e.Code == stint.CodeUnavailable || e.Code == stint.CodeTimeout {
			down = true
			c.last.Store(&failure{e.KindName(), time.Now()})
		}
	})
	if c.down.Load() != down { // store only on change: every processor reads this cache line
		c.down.Store(down)
	}
}

// failure is an error of a failing store.
type failure struct {
	kind string
	at   time.Time
}

// LastError returns the kind of the last error of a failing store, and "" before the first.
func (c *StoreCalls) LastError() string {
	kind, _ := c.LastFailure()
	return kind
}

// LastFailure returns the kind and the time of the last error of a failing store, and "" before
// the first.
func (c *StoreCalls) LastFailure() (kind string, at time.Time) {
	if last := c.last.Load(); last != nil {
		return last.kind, last.at
	}
	return "", time.Time{}
}

// Up reports whether the last call found the store working.
func (c *StoreCalls) Up() bool { return !c.down.Load() }

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
