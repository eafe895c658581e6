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

// Decider decides a call. It must be safe for concurrent use, and must not keep the
// call. A denial is an answer. An error, preferably a [*stint.Error], means that no
// decision could be made.
type Decider interface {
	Decide(ctx context.Context, c *Call) (httplimit.Answer, error)
}

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

// Counter is a [Decider] that counts every call under one limiter. Use it in programs
// that define their limits in code. Its fields must not change once it is in use.
type Counter struct {
	// Limiter holds the limits; required, with at least one limit.
	Limiter *stint.Limiter
	// Key, if not nil, returns the key that a call is counted under. If it returns "",
	// By applies.
	Key func(c *Call) string
	// By names the attributes that identify a client; together their values are the
	// key. They are "method" (the full name), "api_key", "ip", "header:NAME" of the
	// metadata, and others of [httplimit.Request.Attribute]. Unknown names are an
	// error. A call without one of the attributes is counted by ip instead; calls
	// without an ip share one key. Defaults to ip.
	By []string
	// IPv6Prefix is how many leading bits of an IPv6 address identify a client, 1 to
	// 128. Defaults to 64, because one customer often has a whole /64.
	IPv6Prefix int
	// Cost returns how many units a call or a message takes, at least 0; 0 passes it
	// uncounted. Defaults to 1.
	Cost func(c *Call) int64
	// Dialect selects the fields of the metadata.
	Dialect httplimit.Dialect
	// Jitter spreads the retries of clients that were denied at the same moment: a
	// random part, at most Jitter times the retry time, is added to it. From 0 to 1;
	// defaults to 0.
	Jitter float64

	once  sync.Once
	http  httplimit.Counter
	wrong error // error of checkQuery; http reports all other errors
}

// Validate returns an error if the limiter has no limits, or if By has an attribute
// that calls do not have. An invalid counter answers every call with an error.
func (c *Counter) Validate() error {
	return errors.Join((&httplimit.Counter{Limiter: c.Limiter, By: c.By}).Validate(), c.checkQuery())
}

// checkQuery refuses query attributes. Calls have none, so all of them would be
// counted by ip.
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
		return httplimit.Answer{Binding: -1}, err
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

// attributes returns by in the terms of HTTP: the method of a call is the path of its
// request, whose own method is always POST.
func attributes(by []string) []string {
	named := append([]string(nil), by...)
	for i, name := range named {
		if name == "method" {
			named[i] = "path"
		}
	}
	return named
}

// key returns the key of a call. A key of Counter.Key gets the prefix "key:", so that
// it cannot collide with one of an attribute.
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
