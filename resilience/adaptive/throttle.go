package adaptive

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stintdev/stint/resilience/internal/check"
	"github.com/stintdev/stint/resilience/internal/monotonic"
	"github.com/stintdev/stint/resilience/internal/tenths"
)

// ThrottleOptions configures a [Throttle]. The zero value has the book's numbers.
type ThrottleOptions struct {
	// K is how many requests are sent for each that the server accepts; above 1. Near 1
	// the throttle spares the server more, and takes longer to notice that the server
	// accepts again. Defaults to 2.
	K float64

	// Window is the time over which requests are counted, to a precision of a tenth.
	// Defaults to two minutes.
	Window time.Duration

	// Random returns a random number in [0, 1). It must be safe for concurrent use.
	// Defaults to rand.Float64 of math/rand/v2.
	Random func() float64

	// Clock returns the time and must never go back. Defaults to time.Now.
	Clock func() time.Time
}

// Throttle is a [Gate] for the clients of a server that refuses requests under overload.
// Refusing costs the server too, so the throttle sheds at random about as many requests
// as the server would refuse. A call is accepted if its outcome is Success.
//
// It is the adaptive throttling of Google's book "Site Reliability Engineering", chapter
// 21, "Handling Overload". With the requests and accepts of the last two minutes, the
// probability that a request is not sent is
//
//	max(0, (requests − K · accepts) / (requests + 1))
//
// where requests include those that were not sent. A request that is sent counts once it
// is answered: before that its outcome is unknown, and many requests at once, as after a
// start, would look like refusals. Make a Throttle with [NewThrottle]; the zero value
// behaves like one with zero ThrottleOptions, and a nil *Throttle admits every request.
type Throttle struct {
	options ThrottleOptions
	clock   monotonic.Clock
	once    sync.Once // starts a zero throttle

	mu     sync.Mutex
	window tenths.Window // guarded by mu
}

// The kinds of events in the window.
const (
	requests = iota
	accepts
)

// NewThrottle returns a throttle that has counted nothing. The error lists every invalid
// option.
func NewThrottle(o ThrottleOptions) (*Throttle, error) {
	o.setDefaults()
	err := errors.Join(
		check.Unless(o.K > 1 && o.K < math.Inf(1), "adaptive: K: is %v; use a number above 1", o.K),
		check.Unless(o.Window >= tenths.Parts, "adaptive: Window: is %v; use at least %v", o.Window, time.Duration(tenths.Parts)),
	)
	if err != nil {
		return nil, err
	}
	t := &Throttle{options: o}
	t.once.Do(t.start)
	return t, nil
}

func (t *Throttle) start() {
	t.options.setDefaults()
	t.clock = monotonic.New(t.options.Clock)
}

func (o *ThrottleOptions) setDefaults() {
	o.K = cmp.Or(o.K, 2)
	o.Window = cmp.Or(o.Window, 2*time.Minute)
	if o.Random == nil {
		o.Random = rand.Float64
	}
}

// Begin admits a request, or counts it as shed.
func (t *Throttle) Begin() (Call, bool) {
	if t == nil {
		return Call{}, true
	}
	t.once.Do(t.start)
	random := t.options.Random()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advanceLocked()
	if random < t.probabilityLocked() {
		t.window.Add(requests)
		return Call{}, false
	}
	return Call{gate: t}, true
}

// answer counts a request that was answered. Abandoned requests are not counted.
func (t *Throttle) answer(_ Call, o Outcome) {
	if o == Ignored {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advanceLocked()
	t.window.Add(requests)
	if o == Success {
		t.window.Add(accepts)
	}
}

func (t *Throttle) release() {}

func (t *Throttle) now() time.Duration { return t.clock.Now() }

// Probability returns the current probability that a request is not sent.
func (t *Throttle) Probability() float64 {
	if t == nil {
		return 0
	}
	t.once.Do(t.start)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advanceLocked()
	return t.probabilityLocked()
}

func (t *Throttle) probabilityLocked() float64 {
	sent, accepted := float64(t.window.Sum[requests]), float64(t.window.Sum[accepts])
	return max(0, (sent-t.options.K*accepted)/(sent+1))
}

// advanceLocked moves the window to the current time.
func (t *Throttle) advanceLocked() {
	t.window.Advance(int64(t.clock.Now() / (t.options.Window / tenths.Parts)))
}
