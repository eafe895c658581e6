package grpclimit

import (
	"context"
	"errors"
	"fmt"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

// Decider decides a call. It must be safe for concurrent use, and must not keep the
// call. A denial is an answer. An error, preferably a [*stint.Error], means that no
// decision could be made.
type Decider interface {
	Decide(ctx context.Context, c *Call) (httplimit.Answer, error)
}

// DeciderFunc is a function as a [Decider].
type DeciderFunc func(ctx context.Context, c *Call) (httplimit.Answer, error)

// Decide calls the function.
func (f DeciderFunc) Decide(ctx context.Context, c *Call) (httplimit.Answer, error) { return f(ctx, c) }

// HTTP makes a decider of calls from a decider of HTTP requests, such as one of a rule
// set. The paths of the rules are then the full names of methods.
type HTTP struct{ httplimit.Decider }

// Decide implements [Decider].
func (h HTTP) Decide(ctx context.Context, c *Call) (httplimit.Answer, error) {
	if h.Decider == nil {
		return httplimit.Answer{Binding: -1}, &stint.Error{Problem: "no decider", Mend: "set Decider"}
	}
	return h.Decider.Decide(ctx, c.Request())
}

// Counter is a [Decider] that counts every call under one limiter. Make one with
// [NewCounter]: a nil or zero Counter answers every call with an error. It is safe for
// concurrent use.
type Counter struct {
	http   *httplimit.Counter
	keys   []func(c *Call) (string, error) // one for each key of a call; nil if attributes apply
	cost   func(c *Call) int64
	claims bool // a part counts by a claim of a token
}

// NewCounter returns a counter, for programs that choose among several limiters or wrap a
// decider around one. It reads the options that say how calls are counted, and ignores the
// others. The error reports a limiter without limits, or an option that is wrong.
func NewCounter[L httplimit.Limiter](limiter L, o Options) (*Counter, error) {
	parts := o.parts()
	h, err := httplimit.NewCounter(limiter, o.http())
	if err != nil {
		return nil, fmt.Errorf("grpclimit: %w", errors.Unwrap(err)) // without the name of package httplimit
	}
	if err := checkQuery(parts); err != nil {
		return nil, fmt.Errorf("grpclimit: %w", err)
	}
	c := &Counter{http: h, cost: o.Cost, claims: claims(parts)}
	for _, p := range parts {
		c.keys = append(c.keys, p.Key)
	}
	return c, nil
}

var errNotMade = &stint.Error{Problem: "grpclimit: the server, client or counter is nil or a zero value", Mend: "make it with its constructor, and look at the error"}

// Decide counts the call. A leaky bucket denies a call that it would delay past the
// deadline of ctx, and does not charge it.
func (c *Counter) Decide(ctx context.Context, call *Call) (httplimit.Answer, error) {
	if c == nil || c.http == nil {
		return httplimit.Answer{Binding: -1}, errNotMade
	}
	var room [2]string
	keys := room[:0]
	for i := range c.keys {
		key, err := c.partKey(i, call)
		if err != nil {
			return httplimit.Answer{Binding: -1}, err
		}
		keys = append(keys, key)
	}
	return c.http.DecideKeys(ctx, c.costOf(call), keys...)
}

// partKey returns one of the keys of a call. A key of a function gets the prefix "key:",
// so that it cannot collide with one of an attribute.
func (c *Counter) partKey(part int, call *Call) (string, error) {
	if function := c.keys[part]; function != nil {
		key, err := function(call)
		if err != nil {
			return "", err
		}
		if key != "" {
			key = "key:" + key
			return key, stint.ValidateKey(key)
		}
	}
	return c.http.PartKey(part, call.Request())
}

func (c *Counter) costOf(call *Call) int64 {
	if c.cost == nil {
		return 1
	}
	return c.cost(call)
}
