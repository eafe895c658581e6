package stint

import (
	"context"
	"reflect"
	"slices"
	"time"
)

// Limiter limits one kind of request. It counts every request under one or
// more limits, which the store decides as one atomic group. It is safe for use
// by many goroutines at once, and costs microseconds to make. Make one with
// [NewLimiter]: a nil or zero Limiter answers every request with an error.
// [Join] combines limiters whose requests have different keys.
type Limiter struct {
	taker taker // takes a claim on limit: the store itself for one limit without a policy
	limit Limit // the only limit; the zero Limit when there are several
	all   together

	name    string
	shapes  bool     // one of the limits is a leaky bucket, which delays
	most    int64    // the greatest cost that every limit can allow
	clock   Clock    // nil: the system's clock
	waiting *waiting // shared with the copies that differ only in their policy

	observed *observed // also the taker; nil without an observer
}

// limiterNamespace is the first part of the scope of every limiter's limits.
// Neither rules nor the callers of a server can name it.
const limiterNamespace = "limiter"

// NewLimiter returns a limiter that counts requests under these limits in the
// store.
//
// The name says what is limited, such as "login": 1 to 64 characters of
// [A-Za-z0-9_.:-]. It becomes the scope of the limits. Limiters of one name
// share their state, also across processes that share a store. Limiters of
// different names never share state, even under the same key.
//
// It is an error if the name, the store or the limits are missing, if two
// limits have the same name, or if a limit has a scope of its own (Namespace,
// Rule or FromCaller).
func NewLimiter(store Store, name string, limits ...Limit) (*Limiter, error) {
	switch {
	case missing(store):
		return nil, invalid("store: is nil", "pass a store, such as NewMemory(MemoryOptions{})")
	case name == "":
		return nil, invalid("name: is missing", "name what is limited, such as login; limiters of one name share state")
	case len(limits) == 0:
		return nil, invalid("limits: the limiter has none", "pass at least one to NewLimiter")
	}
	if err := validateName("name", name); err != nil {
		return nil, err
	}
	l := &Limiter{name: name, most: MaxCost, all: together{store: store}, waiting: &waiting{}}
	for _, limit := range limits {
		own, err := limit.ownedBy(name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(l.all.claims, func(c Claim) bool { return c.Limit.Name() == own.Name() }) {
			return nil, invalid("limits: two are named "+own.Name(), "give one of them a Spec.Name of its own")
		}
		l.all.add(Claim{Limit: own}, 0)
		l.shapes, l.most = l.shapes || own.n.alg == LeakyBucket, min(l.most, own.Max())
	}
	l.setTaker()
	return l, nil
}

// setTaker chooses the shortest way to the store.
func (l *Limiter) setTaker() {
	if len(l.all.claims) > 1 {
		l.taker = &l.all
		return
	}
	only := &l.all.claims[0]
	l.taker, l.limit = l.all.store, only.Limit
	if only.Policy != (Policy{}) || only.Local != nil {
		l.taker = &withPolicy{l.all.store, only.Policy, only.Local}
	}
}

// withPolicy takes claims on one limit under a policy.
type withPolicy struct {
	store  Store
	policy Policy
	local  *Local
}

func (w *withPolicy) Take(ctx context.Context, c Claim) (Decision, error) {
	c.Policy, c.Local = w.policy, w.local
	return w.store.Take(ctx, c)
}

// With returns a limiter whose requests have the policy: how a distributed
// store decides them, and what happens when the store fails. Stores that
// distribute or guard follow it (packages lease, guard, redisstore and
// remotestore); the memory store ignores it.
//
// The copy shares the name, the state and the queues of the limiter. A program
// can therefore have two policies for one limit, such as [FailClosed] for
// writes and [FailOpen] for reads. With of a nil or zero Limiter returns it
// unchanged.
func (l *Limiter) With(p Policy) *Limiter {
	if !l.made() {
		return l
	}
	return l.withPolicy(p, nil)
}

// WithLocal is With for [FailLocal] with numbers of its own: while the store
// fails, each node decides under this limit, in place of its share of the
// limiter's limits. It keeps the rest of the limiter's policy; a later With
// replaces all of it. The limit must not have a scope of its own.
func (l *Limiter) WithLocal(limit Limit) (*Limiter, error) {
	if !l.made() {
		return nil, errNotMade
	}
	own, err := limit.ownedBy(l.name)
	if err != nil {
		return nil, err
	}
	p := l.all.claims[0].Policy
	p.OnFailure = FailLocal
	return l.withPolicy(p, &Local{Limit: own}), nil
}

// WithClock returns a limiter that reads the time and sleeps by the clock: it
// measures all waits by it. It is for tests and simulations. The store has a
// clock of its own, such as [MemoryOptions.Clock], which must show the same
// time. Nil is the system's clock, which testing/synctest replaces.
//
// The copy shares the name and the state of the limiter, and has queues of its
// own.
func (l *Limiter) WithClock(c Clock) *Limiter {
	if !l.made() {
		return l
	}
	return l.withClock(c)
}

func (l *Limiter) withClock(clock Clock) *Limiter {
	queues := &waiting{}
	return l.with(func(c *Limiter) { c.clock, c.waiting = clock, queues })
}

func (l *Limiter) withPolicy(p Policy, local *Local) *Limiter {
	return l.with(func(c *Limiter) {
		for i := range c.all.claims {
			c.all.claims[i].Policy, c.all.claims[i].Local = p, local
		}
	})
}

// with returns a copy of the limiter after change. If the limiter has an observer, with
// applies change to the copy and to the plain limiter in it.
func (l *Limiter) with(change func(*Limiter)) *Limiter {
	c := l.plainWith(change)
	if l.observed != nil {
		c.observe(l.observed.observer, l.plainWith(change))
	}
	return c
}

// plainWith is with for a copy without the observer. The copy has a pool of its own,
// because the buffers in the pool hold the claims.
func (l *Limiter) plainWith(change func(*Limiter)) *Limiter {
	c := &Limiter{name: l.name, shapes: l.shapes, most: l.most, clock: l.clock, waiting: l.waiting}
	c.all.store, c.all.claims, c.all.keyOf = l.all.store, slices.Clone(l.all.claims), l.all.keyOf
	change(c)
	c.setTaker()
	return c
}

// missing reports whether store is nil or an interface that holds a nil
// pointer, as from a constructor whose error the program ignored.
func missing(store Store) bool {
	v := reflect.ValueOf(store)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// ownedBy returns the limit compiled into the scope of the named limiter.
func (l Limit) ownedBy(limiter string) (Limit, error) {
	if !l.Valid() {
		return l, errZeroLimit
	}
	s := l.Spec()
	if s.Namespace != "" || s.Rule != "" || s.FromCaller {
		return l, invalid("limit: "+l.Name()+" brings a scope of its own, and the scope is the limiter's name",
			"leave Namespace, Rule and FromCaller out of the Spec")
	}
	s.Namespace, s.Rule = limiterNamespace, limiter
	own, err := s.Compile()
	if err == nil && own.Numbers() != l.Numbers() {
		err = invalid("limit: "+l.Name()+" is a node's share of a limit", "pass the whole limit")
	}
	return own, err
}

// Name returns the name of the limiter.
func (l *Limiter) Name() string {
	if l == nil {
		return ""
	}
	return l.name
}

// Allow is shorthand for AllowN(ctx, key, 1).
func (l *Limiter) Allow(ctx context.Context, key string) (Decision, error) {
	if !l.made() {
		return Decision{}, errNotMade
	}
	return l.taker.Take(ctx, Claim{Key: key, Limit: l.limit, Cost: 1})
}

// made reports whether the limiter came from NewLimiter, and so is neither nil
// nor a zero value.
func (l *Limiter) made() bool { return l != nil && l.taker != nil }

var errNotMade = &Error{Problem: "the limiter is nil or a zero value", Mend: "make it with NewLimiter, and look at its error"}

// take takes the claim on every limit.
func (l *Limiter) take(ctx context.Context, c Claim) (Decision, error) {
	if !l.made() {
		return Decision{}, errNotMade
	}
	c.Limit = l.limit
	return l.taker.Take(ctx, c)
}

// takeKeys is take for a Limiter, whose keys are nil, or a JointLimiter.
func (l *Limiter) takeKeys(ctx context.Context, c Claim, keys []string) (Decision, error) {
	if keys == nil {
		return l.take(ctx, c)
	}
	if l.observed != nil {
		return l.observed.takeKeys(ctx, c, keys)
	}
	return l.all.takeKeys(ctx, &c, keys)
}

// AllowN decides whether key may use n units now, and charges them if so. It
// does not wait: a denial says how long to wait in [Decision.RetryAfter], which is
// [Never] if n is greater than a limit. n is 0 to [MaxCost]; AllowN with 0 is
// [Limiter.Peek]. With several limits, the decision is the one that [Combine]
// returns. The error is an [*Error]: CodeInvalid for a wrong n or key, any other
// code if the store could not decide.
func (l *Limiter) AllowN(ctx context.Context, key string, n int64) (Decision, error) {
	if n < 0 {
		return Decision{}, refuseNegative()
	}
	return l.take(ctx, Claim{Key: key, Cost: n})
}

func refuseNegative() error {
	return invalid("cost: is below 0", "use Reserve, and refund with its Cancel")
}

// AllowEach is AllowN for callers that report the state of every limit, or that
// can use no delay above maxDelay. It writes the decision of each limit into out,
// in the order of [Limiter.Limits], and returns what [Combine] returns for them:
// the index of the binding claim and the decision. The length of out must be the
// number of limits; any other length is an error, and nothing is charged.
//
// maxDelay has the meaning of [Claim.MaxDelay], but counts from this call: the
// limiter subtracts the recent latency of the store.
func (l *Limiter) AllowEach(ctx context.Context, key string, n int64, maxDelay time.Duration, out []Decision) (binding int, d Decision, err error) {
	if !l.made() {
		return -1, Decision{}, errNotMade
	}
	return l.allowEach(ctx, Claim{Key: key, Cost: n}, nil, maxDelay, out)
}

// allowEach is AllowEach for a Limiter, whose keys are nil, or a JointLimiter.
func (l *Limiter) allowEach(ctx context.Context, c Claim, keys []string, maxDelay time.Duration, out []Decision) (binding int, d Decision, err error) {
	if c.Cost < 0 {
		return -1, Decision{}, refuseNegative()
	}
	if l.observed != nil {
		return l.observed.allowEach(ctx, c, keys, maxDelay, out)
	}
	if maxDelay == 0 || !l.shapes {
		return l.all.takeEach(ctx, &c, keys, out)
	}
	c.MaxDelay = l.usable(maxDelay)
	defer l.noteTime(l.now())
	return l.all.takeEach(ctx, &c, keys, out)
}

// Limits returns a copy of the limits that every request is counted under, in
// the order given to [NewLimiter] and in the scope of the limiter.
func (l *Limiter) Limits() []Limit {
	if l == nil {
		return nil
	}
	return l.all.limits()
}

// Peek returns what key has left, and charges nothing. It is always allowed, so
// [Decision.Remaining] and [Decision.NextAfter] say what the key may use.
func (l *Limiter) Peek(ctx context.Context, key string) (Decision, error) {
	return l.take(ctx, Claim{Key: key})
}

// Reset drops the state of key under every limit: the key is as if never used.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	_, err := l.take(ctx, Claim{Key: key, Cost: Forget})
	return err
}

// MaxDelayOf returns the [Claim.MaxDelay] that the deadline of ctx allows, by the
// system's clock: zero without a deadline, below zero when the deadline has
// passed. If [WithMaxDelay] allows less, it returns that.
func MaxDelayOf(ctx context.Context) time.Duration {
	usable := time.Duration(0)
	if deadline, ok := ctx.Deadline(); ok {
		usable = atMost(time.Until(deadline))
	}
	if bound, ok := ctx.Value(maxDelayKey{}).(time.Duration); ok && (usable == 0 || bound < usable) {
		usable = bound
	}
	return usable
}

// WithMaxDelay returns a context for which [MaxDelayOf] returns at most d, or below zero
// if d is zero or less. A deadline would do so too, but it would also end the call to the
// store. So a server uses WithMaxDelay for the deadline of its client, which must not cut a
// decision short.
func WithMaxDelay(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, maxDelayKey{}, atMost(d))
}

type maxDelayKey struct{}

// atMost converts a bound to a [Claim.MaxDelay]. A bound of zero or less
// becomes −1, because zero would mean any delay.
func atMost(d time.Duration) time.Duration {
	if d <= 0 {
		return -1
	}
	return d
}

// usable returns the greatest delay that a caller can use if it waits for at most
// d from now: d less the recent latency of the store. A delay begins when the
// answer arrives, and a place in a leaky bucket's queue cannot be refunded.
// Without this margin, a limiter under load would hand out places that end
// after the caller's deadline.
func (l *Limiter) usable(d time.Duration) time.Duration {
	return atMost(d - time.Duration(l.waiting.took.Load()))
}

// noteTime records the latency of a call that began at start. A longer latency
// replaces the recorded one at once; a shorter one lowers it by an eighth of
// the difference. Concurrent calls may overwrite each other's measurements.
func (l *Limiter) noteTime(start time.Time) {
	took, now := l.waiting.took.Load(), int64(l.now().Sub(start))
	l.waiting.took.Store(max(now, took-(took-now)/8))
}
