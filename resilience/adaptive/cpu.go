package adaptive

import (
	"errors"
	"time"
)

// Linear is the share of a limit that is left at a load, both from 0 to 1: all
// of it up to 0.8, half of it at 1, and in between in proportion. What is no
// number is no load.
func Linear(load float64) float64 {
	const full, half = 0.8, 0.5
	if !(load > full) {
		return 1
	}
	return half + (1-half)*(1-min(load, 1))/(1-full)
}

// CPU scales limits by how busy the machine is, by [Linear]. Make one with
// [NewCPU]. It is an [Algorithm], of a limit that Full is all of; and by Scale
// it scales any number, such as the limit of a rate. It is safe for use by
// many goroutines at once.
type CPU struct {
	full   int
	source *sampler
}

// CPUOptions says what to scale, and by what. Full is needed for an Algorithm.
type CPUOptions struct {
	// Full is the limit while there is little load.
	Full int

	// Load returns how busy the machine has been since it was asked last, from
	// 0 to 1. It is called by one goroutine at a time. Defaults to that of
	// [MachineCPU]; [CgroupCPU] is for containers.
	Load Load

	// Every is how long a load counts before it is read again. Defaults to
	// 1 s.
	Every time.Duration

	// Clock returns the time that has passed since any fixed moment. It never
	// runs back. Defaults to the monotonic clock.
	Clock func() time.Duration
}

// Load returns how busy something has been since the last call, from 0 to 1.
// An error means that this is not known; the last load then goes on to count.
type Load func() (float64, error)

// NewCPU returns a scale by the load. The error names every option that cannot
// be, or says why the load cannot be read.
func NewCPU(o CPUOptions) (*CPU, error) {
	orDefault(&o.Every, time.Second)
	if o.Clock == nil {
		o.Clock = monotonic()
	}
	if o.Load == nil {
		o.Load = MachineCPU(nil)
	}
	s := &sampler{load: o.Load, every: o.Every, clock: o.Clock}
	err := errors.Join(
		unless(o.Full >= 0, "Full: is %d, which is below 0", o.Full),
		unless(o.Every > 0, "Every: is %v; use a time above 0", o.Every),
	)
	if err == nil {
		err = s.begin()
	}
	if err != nil {
		return nil, err
	}
	return &CPU{full: o.Full, source: s}, nil
}

// Next returns the limit at the load of now, whatever the window.
func (c *CPU) Next(_ float64, _ Window) float64 { return float64(c.full) * Linear(c.Load()) }

// Scale returns what is left of n, rounded down, but 1 at least of what is 1
// or more.
func (c *CPU) Scale(n int64) int64 {
	left := Linear(c.Load())
	if left == 1 {
		return n // of which a float64 may lack the last digits
	}
	return max(min(n, 1), int64(float64(n)*left))
}

func (c *CPU) check() error {
	return unless(c.full >= 1, "CPU: Full: is %d; use at least 1, which the limit is while there is little load", c.full)
}

// Load is the load that counts now. The zero CPU has none.
func (c *CPU) Load() float64 {
	if c.source == nil {
		return 0
	}
	return c.source.now()
}
