package httplimit

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"sync"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/urlpath"
)

// Counter is a [Decider] that counts every request under one limiter. Use it in
// programs that define their limits in code. Its fields must not change once it is in
// use.
type Counter struct {
	// Limiter holds the limits; required, with at least one limit.
	Limiter *stint.Limiter
	// By names the attributes that identify a client, as [Request.Attribute] defines
	// them; together their values are the key. Unknown names are an error. A request
	// without one of the attributes is counted by ip instead; requests without an ip
	// share one key. A request that [Request.Refusal] refuses for one of the
	// attributes gets an error. Defaults to ip.
	By []string
	// IPv6Prefix is how many leading bits of an IPv6 address identify a client, 1 to
	// 128. Defaults to 64, because one customer often has a whole /64.
	IPv6Prefix int
	// Cost is how many units a request takes, at least 0. Defaults to 1.
	Cost func(r *http.Request) int64
	// Dialect chooses the header fields.
	Dialect Dialect
	// Jitter spreads retries; see [Answer].
	Jitter float64

	once     sync.Once
	policies []Policy // the policies of the limiter's limits
	delays   bool     // one of the limits is a leaky bucket
	wrongBy  error    // the error of By
	claims   bool     // By has a claim of a token
}

// Validate returns an error if the limiter has no limits, or if By has an unknown
// attribute. An invalid counter answers every request with an error.
func (c *Counter) Validate() error {
	return errors.Join(c.checkLimiter(), c.checkBy())
}

func (c *Counter) checkLimiter() error {
	if c.Limiter == nil {
		return errors.New("no limiter (set Limiter)")
	}
	if len(c.Limiter.Limits()) == 0 {
		return errors.New("the limiter has no limit (pass at least one to NewLimiter)")
	}
	return nil
}

func (c *Counter) checkBy() error {
	for _, name := range c.By {
		if err := ValidateAttribute(name); err != nil {
			return err
		}
	}
	return nil
}

// misconfigured returns an internal error: the configuration is wrong, and not the
// request.
func misconfigured(err error) error {
	return &stint.Error{Problem: "the requests cannot be counted", Err: err}
}

// prepare reads the fields, once.
func (c *Counter) prepare() {
	c.wrongBy = c.checkBy()
	c.claims = slices.ContainsFunc(c.By, isClaim)
	if c.checkLimiter() == nil {
		c.name()
	}
}

// Decide counts the request. It is shorthand for [Counter.Key] and
// [Counter.DecideKey].
func (c *Counter) Decide(ctx context.Context, r *Request) (Answer, error) {
	key, err := c.Key(r)
	if err != nil {
		return Answer{Binding: -1}, err
	}
	return c.DecideKey(ctx, key, c.cost(r))
}

// DecideKey counts a request of the given cost, at least 0, under a key that the
// caller has computed. A leaky bucket denies a request that it would delay past the
// deadline of ctx, and does not charge it.
func (c *Counter) DecideKey(ctx context.Context, key string, cost int64) (answer Answer, err error) {
	c.once.Do(c.prepare)
	answer = Answer{Policies: c.policies, Dialect: c.Dialect, Jitter: c.Jitter}
	switch len(c.policies) {
	case 0:
		err = misconfigured(c.checkLimiter())
	case 1:
		answer.Decision, err = c.decideOne(ctx, key, cost)
	default:
		err = c.decideAll(ctx, key, cost, &answer)
	}
	return answer, err
}

// name sets the policies.
func (c *Counter) name() {
	limits := c.Limiter.Limits()
	c.policies = make([]Policy, len(limits))
	for i, limit := range limits {
		c.policies[i] = Policy{Name: PolicyName(limit, len(limits) == 1), Limit: limit}
		c.delays = c.delays || limit.Algorithm() == stint.LeakyBucket
	}
}

func (c *Counter) decideOne(ctx context.Context, key string, cost int64) (stint.Decision, error) {
	if !c.delays {
		return c.Limiter.AllowN(ctx, key, cost)
	}
	var one [1]stint.Decision
	_, d, err := c.Limiter.AllowEach(ctx, key, cost, stint.MaxDelayOf(ctx), one[:])
	return d, err
}

// decideAll fills the answer from the decisions of several limits.
func (c *Counter) decideAll(ctx context.Context, key string, cost int64, answer *Answer) (err error) {
	decisions := make([]stint.Decision, len(c.policies))
	answer.Binding, answer.Decision, err = c.Limiter.AllowEach(ctx, key, cost, stint.MaxDelayOf(ctx), decisions)
	if err != nil || answer.Decision.Allowed {
		return err
	}
	answer.Policies = append([]Policy(nil), c.policies...)
	for i := range decisions {
		answer.Policies[i].Exceeded = !decisions[i].Allowed
	}
	return nil
}

func (c *Counter) cost(r *Request) int64 {
	if c.Cost == nil {
		return 1
	}
	return c.Cost(r.Request)
}

// shared is the key of requests without any identity.
const shared = "shared"

// Key returns the key under which a request is counted; see By. Every part has its
// attribute's name as prefix, so that an API key that looks like an address cannot
// collide with it.
func (c *Counter) Key(r *Request) (string, error) {
	c.once.Do(c.prepare)
	if c.wrongBy != nil {
		return "", misconfigured(c.wrongBy)
	}
	if c.claims && r.who().Tokens == nil {
		return "", misconfigured(errNoTokens)
	}
	parts := make([]string, 0, 4)
	for _, name := range c.By {
		value, err := c.value(r, name)
		if err != nil {
			return "", err
		}
		if value == "" {
			parts = parts[:0]
			break
		}
		if err := stint.ValidateKey(value); err != nil {
			return "", err
		}
		parts = append(parts, name+":"+value)
	}
	if len(parts) > 0 {
		return stint.JoinKey(parts...), nil
	}
	if addr := r.Addr(); addr.IsValid() {
		var room [64]byte
		return string(c.appendClient(append(room[:0], "ip:"...), addr)), nil
	}
	return shared, nil
}

func (c *Counter) value(r *Request, name string) (string, error) {
	value, err := r.attribute(name)
	switch {
	case err != nil:
		return "", err
	case name == "ip" && value != "":
		return string(c.appendClient(nil, r.Addr())), nil
	case name == "path":
		path, err := urlpath.Decode(value)
		if err != nil {
			return "", refused("path", err.Error(), "send them unencoded")
		}
		return path, nil
	}
	return value, nil
}

// appendClient appends the prefix of an address that identifies the client.
func (c *Counter) appendClient(to []byte, addr netip.Addr) []byte {
	if addr.Is4() {
		return addr.AppendTo(to)
	}
	bits := c.IPv6Prefix
	if bits < 1 || bits > addr.BitLen() {
		bits = 64
	}
	return netip.PrefixFrom(addr, bits).Masked().AppendTo(to)
}
