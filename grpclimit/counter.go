package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

// Decider decides a call. It is safe for use by many goroutines at once and
// does not keep the call. A denial is an answer; an error, best a
// [*stint.Error], means that none could be found.
type Decider interface {
	Decide(ctx context.Context, c *Call) (httplimit.Answer, error)
}

// HTTP lets a decider of HTTP requests decide calls: one by rules, for
// example, whose paths are then the names of methods.
type HTTP struct{ httplimit.Decider }

// Decide implements [Decider].
func (h HTTP) Decide(ctx context.Context, c *Call) (httplimit.Answer, error) {
	if h.Decider == nil {
		return httplimit.Answer{Face: -1}, &stint.Error{Problem: "no decider", Mend: "set Decider"}
	}
	return h.Decider.Decide(ctx, c.Request())
}

// Counter is the [Decider] of a program with limits of its own: it counts
// every call under one limiter. Its fields must not change once it is in use.
type Counter struct {
	// Limiter has the limits; required, with at least one.
	Limiter *stint.Limiter
	// Key, when set, says whose use is counted. A call whose key is empty is
	// counted as By says.
	Key func(c *Call) string
	// By is the attributes whose values, taken together, are whose use is
	// counted: "method" (the full name), "api_key", "ip", "header:NAME" of
	// the metadata, and others of [httplimit.Request.Attribute]; other
	// names are refused. A call that
	// lacks one is counted by ip instead, and one without ip together with
	// all such. Defaults to ip.
	By []string
	// IPv6Prefix is how many bits of an IPv6 address tell clients apart, 1
	// to 128. Defaults to 64: one customer often has a whole /64.
	IPv6Prefix int
	// Cost is how many units a call or a message takes, at least 0; 0 lets it
	// pass uncounted. Defaults to 1.
	Cost func(c *Call) int64
	// Dialect chooses the fields of the metadata.
	Dialect httplimit.Dialect
	// Jitter is the greatest share of a retry time, from 0 to 1, that is
	// added to it at random, so that clients denied at once do not come back
	// at once. Defaults to none.
	Jitter float64

	once  sync.Once
	http  httplimit.Counter
	wrong error // what is wrong with By, beside what http says
}

// Validate says what is wrong with a counter: a limiter without limits, or an
// attribute that no call has. An invalid counter decides nothing: it answers
// every call with an error.
func (c *Counter) Validate() error {
	return errors.Join((&httplimit.Counter{Limiter: c.Limiter, By: c.By}).Validate(), c.checkQuery())
}

// checkQuery refuses what only HTTP has: it would count everybody by ip.
func (c *Counter) checkQuery() error {
	for _, name := range c.By {
		if strings.HasPrefix(name, "query:") {
			return fmt.Errorf("%.100q: a call has no query (use header:NAME of the metadata)", name)
		}
	}
	return nil
}

// Decide counts the call.
func (c *Counter) Decide(ctx context.Context, call *Call) (httplimit.Answer, error) {
	c.once.Do(c.prepare)
	key, err := c.key(call)
	if err != nil {
		return httplimit.Answer{Face: -1}, err
	}
	return c.http.DecideKey(ctx, key, c.cost(call))
}

func (c *Counter) prepare() {
	c.http.Limiter, c.http.By, c.http.IPv6Prefix = c.Limiter, attributes(c.By), c.IPv6Prefix
	c.http.Dialect, c.http.Jitter = c.Dialect, c.Jitter
	if err := c.checkQuery(); err != nil {
		c.wrong = &stint.Error{Problem: "the calls cannot be counted", Err: err}
	}
}

// attributes is by as HTTP names it, where the method of every call is POST.
func attributes(by []string) []string {
	named := append([]string(nil), by...)
	for i, name := range named {
		if name == "method" {
			named[i] = "path"
		}
	}
	return named
}

// key is whose use a call is. One that was given begins with "key:", so that
// it is never what an attribute makes.
func (c *Counter) key(call *Call) (string, error) {
	if c.Key != nil {
		if key := c.Key(call); key != "" {
			return "key:" + key, stint.ValidateKey(key)
		}
	}
	if c.wrong != nil {
		return "", c.wrong
	}
	return c.http.Key(call.Request())
}

func (c *Counter) cost(call *Call) int64 {
	if c.Cost == nil {
		return 1
	}
	return c.Cost(call)
}
