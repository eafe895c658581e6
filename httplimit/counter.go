package httplimit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stintdev/stint"
)

// Counter is a [Decider] that counts every request under one limiter. Make one with
// [NewCounter]: a nil or zero Counter answers every request with an error. It is safe
// for concurrent use.
type Counter struct {
	limiter *stint.Limiter      // nil for a joint limiter
	joint   *stint.JointLimiter // nil for a limiter
	keys    []keyMaker          // one for each key of a request
	cost    func(r *Request) int64
	dialect Dialect
	jitter  float64

	policies []Policy // the policies of the limiter's limits
	delays   bool     // one of the limits is a leaky bucket
}

// NewCounter returns a counter, for programs that choose among several limiters or wrap a
// decider around one. It reads the options that say how requests are counted, and ignores
// the others. The error reports a limiter without limits, or an option that is wrong.
func NewCounter[L Limiter](limiter L, o Options) (*Counter, error) {
	c := &Counter{cost: o.Cost, dialect: o.Dialect, jitter: o.Jitter}
	if err := c.set(limiter, &o); err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	return c, nil
}

// set sets the limiter and the keys.
func (c *Counter) set(limiter any, o *Options) error {
	var limits []stint.Limit
	switch l := limiter.(type) {
	case *stint.Limiter:
		c.limiter, limits = l, l.Limits()
	case *stint.JointLimiter:
		c.joint, limits = l, l.Limits()
	}
	if len(limits) == 0 {
		return errors.New("the limiter is nil or has no limit (make it with NewLimiter or Join, and look at its error)")
	}
	if err := o.checkCounter(); err != nil {
		return err
	}
	parts, err := o.parts(c.joint)
	if err != nil {
		return err
	}
	for _, p := range parts {
		for _, name := range p.By {
			if err := ValidateAttribute(name); err != nil {
				return err
			}
		}
		c.keys = append(c.keys, newKeyMaker(p, o.IPv6Prefix))
	}
	c.name(limits)
	return nil
}

// name sets the policies.
func (c *Counter) name(limits []stint.Limit) {
	for _, limit := range limits {
		alone := !slices.ContainsFunc(limits, func(l stint.Limit) bool { return l.Rule() == limit.Rule() && l.Name() != limit.Name() })
		c.policies = append(c.policies, Policy{Name: PolicyName(limit, alone), Limit: limit})
		c.delays = c.delays || limit.Algorithm() == stint.LeakyBucket
	}
}

// made reports whether the counter came from NewCounter.
func (c *Counter) made() bool { return c != nil && len(c.policies) > 0 }

var errNotMade = &stint.Error{Problem: "httplimit: the middleware or counter is nil or a zero value", Mend: "make it with its constructor, and look at the error"}

// Decide counts the request. A leaky bucket denies a request that it would delay past the
// deadline of ctx, and does not charge it.
func (c *Counter) Decide(ctx context.Context, r *Request) (Answer, error) {
	if !c.made() {
		return Answer{Binding: -1}, errNotMade
	}
	if c.limiter == nil {
		return c.decideJoint(ctx, r)
	}
	key, err := c.keys[0].key(r)
	if err != nil {
		return Answer{Binding: -1}, err
	}
	return c.decide(ctx, key, nil, c.costOf(r))
}

func (c *Counter) decideJoint(ctx context.Context, r *Request) (Answer, error) {
	keys := make([]string, len(c.keys))
	for i := range c.keys {
		var err error
		if keys[i], err = c.keys[i].key(r); err != nil {
			return Answer{Binding: -1}, err
		}
	}
	return c.decide(ctx, "", keys, c.costOf(r))
}

func (c *Counter) costOf(r *Request) int64 {
	if c.cost == nil {
		return 1
	}
	return c.cost(r)
}

// PartKey returns the key for one of the limiters under which Decide counts a request; see
// [Options.Parts]. A counter of one limiter has the part 0.
//
// Every key begins with the name of its attributes, or with "key" for those of
// [Options.Key], so that an API key that looks like an address cannot collide with it.
func (c *Counter) PartKey(part int, r *Request) (string, error) {
	if !c.made() || part < 0 || part >= len(c.keys) {
		return "", errNotMade
	}
	return c.keys[part].key(r)
}

// DecideKeys counts a request of the given cost, at least 0, under keys that the caller
// has made: one for each limiter.
func (c *Counter) DecideKeys(ctx context.Context, cost int64, keys ...string) (Answer, error) {
	switch {
	case !c.made():
		return Answer{Binding: -1}, errNotMade
	case len(keys) != len(c.keys):
		return Answer{Binding: -1}, &stint.Error{Code: stint.CodeInvalid, Problem: fmt.Sprintf("keys: there are %d for %d limiters", len(keys), len(c.keys))}
	case c.limiter == nil:
		return c.decide(ctx, "", keys, cost)
	}
	return c.decide(ctx, keys[0], nil, cost)
}

// decide counts under key, or under keys for a joint limiter.
func (c *Counter) decide(ctx context.Context, key string, keys []string, cost int64) (answer Answer, err error) {
	answer = Answer{Policies: c.policies, Dialect: c.dialect, Jitter: c.jitter}
	if len(c.policies) == 1 && c.limiter != nil {
		answer.Decision, err = c.decideOne(ctx, key, cost)
		return answer, err
	}
	err = c.decideAll(ctx, key, keys, cost, &answer)
	return answer, err
}

func (c *Counter) decideOne(ctx context.Context, key string, cost int64) (stint.Decision, error) {
	if !c.delays {
		return c.limiter.AllowN(ctx, key, cost)
	}
	var one [1]stint.Decision
	_, d, err := c.limiter.AllowEach(ctx, key, cost, stint.MaxDelayOf(ctx), one[:])
	return d, err
}

// decideAll fills the answer from the decisions of several limits.
func (c *Counter) decideAll(ctx context.Context, key string, keys []string, cost int64, answer *Answer) (err error) {
	decisions := make([]stint.Decision, len(c.policies))
	if c.limiter != nil {
		answer.Binding, answer.Decision, err = c.limiter.AllowEach(ctx, key, cost, stint.MaxDelayOf(ctx), decisions)
	} else {
		answer.Binding, answer.Decision, err = c.joint.AllowEach(ctx, cost, stint.MaxDelayOf(ctx), decisions, keys...)
	}
	if err != nil || answer.Decision.Allowed {
		return err
	}
	answer.Policies = slices.Clone(c.policies)
	for i := range decisions {
		answer.Policies[i].Exceeded = !decisions[i].Allowed
	}
	return nil
}
