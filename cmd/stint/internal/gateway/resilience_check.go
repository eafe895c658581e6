package gateway

import (
	"errors"
	"fmt"
	"time"

	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
)

// The greatest values of settings that a mistake would otherwise turn into no bound.
const (
	maxConnect  = 5 * time.Minute
	maxHeader   = time.Hour
	maxWhole    = 24 * time.Hour
	maxIdle     = time.Hour
	maxInterval = time.Hour // between health checks
	maxPlaces   = 100_000   // of a bulkhead, and of its queue
	maxRequests = 1_000_000
)

// checkResilience returns all mistakes in the options for failing upstreams, one a line.
// Each line begins with the key of the settings file.
func (o *GroupOptions) checkResilience() error {
	return errors.Join(
		inRange("timeouts: connect", o.DialTimeout, time.Millisecond, maxConnect),
		inRange("timeouts: header", o.ResponseHeaderTimeout, time.Millisecond, maxHeader),
		inRange("timeouts: idle", o.IdleTimeout, time.Millisecond, maxIdle),
		inRange("timeouts: whole", o.Timeout, time.Millisecond, maxWhole),
		checkBreaker(o.Breaker), o.Ejection.check(), checkBulkhead(o.Bulkhead), o.Retry.check(),
		unless(o.PanicBelow <= 1, "panic_below: %v is out of range (use a share above 0, at most 1, or off)", o.PanicBelow),
	)
}

// inRange checks a value that may be left out, which is 0.
func inRange[T time.Duration | int](key string, v, least, most T) error {
	return unless(v == 0 || v >= least && v <= most, "%s: %v is out of range (use %v to %v)", key, v, least, most)
}

func unless(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func checkBreaker(o *breaker.Options) error {
	if o == nil {
		return nil
	}
	ranges := errors.Join(
		inRange("breaker: minimum_calls", o.MinimumCalls, 1, maxRequests),
		inRange("breaker: window", o.Window, time.Second, time.Hour),
		inRange("breaker: open_for", o.OpenFor, time.Millisecond, time.Hour),
		inRange("breaker: max_open_for", o.MaxOpenFor, time.Millisecond, maxWhole),
		unless(o.MaxOpenFor == 0 || o.MaxOpenFor >= o.OpenFor, "breaker: max_open_for: %v is less than open_for, %v (make it longer, or remove it)", o.MaxOpenFor, o.OpenFor),
	)
	if ranges != nil {
		return ranges
	}
	_, err := breaker.New(*o)
	return err
}

func (o *EjectionOptions) check() error {
	if o == nil {
		return nil
	}
	return errors.Join(
		inRange("ejection: failures", o.Failures, 1, maxRequests),
		inRange("ejection: for", o.For, time.Millisecond, time.Hour),
		inRange("ejection: max_for", o.MaxFor, time.Millisecond, maxWhole),
		unless(o.MaxFor == 0 || o.MaxFor >= o.For, "ejection: max_for: %v is less than for, %v (make it longer, or remove it)", o.MaxFor, o.For),
		unless(o.MaxShare >= 0 && o.MaxShare <= 1, "ejection: max_share: %v is out of range (use a share above 0, at most 1)", o.MaxShare),
	)
}

func checkBulkhead(o *bulkhead.Options) error {
	if o == nil {
		return nil
	}
	return errors.Join(
		unless(o.Limit >= 1 && o.Limit <= maxPlaces, "bulkhead: limit: %d is out of range (use 1 to %d)", o.Limit, maxPlaces),
		inRange("bulkhead: queue", o.Queue, 1, maxPlaces),
		inRange("bulkhead: max_wait", o.MaxWait, time.Millisecond, time.Minute),
	)
}

func (o *RetryOptions) check() error {
	if o == nil {
		return nil
	}
	_, unknown := newRetryCauses(o.On)
	return errors.Join(
		inRange("retry: attempts", o.Attempts, 2, maxAttempts),
		unknown,
		unless(o.Budget >= 0 && o.Budget <= 1, "retry: budget: %v is out of range (use a share above 0, at most 1)", o.Budget),
	)
}
