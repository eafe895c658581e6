package adaptive

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stintdev/stint/resilience/internal/check"
	"github.com/stintdev/stint/resilience/internal/monotonic"
)

// Linear returns the share of a limit that is left at a load; both are from 0 to 1. The
// share is 1 up to a load of 0.8, falls linearly, and is 0.5 at a load of 1. A load of
// NaN counts as 0.
func Linear(load float64) float64 {
	const full, half = 0.8, 0.5
	if !(load > full) {
		return 1
	}
	return half + (1-half)*(1-min(load, 1))/(1-full)
}

// CPU scales limits by the load of the machine, with [Linear]. Make one with [NewCPU]. It
// is an [Algorithm] whose limit is Full under little load. Its method Scale scales any
// other number, such as the limit of a rate. It is safe for concurrent use.
type CPU struct {
	full   int
	source *sampler
}

// CPUOptions configures a [CPU]. An Algorithm needs Full.
type CPUOptions struct {
	// Full is the limit while there is little load.
	Full int

	// Load returns the load of the machine since the last call, from 0 to 1. It is called
	// by one goroutine at a time. Defaults to [MachineCPU]; use [CgroupCPU] in
	// containers.
	Load Load

	// Every is how long a load is used before it is read again. Defaults to 1 s.
	Every time.Duration

	// Clock returns the time and must never go back. Defaults to time.Now.
	Clock func() time.Time
}

// Load returns how busy something has been since the last call, from 0 to 1. An error
// means that the load is unknown; the previous load then stays in use.
type Load func() (float64, error)

// NewCPU returns a CPU. The error lists every invalid option, or says why the load cannot
// be read.
func NewCPU(o CPUOptions) (*CPU, error) {
	o.Every = cmp.Or(o.Every, time.Second)
	if o.Load == nil {
		o.Load = MachineCPU(nil)
	}
	s := &sampler{load: o.Load, every: o.Every, clock: monotonic.New(o.Clock)}
	err := errors.Join(
		check.Unless(o.Full >= 0, "adaptive: Full: is %d, which is below 0", o.Full),
		check.Unless(o.Every > 0, "adaptive: Every: is %v; use a time above 0", o.Every),
	)
	if err == nil {
		err = s.begin()
	}
	if err != nil {
		return nil, err
	}
	return &CPU{full: o.Full, source: s}, nil
}

// Next returns the limit at the current load, whatever the window.
func (c *CPU) Next(_ float64, _ Window) float64 { return float64(c.atLowLoad()) * Linear(c.Load()) }

// atLowLoad returns Full; 0 for a nil CPU.
func (c *CPU) atLowLoad() int {
	if c == nil {
		return 0
	}
	return c.full
}

// Scale returns n scaled by the current load, rounded down, but at least 1 if n is at
// least 1.
func (c *CPU) Scale(n int64) int64 {
	left := Linear(c.Load())
	if left == 1 {
		return n // a float64 might not represent n exactly
	}
	return max(min(n, 1), int64(float64(n)*left))
}

func (c *CPU) check() error {
	full := c.atLowLoad()
	return check.Unless(full >= 1, "adaptive: CPU: Full: is %d; use at least 1, because it is the limit at low load", full)
}

// Load returns the load that is in use. The zero CPU and a nil *CPU return 0.
func (c *CPU) Load() float64 {
	if c == nil || c.source == nil {
		return 0
	}
	return c.source.now()
}

// sampler caches a load and reads it again when the cached one is too old.
type sampler struct {
	load  Load
	every time.Duration
	clock monotonic.Clock

	mu   sync.Mutex
	last float64       // guarded by mu, as all below
	read time.Duration // when a read was last attempted
}

func (s *sampler) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	load, err := s.load()
	if err != nil {
		return fmt.Errorf("adaptive: the load cannot be read (use another Load): %w", err)
	}
	s.last, s.read = load, s.clock.Now()
	return nil
}

func (s *sampler) now() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.clock.Now(); now-s.read >= s.every {
		s.read = now
		if load, err := s.load(); err == nil {
			s.last = load
		}
	}
	return s.last
}
