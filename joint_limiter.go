package stint

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// JointLimiter limits requests that count under several keys at once, such as
// a user and the user's tenant. It decides the limits of all its limiters as
// one atomic group: a request is charged under all keys or under none. It is safe
// for use by many goroutines at once. Make one with [Join]: a nil or zero
// JointLimiter answers every request with an error.
//
// Every method takes one key for each limiter, in the order given to Join. Any
// other number of keys is an error, and nothing is charged.
//
// The state is that of the limiters: each of them can be used alone as well, and
// can be part of several JointLimiters.
type JointLimiter struct {
	limiter *Limiter // of the limits of all limiters
	keys    int      // number of limiters, and so of keys
}

// Join returns a limiter that counts each request under all of the limiters. Each
// limit keeps the policy of its limiter ([Limiter.With], [Limiter.WithLocal]).
//
// A limiter may be given twice, as for the two accounts of a transfer. A request
// that has one key twice under it is then an error. It is an error if there are
// no limiters, if one of them was not made by [NewLimiter], or if they use
// different stores or clocks.
//
// The observers of the limiters see the decisions of the JointLimiter. An observer of
// several of them sees each decision once, also where [Observers] combines it with others.
func Join(limiters ...*Limiter) (*JointLimiter, error) {
	if len(limiters) == 0 {
		return nil, invalid("limiters: there are none", "pass one for each key")
	}
	all := &Limiter{waiting: &waiting{}}
	var names []string
	var observers []Observer
	for i, l := range limiters {
		if !l.made() {
			return nil, errNotMade
		}
		if i == 0 {
			all.most, all.clock, all.all.store = l.most, l.clock, l.all.store
		}
		switch {
		case !same(all.all.store, l.all.store):
			return nil, invalid("limiters: "+limiters[0].name+" and "+l.name+" use different stores", "make them with one store; only one store decides atomically")
		case !same(all.clock, l.clock):
			return nil, invalid("limiters: "+limiters[0].name+" and "+l.name+" use different clocks", "pass one clock to WithClock of both")
		}
		for _, claim := range l.all.claims {
			all.all.add(claim, i)
		}
		all.shapes, all.most = all.shapes || l.shapes, min(all.most, l.most)
		names = append(names, l.name)
		if o := l.observed; o != nil {
			observers = addObserver(observers, o.observer)
		}
	}
	all.name = strings.Join(names, "+")
	all.setTaker()
	return &JointLimiter{limiter: all.WithObserver(Observers(observers...)), keys: len(limiters)}, nil
}

// With returns a JointLimiter all of whose limits have the policy, in place of the
// policies of their limiters; see [Limiter.With]. The copy shares the queues of the
// JointLimiter. With of a nil or zero JointLimiter returns it unchanged.
func (j *JointLimiter) With(p Policy) *JointLimiter {
	if !j.made() {
		return j
	}
	return &JointLimiter{limiter: j.limiter.withPolicy(p, nil), keys: j.keys}
}

// WithClock returns a JointLimiter that measures all waits by the clock, in place of
// the clock of its limiters; see [Limiter.WithClock]. The copy has queues of its own.
// WithClock of a nil or zero JointLimiter returns it unchanged.
func (j *JointLimiter) WithClock(c Clock) *JointLimiter {
	if !j.made() {
		return j
	}
	return &JointLimiter{limiter: j.limiter.withClock(c), keys: j.keys}
}

// made reports whether the limiter came from Join, and so is neither nil nor a zero
// value.
func (j *JointLimiter) made() bool { return j != nil && j.limiter != nil }

// same reports whether two interface values are equal. Values of a type that Go
// cannot compare are not.
func same(a, b any) bool {
	if a == nil || b == nil {
		return a == b
	}
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// check returns the error of a request with these keys that cannot be decided, or
// nil.
func (j *JointLimiter) check(keys []string) error {
	switch {
	case !j.made():
		return errNotJoined
	case len(keys) != j.keys:
		return invalid(fmt.Sprintf("keys: there are %d for %d limiters", len(keys), j.keys), "pass one key for each limiter, in the order given to Join")
	}
	return nil
}

var errNotJoined = &Error{Problem: "the joint limiter is nil or a zero value", Mend: "make it with Join, and look at its error"}

// Allow is shorthand for AllowN(ctx, 1, keys...).
func (j *JointLimiter) Allow(ctx context.Context, keys ...string) (Decision, error) {
	return j.AllowN(ctx, 1, keys...)
}

// AllowN decides whether a request may use n units under every key now, and
// charges them under all keys if so. It does not wait. n is at least 0. The
// decision is the one that [Combine] returns: that of the limit that denies for
// longest, or of the limit with the least remaining.
func (j *JointLimiter) AllowN(ctx context.Context, n int64, keys ...string) (Decision, error) {
	if err := j.check(keys); err != nil {
		return Decision{}, err
	}
	if n < 0 {
		return Decision{}, refuseNegative()
	}
	return j.limiter.takeKeys(ctx, Claim{Cost: n}, keys)
}

// AllowEach is AllowN for callers that report the state of every limit; see
// [Limiter.AllowEach]. The order of out is that of [JointLimiter.Limits].
func (j *JointLimiter) AllowEach(ctx context.Context, n int64, maxDelay time.Duration, out []Decision, keys ...string) (binding int, d Decision, err error) {
	if err := j.check(keys); err != nil {
		return -1, Decision{}, err
	}
	return j.limiter.allowEach(ctx, Claim{Cost: n}, keys, maxDelay, out)
}

// Limits returns the limits of all limiters, in the order given to [Join] and
// there in that of [Limiter.Limits]. [Limit.Rule] is the name of the limiter.
func (j *JointLimiter) Limits() []Limit {
	if !j.made() {
		return nil
	}
	return j.limiter.all.limits()
}

// Keys returns how many keys a request has: one for each limiter given to [Join].
func (j *JointLimiter) Keys() int {
	if j == nil {
		return 0
	}
	return j.keys
}

// Peek returns what the keys have left together, and charges nothing.
func (j *JointLimiter) Peek(ctx context.Context, keys ...string) (Decision, error) {
	return j.AllowN(ctx, 0, keys...)
}

// Wait is shorthand for WaitN(ctx, 1, keys...).
func (j *JointLimiter) Wait(ctx context.Context, keys ...string) error {
	return j.WaitN(ctx, 1, keys...)
}

// WaitN blocks until a request is allowed n units under every key; see
// [Limiter.WaitN] for the errors and the deadline.
//
// The callers that wait for the same keys, in the same order, of one JointLimiter
// and its copies from [JointLimiter.With] form one queue, which is first in, first
// out. A queue exists only for a whole list of keys. Callers that share some of the
// keys are therefore in other queues, as are the waiters of the single limiters and
// of other JointLimiters, and there is no order among queues: when units of a shared
// key become free, the first caller that asks the store gets them. A caller that
// needs many units, or several keys that are all in demand, can be overtaken for as
// long as the others leave too little for it.
//
// Several limits have no common rate, so only the wait of the first caller of a
// queue is known. A caller behind it fails at once if even the first turn is after
// its own deadline. Otherwise it fails at its own turn or its deadline.
func (j *JointLimiter) WaitN(ctx context.Context, n int64, keys ...string) error {
	if err := j.check(keys); err != nil {
		return err
	}
	return j.limiter.wait(ctx, &waiter{key: queueOf(keys), keys: slices.Clone(keys), cost: n})
}

// WaitWithin is WaitN for a caller that waits for at most maxWait and handles denials
// itself; see [Limiter.WaitWithin]. n is at least 1.
func (j *JointLimiter) WaitWithin(ctx context.Context, n int64, maxWait time.Duration, keys ...string) (Decision, error) {
	if err := j.check(keys); err != nil {
		return Decision{}, err
	}
	if n < 1 {
		return Decision{}, refuseNothing()
	}
	if maxWait <= 0 {
		return j.limiter.takeKeys(ctx, Claim{Cost: n, MaxDelay: -1}, keys)
	}
	return j.limiter.waitWithin(ctx, &waiter{key: queueOf(keys), keys: slices.Clone(keys), cost: n}, maxWait)
}

// queueOf returns the name of the queue for these keys. The length before each key
// tells lists of keys apart that would be equal as one text.
func queueOf(keys []string) string {
	var name []byte
	for _, key := range keys {
		name = append(strconv.AppendInt(name, int64(len(key)), 10), ':')
		name = append(name, key...)
	}
	return string(name)
}

// Reserve takes n units under every key and returns the decision as a
// Reservation, whose Cancel refunds them under every key; see
// [Limiter.Reserve]. n is at least 1.
func (j *JointLimiter) Reserve(ctx context.Context, n int64, keys ...string) (Reservation, error) {
	if n < 1 {
		return Reservation{}, refuseNothing()
	}
	d, err := j.AllowN(ctx, n, keys...)
	if err != nil {
		return Reservation{}, err
	}
	return j.limiter.reserved(d, err, "", keys, n)
}
