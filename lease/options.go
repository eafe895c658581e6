package lease

import (
	"fmt"
	"time"
)

// Defaults of [Options].
const (
	DefaultTime    = 100 * time.Millisecond
	DefaultMaxKeys = 1 << 16
)

// Options configures a [Store]. The zero value is useful.
type Options struct {
	// Time is how long a lease lasts, L. Defaults to DefaultTime. From 10 ms
	// to 10 s: a longer one saves calls and loosens the bound. Below 0 there are no
	// leases: the store decides every claim. It decides partitioned limits as it does
	// with leases, so nodes with leases and nodes without them can share a store.
	Time time.Duration

	// MaxKeys bounds the number of hot keys with leases, at about 500 bytes
	// each. Defaults to DefaultMaxKeys. The store decides any further keys.
	// Keys of limits that callers bring ([stint.Spec.FromCaller]) have a bound
	// of their own, half of MaxKeys.
	MaxKeys int
}

func (o *Options) setDefaults() error {
	if o.Time == 0 {
		o.Time = DefaultTime
	}
	if o.MaxKeys == 0 {
		o.MaxKeys = DefaultMaxKeys
	}
	switch {
	case o.Time >= 0 && o.Time < 10*time.Millisecond || o.Time > 10*time.Second:
		return fmt.Errorf("lease: Time: is %v (use 10ms to 10s, or a time below 0 for no leases)", o.Time)
	case o.MaxKeys < 0:
		return fmt.Errorf("lease: MaxKeys: is %d, which is below 0", o.MaxKeys)
	}
	return nil
}
