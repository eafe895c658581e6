package redisstore

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
)

// Whoever can reach a server can bring limits of its own (stint.Spec.FromCaller)
// and make up keys for them, whose states stay in Redis for as long as the limit
// says: up to 400 days, and buckets longer. Every node therefore keeps an account
// of the bytes that such states take until they expire, and refuses new ones
// beyond a budget.
//
// The account does not know keys, so a flood cannot make it grow. It is a sum,
// and for each of a few dozen times to come how much of it ends then. With every
// state of a caller that it writes the script tells how long the key had left to
// live, how long it has now, and how many bytes it had and has. A new key adds
// its bytes until it ends; a key that lives longer now moves its bytes to the
// later end; a log that grew adds what it grew by. All of this is rounded up and
// nothing is taken back when a key is reset, so the account is an upper bound of
// what the states that this node wrote take. It is lost when the process ends.
//
// Limits are of one of four classes, by how long their states can live, and each
// class has a quarter of the budget: a flood of states that stay for a year keeps
// out newcomers that would stay as long, and no others. A class is full for
// newcomers before it is full for logs that grow, and last of all for other
// states that exist: those take no more room unless another node made them.

// DefaultCallerBytes is [Options.CallerBytes] of a store that names none.
const DefaultCallerBytes = 256 << 20

// callerClass is how long the states of a caller's limit can live; 0 is of all
// other limits.
type callerClass uint8

// lifetimes are the longest lives of the states of each class, and how exactly
// their ends are known. They fit windows of a minute, of an hour and of a day, with what a sliding
// counter needs behind its window, and the time that keys outlive a bucket.
var lifetimes = [...]struct{ longest, step time.Duration }{
	{3 * time.Minute, 3 * time.Second},
	{3 * time.Hour, 3 * time.Minute},
	{3 * 24 * time.Hour, 72 * time.Minute},
	{0, 9 * 24 * time.Hour},
}

// classes is the number of classes.
const classes = len(lifetimes)

// steps is how many ends to come a class tells apart. What ends later counts as
// ending with the last: 570 days from now in the last class.
const steps = 64

// lingering is how much longer than its state the key of a bucket lives.
const lingering = 15 * time.Second

// classOf returns the class of a limit whose keys are kept for so many
// milliseconds longer than their states.
func classOf(l stint.Limit, keep int64) callerClass {
	if !l.FromCaller() {
		return 0
	}
	life := lifeOf(l) + keep
	for i, c := range lifetimes[:classes-1] {
		if life <= c.longest.Milliseconds() {
			return callerClass(i + 1)
		}
	}
	return callerClass(classes)
}

// lifeOf is the longest that a state of a limit lives, in milliseconds.
func lifeOf(l stint.Limit) int64 {
	n := l.Numbers()
	us := n.Window
	switch n.Algorithm {
	case stint.TokenBucket, stint.GCRA, stint.LeakyBucket:
		us = n.Fill + lingering.Microseconds()
	case stint.SlidingWindowCounter:
		us = n.Window + n.Width
	case stint.Quota:
		us = max(n.Length, l.Window().Microseconds())
	case stint.FixedWindow, stint.SlidingWindowLog: // as long as the window
	}
	return us/1000 + 1
}

// account is what the states of callers' limits take. It is safe for use by many
// goroutines.
type account struct {
	share   int64        // bytes of each class
	now     func() int64 // milliseconds of a clock that never runs back
	refused atomic.Uint64

	mu struct {
		sync.Mutex

		classes [classes]classAccount
	}
}

// classAccount is the account of one class. Bytes that end at a step count until
// that step begins.
type classAccount struct {
	width int64 // of a step, in milliseconds
	at    int64 // the step that it is now
	bytes int64
	ends  [steps]int64 // by step, modulo steps
}

// newAccount returns an account that is empty.
func newAccount(budget int64, now func() int64) *account {
	a := &account{share: budget / int64(classes), now: now}
	for i := range a.mu.classes {
		c := &a.mu.classes[i]
		c.width = lifetimes[i].step.Milliseconds()
		c.at = now() / c.width
	}
	return a
}

// sinceStart returns a clock for an account.
func sinceStart() func() int64 {
	start := time.Now()
	return func() int64 { return time.Since(start).Milliseconds() }
}

// newcomersFull, growthFull: how much of its share a class takes before it
// refuses new states, and before it refuses charges on logs that exist. The
// rest is for what other nodes made and this one keeps alive.
func (a *account) newcomersFull() int64 { return a.share / 4 * 3 }
func (a *account) growthFull() int64    { return a.share / 8 * 7 }

// level returns the bytes of a class as of now.
func (a *account) level(class callerClass) int64 {
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.mu.classes[class-1]
	c.advance(now)
	return c.bytes
}

// bytes returns those of all classes.
func (a *account) bytes() (sum int64) {
	for i := range classes {
		sum += a.level(callerClass(i + 1))
	}
	return sum
}

// closed reports whether new states of a class are refused.
func (a *account) closed(class callerClass) bool { return a.level(class) >= a.newcomersFull() }

// admit refuses a claim that charges a state, should it exist or not, when not
// even that has room.
func (a *account) admit(l *compiled) error {
	most := a.share
	if l.kind == logKind {
		most = a.growthFull()
	}
	if a.level(l.class) < most {
		return nil
	}
	return a.refuse()
}

// admit is account.admit for a claim, if it is of a caller and charges.
func (e *encoding) admit(c *stint.Claim) error {
	if !c.Limit.FromCaller() || c.Cost+c.Extra <= 0 {
		return nil
	}
	return e.callers.admit(e.limits.of(c.Limit))
}

// admitAll returns the first error of admit.
func (e *encoding) admitAll(claims []stint.Claim) error {
	for i := range claims {
		if err := e.admit(&claims[i]); err != nil {
			return err
		}
	}
	return nil
}

// refuse returns the error of a claim that the budget has no room for.
func (a *account) refuse() error {
	a.refused.Add(1)
	return &stint.Error{
		Code: stint.CodeExhausted, Kind: stint.KindCallerBudget,
		Problem: "the limits that callers bring have used up the room that the store has for them",
		Mend:    "use fewer keys or shorter windows, count by rules, or raise --max-caller-bytes",
	}
}

// wrote is what the script tells of a state that it has written: how long the
// key had left and has left, in milliseconds, and its bytes. A new key had 0.
type wrote struct {
	class              callerClass
	before, after      int64
	oldBytes, newBytes int64
	keyBytes           int64
	sentAt, answeredAt int64 // by the account's clock
	log                bool  // the server gives its value up to twice the room
}

// note takes what was written into the account. What ends is taken as of when the
// call was sent, and what begins as of its answer, so that the server's time lies
// between.
func (a *account) note(w *wrote) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.mu.classes[w.class-1]
	c.advance(w.answeredAt)
	has, had := w.cost(w.newBytes), int64(0)
	until := c.step(w.answeredAt + w.after)
	if w.before > 0 {
		had = w.cost(w.oldBytes)
		from := c.step(w.sentAt + w.before)
		if until > from {
			c.end(from, -min(had, has))
			c.end(until, min(had, has))
		} else {
			until = from
		}
	}
	if has > had {
		c.bytes += has - had
		c.end(until, has-had)
	}
}

// cost is how many bytes a state takes in the server, at most: the key and the
// value, which the allocator rounds up by a quarter, two entries of hash tables
// half full, and headers.
func (w *wrote) cost(value int64) int64 {
	if w.log {
		value *= 2
	}
	return 160 + (w.keyBytes+value)*5/4
}

// step is that at whose beginning a time has passed.
func (c *classAccount) step(ms int64) int64 { return ms/c.width + 1 }

// end has so many bytes end at a step.
func (c *classAccount) end(step, bytes int64) {
	if step <= c.at {
		c.bytes -= bytes
		return
	}
	c.ends[min(step, c.at+steps-1)%steps] += bytes
}

// advance ends what has ended by now.
func (c *classAccount) advance(now int64) {
	to := now / c.width
	for passed := 0; c.at < to && passed < steps; passed++ {
		c.at++
		c.bytes -= c.ends[c.at%steps]
		c.ends[c.at%steps] = 0
	}
	c.at = max(c.at, to)
}
