package retry

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stintdev/stint/resilience/internal/check"
)

// Options configures a [Policy]. The zero value makes three attempts in all, with full
// jitter of 100 ms, then 200 ms.
type Options struct {
	// Attempts is the number of attempts, the first included. Defaults to 3.
	Attempts int

	// Base is the first wait before jitter; each is twice the one before.
	// Defaults to 100 ms.
	Base time.Duration

	// Cap is the longest backoff. The wait that a server asks for is added to the
	// backoff. Defaults to 10 s, or to Base if that is more.
	Cap time.Duration

	// Jitter selects how each wait is drawn at random. Defaults to Full.
	Jitter Jitter

	// TotalTime bounds the time from the beginning of the first attempt to the beginning
	// of the last. Zero: no bound but the context's.
	TotalTime time.Duration

	// MaxRetryAfter is the longest wait that a server may ask for. If a server asks for
	// more, there is no retry, so that a server cannot put its clients to sleep for a
	// day. Defaults to a minute.
	MaxRetryAfter time.Duration

	// Budget bounds the retries of all callers that share it. Nil: no bound.
	Budget Budget

	// Classify classifies the errors of calls in Do. Defaults to [Classify].
	Classify func(error) Classification

	// Observe is called with the decision after every failed attempt, before the wait. It
	// may be called by many goroutines at once.
	Observe func(Step)

	// Source is the source of randomness; rand.NewPCG(seed1, seed2) makes a run
	// repeatable. Only this policy may use it. Defaults to the generator of math/rand/v2,
	// seeded by the system.
	Source rand.Source

	// Clock returns the time, which is compared with the deadlines of contexts. Defaults
	// to time.Now.
	Clock func() time.Time

	// Sleep waits for d, or until the context ends and then returns an error. Set it
	// together with a Clock that is not the system's. Defaults to a wait by a timer.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Budget grants retries; *retrybudget.Budget implements it. It must be safe for
// concurrent use.
type Budget interface {
	Request()    // counts a first attempt
	Retry() bool // takes a retry, and reports whether there was one
	Refund()     // returns a granted retry that was not sent
}

// Policy decides about retries. Make one with [New] and use it for many calls; the zero
// value and a nil *Policy behave like New(Options{}). It is safe for concurrent use.
type Policy struct {
	options Options
	backoff Backoff

	once sync.Once // sets the defaults of a zero policy

	mu  sync.Mutex
	rng *rand.Rand // guarded by mu; nil: the global generator
}

// New returns a policy. The error lists every invalid option.
func New(o Options) (*Policy, error) {
	o.setDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	p := &Policy{options: o}
	p.once.Do(p.setDefaults)
	if o.Source != nil {
		p.rng = rand.New(o.Source)
	}
	return p, nil
}

// setDefaults sets the default of every option that is zero.
func (p *Policy) setDefaults() {
	o := &p.options
	o.setDefaults()
	p.backoff = Backoff{Base: o.Base, Cap: o.Cap, Jitter: o.Jitter}
}

func (o *Options) setDefaults() {
	o.Attempts = cmp.Or(o.Attempts, 3)
	o.Base = cmp.Or(o.Base, 100*time.Millisecond)
	o.Cap = cmp.Or(o.Cap, max(o.Base, 10*time.Second))
	o.MaxRetryAfter = cmp.Or(o.MaxRetryAfter, time.Minute)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Classify == nil {
		o.Classify = Classify
	}
}

func (o *Options) check() error {
	return errors.Join(
		check.Unless(o.Attempts >= 1, "retry: Attempts: is %d; use at least 1", o.Attempts),
		check.Unless(o.Base > 0, "retry: Base: is %v; use a time above 0", o.Base),
		check.Unless(o.Cap >= o.Base, "retry: Cap: %v is less than Base, %v", o.Cap, o.Base),
		check.Unless(o.Jitter <= None, "retry: Jitter: is %d; use Full, Equal, Decorrelated or None", o.Jitter),
		check.Unless(o.TotalTime >= 0, "retry: TotalTime: is %v, which is below 0", o.TotalTime),
		check.Unless(o.MaxRetryAfter >= 0, "retry: MaxRetryAfter: is %v, which is below 0", o.MaxRetryAfter),
	)
}

// random is rand.Int64N with the policy's source.
func (p *Policy) random(n int64) int64 {
	if p.rng == nil {
		return rand.Int64N(n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rng.Int64N(n)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
