package adaptive

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"time"
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

	// Clock returns the time since a fixed moment. It must never go back. Defaults to the
	// monotonic clock.
	Clock func() time.Duration
}

// Throttle is a [Gate] for the clients of a server that refuses requests under overload.
// Refusing costs the server too, so the throttle sheds at random about as many requests
// as the server would refuse. A call is accepted if its outcome is Served.
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
// behaves like one with zero ThrottleOptions.
type Throttle struct {
	options ThrottleOptions
	once    sync.Once // sets the defaults of a zero throttle

	mu     sync.Mutex
	counts counts // guarded by mu
}

// NewThrottle returns a throttle that has counted nothing. The error lists every invalid
// option.
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

// Enter admits a request, or counts it as shed.
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

// answer counts a request that was answered. Abandoned requests are not counted.
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

// Probability returns the current probability that a request is not sent.
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

// tenths is how many parts a window has. The oldest part expires as a whole.
const tenths = 10

// count holds the counts of one tenth of a window.
type count struct{ requests, accepts int64 }

// counts holds the tenths of the last window and their sum.
type counts struct {
	tenths [tenths]count // by number
	newest int64
	sum    count
}

// add adds counts to a tenth and to the sum.
func (c *counts) add(tenth *count, more count) {
	for _, n := range []*count{tenth, &c.sum} {
		n.requests += more.requests
		n.accepts += more.accepts
	}
}

// at returns the tenth with a number, after it has dropped the tenths that are then too
// old.
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
