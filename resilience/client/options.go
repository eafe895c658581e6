package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/deadline"
	"github.com/stintdev/stint/resilience/retry"
)

// Options configures a [Transport]. The zero value has no parts and sends requests with
// Base.
type Options struct {
	Chain

	// Timeout bounds the whole call: all attempts, the waits between them and the
	// response's body, but not a connection that has changed its protocol. An earlier
	// deadline of the context still applies. Zero: no bound.
	Timeout time.Duration

	// Retry repeats attempts by a policy of these options; its Budget bounds the retries.
	// Its Classify is not called. Nil: no retries.
	Retry *retry.Options

	// Deadline sends the time left to the server. Its Base is not used. Nil: the time is
	// not sent.
	Deadline *deadline.Transport

	// Key returns the Limiter's key for an attempt. Defaults to the host of the URL.
	Key func(*http.Request) string

	// Repeatable and Classify are those of retry.Transport. Classify is not called for
	// attempts that a part refused: those are not repeated.
	Repeatable func(*http.Request) bool
	Classify   func(resp *http.Response, err error, now time.Time) retry.Classification

	// Outcome returns what an attempt tells the breaker about the dependency; either resp
	// or err is nil. It must leave the body unread. It is not called if the caller gave
	// up or nothing was sent. Defaults to [OutcomeOf].
	Outcome func(resp *http.Response, err error) breaker.Outcome

	// Base sends the requests. Defaults to http.DefaultTransport.
	Base http.RoundTripper
}

// OutcomeOf returns what an attempt tells about a dependency. An error, a status of 500 or
// more and an invalid status are failures. A 429 is not: the dependency works. A canceled
// attempt is ignored.
func OutcomeOf(resp *http.Response, err error) breaker.Outcome {
	if err == nil && (resp.StatusCode >= http.StatusInternalServerError || !valid(resp.StatusCode)) {
		return breaker.Failure
	}
	return breaker.Classify(err)
}

func (o *Options) setDefaults() {
	o.Observer = stint.Observers(o.Observer) // nil instead of a nil pointer
	if o.Key == nil {
		o.Key = host
	}
	if o.Classify == nil {
		o.Classify = retry.ClassifyHTTP
	}
	if o.Outcome == nil {
		o.Outcome = OutcomeOf
	}
	o.Base = cmp.Or(o.Base, http.DefaultTransport)
}

// host returns the host of a request, or "" without a URL: Base refuses such a request.
func host(r *http.Request) string {
	if r.URL == nil {
		return ""
	}
	return r.URL.Host
}

// New returns a transport of these parts. The error lists every invalid option.
func New(o Options) (*Transport, error) {
	o.setDefaults()
	t := &Transport{options: o, below: o.sender()}
	var wrong error
	if o.Timeout < 0 {
		wrong = fmt.Errorf("client: Timeout: is %v, which is below 0", o.Timeout)
	}
	if o.Retry != nil {
		policy, err := t.options.RetryPolicy(*o.Retry)
		t.policy, wrong = policy, errors.Join(wrong, err)
	}
	if wrong != nil {
		return nil, wrong
	}
	return t, nil
}

// sender returns Base, wrapped by Deadline if that is set.
func (o *Options) sender() http.RoundTripper {
	if o.Deadline == nil {
		return o.Base
	}
	sender := *o.Deadline
	sender.Base = o.Base
	return &sender
}

// RetryPolicy returns a retry policy of these options that also passes its steps to the
// Observer. It does not count requests in the Budget: the caller counts a request once it
// is sent, because requests that a part refuses must not earn retries. A caller that does
// not send a granted retry must return it to the Budget.
func (p *Chain) RetryPolicy(o retry.Options) (*retry.Policy, error) {
	observe := o.Observe
	o.Observe = func(s retry.Step) {
		if observe != nil {
			observe(s)
		}
		p.Observe(context.Background(), stint.Event{
			Kind: stint.EventRetry, Attempt: s.Attempt, Took: s.Wait, Err: s.Err, Result: snakeCase(s.Stop),
		})
	}
	if o.Budget != nil {
		o.Budget = silent{o.Budget}
	}
	return retry.New(o)
}

// silent is a budget that ignores Request.
type silent struct{ retry.Budget }

func (silent) Request() {}

func (o *Options) classify(resp *http.Response, err error, now time.Time) retry.Classification {
	if errors.Is(err, ErrRefused) {
		return retry.Classification{}
	}
	return o.Classify(resp, err, now)
}
