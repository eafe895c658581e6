package bulkhead

import (
	"errors"
	"fmt"
	"time"
)

// Options says how many calls there may be. Limit is needed; with nothing else
// nobody waits.
type Options struct {
	// Limit is how many calls may run at once. At least 1; it has no default.
	Limit int

	// Queue is how many callers may wait for a place. Zero: none waits.
	Queue int

	// MaxWait is how long a caller waits at most, beside its context's
	// deadline. Zero: as long as the context lets it.
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
