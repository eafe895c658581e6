package bulkhead

import (
	"errors"
	"fmt"
	"time"
)

// Options configures a [Bulkhead]. Limit is required; with nothing else set, no caller
// waits.
type Options struct {
	// Limit is how many calls may run at once. At least 1; it has no default.
	Limit int

	// Queue is how many callers may wait for a place. Zero: no caller waits.
	Queue int

	// MaxWait bounds the wait of a caller, in addition to its context's deadline. Zero:
	// no bound but the context's.
	MaxWait time.Duration
}

func (o *Options) check() error {
	return errors.Join(
		unless(o.Limit >= 1, "Limit: is %d; use at least 1", o.Limit),
		unless(o.Queue >= 0, "Queue: is %d, which is below 0", o.Queue),
		unless(o.MaxWait >= 0, "MaxWait: is %v, which is below 0", o.MaxWait),
	)
}

func unless(right bool, format string, args ...any) error {
	if right {
		return nil
	}
	return fmt.Errorf("bulkhead: "+format, args...)
}
