package adaptive

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// ThrottleOptions says how hard a [Throttle] works. The zero value is that of
// the book.
type ThrottleOptions struct {
	// K is how many requests are sent for each that the server accepts, above
	// 1. Near 1 the server is spared more, and it takes longer until it is
	// noticed that it accepts again. Defaults to 2.
	K float64

	// Window is the time that it looks back, to a tenth of it. Defaults to
	// two minutes.
	Window time.Duration

	// Random returns a number from 0 to below 1, by chance. It must be safe
	// for use by many goroutines at once. Defaults to rand.Float64 of
	// math/rand/v2.
	Random func() float64

	// Clock returns the time that has passed since any fixed moment. It never
	// runs back. Defaults to the monotonic clock.
	Clock func() time.Duration
}

// Throttle is a [Gate] for the clients of a server that refuses what is too
// much: it sheds by chance what would be refused anyway, because refusing
// costs the server too. A call is accepted when it was Served.
//
// It is the adaptive throttling of Google's book "Site Reliability
// Engineering", chapter 21, "Handling Overload". With requests and accepts of
// the last two minutes, a request is not sent with the probability
//
//	max(0, (requests − K · accepts) / (requests + 1))
//
// where those that were not sent are requests too. Those that were sent count
// once they are answered: until then nobody knows whether they are accepted, and
// many at once, as after a start, would look like as many refusals. Make one
// with [NewThrottle]; the zero value is one of the zero ThrottleOptions.
type Throttle struct {
	options ThrottleOptions
	once    sync.Once // completes the options of a zero throttle

	mu     sync.Mutex
	counts counts // guarded by mu
}

// NewThrottle returns a throttle that has seen nothing. The error names every
// option that cannot be.
func NewThrottle(o ThrottleOptions) (*Throttle, error) {
	o.setDefaults()
	err := errors.Join(
		unless(o.K > 1 && o.K < math.Inf(1), "K: is %v; use a number above 1", o.K),
		unless(o.Window >= tenths, "Window: is %v; use at least %v", o.Window, time.Duration(tenths)),
	)
	if err != nil {
		return nil, err
	}
	return &Throttle{options: o}, nil
}

func (o *ThrottleOptions) setDefaults() {
	orDefault(&o.K, 2)
	orDefault(&o.Window, 2*time.Minute)
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Clock == nil {
		o.Clock = monotonic()
	}
}

// Enter lets a request be sent, or counts it as one that was not.
func (t *Throttle) Enter() (Call, bool) {
	t.once.Do(t.options.setDefaults)
	random := t.options.Random()
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.nowLocked()
	if random < t.probabilityLocked() {
		t.counts.add(now, count{requests: 1})
		return Call{}, false
	}
	return Call{gate: t}, true
}

// answer counts a request that was answered. One that nobody waits for any
// more is none.
func (t *Throttle) answer(_ Call, o Outcome) {
	if o == Ignored {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := count{requests: 1}
	if o == Served {
		seen.accepts = 1
	}
	t.counts.add(t.nowLocked(), seen)
}

func (t *Throttle) leave() {}

func (t *Throttle) now() time.Duration { return t.options.Clock() }

// Probability is that with which a request is not sent now.
func (t *Throttle) Probability() float64 {
	t.once.Do(t.options.setDefaults)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nowLocked()
	return t.probabilityLocked()
}

func (t *Throttle) probabilityLocked() float64 {
	requests, accepts := float64(t.counts.sum.requests), float64(t.counts.sum.accepts)
	return max(0, (requests-t.options.K*accepts)/(requests+1))
}

func (t *Throttle) nowLocked() *count {
	return t.counts.at(int64(max(0, t.options.Clock()) / (t.options.Window / tenths)))
}

// tenths is how many parts a window has. The oldest leaves whole.
const tenths = 10

// count is what was counted in one tenth of a window.
type count struct{ requests, accepts int64 }

// counts are the tenths of the last window, and their sum.
type counts struct {
	tenths [tenths]count // by number
	newest int64
	sum    count
}

// add counts in a tenth.
func (c *counts) add(tenth *count, more count) {
	for _, n := range []*count{tenth, &c.sum} {
		n.requests += more.requests
		n.accepts += more.accepts
	}
}

// at returns the tenth of a number, after those that are then too old have
// left.
func (c *counts) at(number int64) *count {
	c.newest = max(c.newest, number-tenths)
	for c.newest < number {
		c.newest++
		old := &c.tenths[c.newest%tenths]
		c.sum.requests -= old.requests
		c.sum.accepts -= old.accepts
		*old = count{}
	}
	return &c.tenths[c.newest%tenths]
}
