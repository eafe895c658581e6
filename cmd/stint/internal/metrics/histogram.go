package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// durations returns the buckets of the times of checks and of calls to the store, in
// seconds: a check in memory takes a microsecond, one against a distant store a tenth of a
// second.
func durations() []float64 {
	return []float64{
		250e-9, 500e-9, 1e-6, 2.5e-6, 5e-6, 10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6,
		1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 1,
	}
}

// Native histograms have buckets of which each ends 10 % above the one before, so far as
// they have values. The number of buckets is bounded: a histogram with more is reset, at
// most once an hour, and widens its buckets in between.
const (
	nativeFactor  = 1.1
	nativeBuckets = 160
	nativeReset   = time.Hour
)

// newHistogram returns a histogram with the given buckets, and with native buckets too.
func newHistogram(o prometheus.HistogramOpts, native bool, labels ...string) *prometheus.HistogramVec {
	if native {
		o.NativeHistogramBucketFactor, o.NativeHistogramMaxBucketNumber, o.NativeHistogramMinResetDuration = nativeFactor, nativeBuckets, nativeReset
	}
	return prometheus.NewHistogramVec(o, labels)
}

// observe records a duration. A trace id becomes the exemplar of its bucket, which keeps
// one.
func observe(h prometheus.Observer, took time.Duration, trace string) {
	if trace != "" {
		if e, ok := h.(prometheus.ExemplarObserver); ok {
			e.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": trace})
			return
		}
	}
	h.Observe(took.Seconds())
}
