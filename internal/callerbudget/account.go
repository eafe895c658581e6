// Package callerbudget bounds the bytes that a store keeps in its servers for limits that
// callers bring.
package callerbudget

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
)

// Any client of a Stint server can bring limits of its own (stint.Spec.FromCaller)
// and invent keys for them. Their states stay in the server for as long as the limit
// says: up to 400 days, and longer for buckets. Every node therefore accounts for the bytes
// of such states until they expire, and refuses new states beyond a budget.
//
// The account does not store keys, so a flood of keys cannot make it grow. It is a
// sum, split by expiry into a fixed number of future time steps. For each write of
// such a state, a store tells it the remaining lifetime of the key and its bytes, before
// and after the write. A new key adds its bytes until its expiry. A
// key with another expiry carries its bytes to the later step. A log that grows adds the
// growth. All numbers are rounded up, and a reset key is not subtracted, so the
// account is an upper bound on the bytes of the states that this node wrote. The
// account is lost when the process ends.
//
// Limits fall into four classes by the longest lifetime of their states, and each
// class has a quarter of the budget. A flood of states that live for a year thus only
// excludes new states of that class. A class refuses new states first, then growing
// logs, and last other existing states. The latter take no more space, unless another
// node created them.

// Class is the lifetime class of a caller's limit, from 1 to Classes. It is 0
// for all other limits.
type Class uint8

// lifetimes are the longest lifetime of the states of each class and the resolution
// of their expiries. They suit windows of a minute, an hour and a day, including the
// extra width of a sliding counter and the time by which a key outlives a bucket.
var lifetimes = [...]struct{ longest, step time.Duration }{
	{3 * time.Minute, 3 * time.Second},
	{3 * time.Hour, 3 * time.Minute},
	{3 * 24 * time.Hour, 72 * time.Minute},
	{0, 9 * 24 * time.Hour},
}

// Classes is the number of classes.
const Classes = len(lifetimes)

// steps is the number of future time steps of a class. A later expiry counts in the
// last step, which in the last class is 570 days from now.
const steps = 64

// lingering is how long the key of a bucket outlives its state.
const lingering = 15 * time.Second

// ClassOf returns the class of a limit. keep is how many milliseconds a key outlives
// its state.
func ClassOf(l stint.Limit, keep int64) Class {
	if !l.FromCaller() {
		return 0
	}
	return ClassOfLife(LifeOf(l) + keep)
}

// ClassOfLife returns the class of what lives for some milliseconds.
func ClassOfLife(life int64) Class {
	for i, c := range lifetimes[:Classes-1] {
		if life <= c.longest.Milliseconds() {
			return Class(i + 1)
		}
	}
	return Class(Classes)
}

// LifeOf returns the longest lifetime of a limit's state, in milliseconds.
func LifeOf(l stint.Limit) int64 {
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

// Account counts the bytes of the states of callers' limits. It is safe for
// concurrent use.
type Account struct {
	Share   int64        // bytes of each class
	Now     func() int64 // milliseconds of a clock that never runs back
	Refused atomic.Uint64

	mu struct {
		sync.Mutex

		classes [Classes]classAccount
	}
}

// classAccount is the account of one class. Bytes that expire at a step count until
// that step begins.
type classAccount struct {
	width int64 // length of a step, in milliseconds
	at    int64 // the current step
	bytes int64
	ends  [steps]int64 // bytes that expire, by step modulo steps
}

// NewAccount returns an empty account that gives each class the same share.
func NewAccount(share int64, now func() int64) *Account {
	a := &Account{Share: share, Now: now}
	for i := range a.mu.classes {
		c := &a.mu.classes[i]
		c.width = lifetimes[i].step.Milliseconds()
		c.at = now() / c.width
	}
	return a
}

// SinceStart returns a monotonic clock for an account, in milliseconds.
func SinceStart() func() int64 {
	start := time.Now()
	return func() int64 { return time.Since(start).Milliseconds() }
}

// Level returns the bytes of a class now.
func (a *Account) Level(class Class) int64 {
	now := a.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.mu.classes[class-1]
	c.advance(now)
	return c.bytes
}

// Bytes returns the sum over all classes.
func (a *Account) Bytes() (sum int64) {
	for i := range Classes {
		sum += a.Level(Class(i + 1))
	}
	return sum
}

// Closed reports whether new states of a class are refused. The last quarter of the share
// is for existing states, including those that other nodes created and this node keeps
// alive.
func (a *Account) Closed(class Class) bool { return a.Level(class) >= a.Share/4*3 }

// Wait reports whether a class has used up its share, and returns the time until some of
// its bytes expire.
func (a *Account) Wait(class Class) (wait time.Duration, full bool) {
	now := a.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.mu.classes[class-1]
	if c.advance(now); c.bytes < a.Share {
		return 0, false
	}
	next := c.at + 1
	for next < c.at+steps-1 && c.ends[next%steps] <= 0 {
		next++
	}
	return time.Duration(next*c.width-now) * time.Millisecond, true
}

// Refuse returns the error of a claim that the budget has no room for.
func (a *Account) Refuse() error {
	a.Refused.Add(1)
	return &stint.Error{
		Code: stint.CodeExhausted, Kind: stint.KindCallerBudget,
		Problem: "the limits that callers bring have used up the store's budget for them",
		Mend:    "use fewer keys or shorter windows, count by limits that do not come from callers, or give the store a greater Options.CallerBytes",
	}
}

// Wrote is a store's report on one state that it wrote: the key's remaining
// lifetime in milliseconds and the size of its value, before and after. For a new key
// both were 0.
type Wrote struct {
	Class              Class
	Before, After      int64
	OldBytes, NewBytes int64
	KeyBytes           int64
	SentAt, AnsweredAt int64 // by the account's clock
	Log                bool  // the server gives its value up to twice the room
}

// Note adds a written state to the account. It counts the old expiry from the time
// when the call was sent and the new expiry from the time of the answer. The server
// wrote between these two times.
func (a *Account) Note(w *Wrote) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.mu.classes[w.Class-1]
	c.advance(w.AnsweredAt)
	has, had := w.cost(w.NewBytes), int64(0)
	until := c.step(w.AnsweredAt + w.After)
	if w.Before > 0 {
		had = w.cost(w.OldBytes)
		from := c.step(w.SentAt + w.Before)
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

// cost returns an upper bound on the bytes of a state in the server: the key and the
// value, which the allocator rounds up by a quarter, two entries in half-full hash
// tables, and headers.
func (w *Wrote) cost(value int64) int64 {
	if w.Log {
		value *= 2
	}
	return 160 + (w.KeyBytes+value)*5/4
}

// step returns the first step that begins after ms.
func (c *classAccount) step(ms int64) int64 { return ms/c.width + 1 }

// end makes bytes expire at a step.
func (c *classAccount) end(step, bytes int64) {
	if step <= c.at {
		c.bytes -= bytes
		return
	}
	c.ends[min(step, c.at+steps-1)%steps] += bytes
}

// advance moves to the current step and subtracts what has expired.
func (c *classAccount) advance(now int64) {
	to := now / c.width
	for passed := 0; c.at < to && passed < steps; passed++ {
		c.at++
		c.bytes -= c.ends[c.at%steps]
		c.ends[c.at%steps] = 0
	}
	c.at = max(c.at, to)
}
