package stint

import (
	"context"
	"reflect"
	"slices"
	"sync/atomic"
	"time"
)

// Limiter limits one kind of request: it joins a store with the limits that
// every request is counted under, as one atomic group. It is safe for use by
// many goroutines at once, and costs microseconds to make. Make one with
// [NewLimiter]: a nil or zero Limiter answers every request with an error.
type Limiter struct {
	taker taker // of a claim on limit: the store, or all
	limit Limit // the only one; else the zero Limit
	all   together

	name    string
	shapes  bool         // one of the limits delays
	most    int64        // the greatest cost that every limit can allow
	took    atomic.Int64 // ns that the store lately took to answer, of a limiter that shapes
	waiting waiting
}

// limiterNamespace is the first part of the scope of every limiter's limits.
// Neither rules nor the callers of a server can name it.
const limiterNamespace = "limiter"

// NewLimiter returns a limiter of these limits over the store. The name says
// what is limited, such as "login": 1 to 64 of [A-Za-z0-9_.:-]. It is the scope
// of the limits: limiters of one name share their state, also across
// processes that share a store, and limiters of different names never do,
// whatever their keys. It is an error if there is no name, no store or no
// limit, if two limits have one name, and if a limit brings a scope of its own
// (Namespace, Rule or FromCaller).
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
	l := &Limiter{name: name, most: MaxCost, all: together{store: store}}
	for _, limit := range limits {
		own, err := limit.ownedBy(name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(l.all.limits, func(o Limit) bool { return o.Name() == own.Name() }) {
			return nil, invalid("limits: two are named "+own.Name(), "give one of them a Spec.Name of its own")
		}
		l.all.limits = append(l.all.limits, own)
		l.shapes, l.most = l.shapes || own.n.alg == LeakyBucket, min(l.most, own.Max())
	}
	l.taker = &l.all
	if len(limits) == 1 {
		l.taker, l.limit = store, l.all.limits[0]
	}
	return l, nil
}

// missing reports whether there is no store: nil, or a nil pointer in an
// interface, as of a constructor whose error was not looked at.
func missing(store Store) bool {
	v := reflect.ValueOf(store)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// ownedBy returns the limit in the scope of the limiter of that name.
func (l Limit) ownedBy(limiter string) (Limit, error) {
	if !l.Valid() {
		return l, invalid("limit: is the zero Limit", "compile a Spec, or use ParseLimit")
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

// made reports whether NewLimiter made the limiter: it is neither nil nor a
// zero value.
func (l *Limiter) made() bool { return l != nil && l.taker != nil }

var errNotMade = &Error{Problem: "the limiter is nil or a zero value", Mend: "make it with NewLimiter, and look at its error"}

// take takes a claim on every limit.
func (l *Limiter) take(ctx context.Context, c Claim) (Decision, error) {
	if !l.made() {
		return Decision{}, errNotMade
	}
	c.Limit = l.limit
	return l.taker.Take(ctx, c)
}

// AllowN decides whether key may use n units now, and charges them if so.
// It does not wait: a denial says when to come back. n is at least 0; with 0
// it is Peek. The decision of several limits is their [Combine].
func (l *Limiter) AllowN(ctx context.Context, key string, n int64) (Decision, error) {
	if n < 0 {
		return Decision{}, refuseNegative()
	}
	return l.take(ctx, Claim{Key: key, Cost: n})
}

func refuseNegative() error {
	return invalid("cost: is below 0", "use Reserve, and give back by its Cancel")
}

// AllowEach is AllowN for callers that tell of every limit: it writes the
// decision of each into out, in the order of [Limiter.Limits] and of that
// length, and returns their [Combine]. With room for more or fewer it is an error,
// and nothing is charged.
func (l *Limiter) AllowEach(ctx context.Context, key string, n int64, out []Decision) (face int, d Decision, err error) {
	return l.AllowWithin(ctx, key, n, 0, out)
}

// AllowWithin is AllowEach for a caller that can use no delay above maxDelay,
// as [Claim.MaxDelay] says it and counted from the call: the time that the
// store lately took to answer is taken off.
func (l *Limiter) AllowWithin(ctx context.Context, key string, n int64, maxDelay time.Duration, out []Decision) (face int, d Decision, err error) {
	if n < 0 {
		return -1, Decision{}, refuseNegative()
	}
	if !l.made() {
		return -1, Decision{}, errNotMade
	}
	c := Claim{Key: key, Cost: n}
	if maxDelay == 0 || !l.shapes {
		return l.all.takeEach(ctx, &c, out)
	}
	c.MaxDelay = l.usable(maxDelay)
	defer l.noteTime(time.Now())
	return l.all.takeEach(ctx, &c, out)
}

// Limits returns the limits that every request is counted under, in order, in
// the scope of the limiter.
func (l *Limiter) Limits() []Limit {
	if l == nil {
		return nil
	}
	return slices.Clone(l.all.limits)
}

// Peek reports what key has left, and charges nothing.
func (l *Limiter) Peek(ctx context.Context, key string) (Decision, error) {
	return l.take(ctx, Claim{Key: key})
}

// Reset forgets what key has used.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	_, err := l.take(ctx, Claim{Key: key, Cost: Forget})
	return err
}

// MaxDelayOf returns what the deadline of ctx lets a caller wait, as
// [Claim.MaxDelay] says it: zero without a deadline, and below zero when it is
// over.
func MaxDelayOf(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return atMost(time.Until(deadline))
}

// atMost is a bound that may be used up, as [Claim.MaxDelay] says it.
func atMost(d time.Duration) time.Duration {
	if d <= 0 {
		return -1
	}
	return d
}

// usable is what a wait of at most d leaves for a delay. A delay begins with
// the answer, and a place in a queue cannot be given back: without this
// margin, a limiter under load would hand out places that are too late by the
// time of the call.
func (l *Limiter) usable(d time.Duration) time.Duration {
	return atMost(d - time.Duration(l.took.Load()))
}

// noteTime notes how long a call took: the longest of the latest, which falls
// slowly. Callers at the same time may lose each other's times.
func (l *Limiter) noteTime(start time.Time) {
	took, now := l.took.Load(), int64(time.Since(start))
	l.took.Store(max(now, took-(took-now)/8))
}
