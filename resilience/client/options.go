package client

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/deadline"
	"github.com/stintdev/stint/resilience/retry"
)

// Options says which parts a [Transport] has. The zero value has none, and
// sends requests as Base does.
type Options struct {
	Parts

	// Total is the time of a whole call: all attempts, the waits between them
	// and the response's body, but not a connection that has changed its
	// protocol. A context that ends earlier does so. Zero: as long as the
	// context lets it.
	Total time.Duration

	// Retry repeats attempts by a policy of these options; its Budget bounds
	// how many. Its Classify is not asked. Nil: no retries.
	Retry *retry.Options

	// Deadline tells the server how much time is left. Its Base is not used.
	// Nil: nobody is told.
	Deadline *deadline.Transport

	// Key says whose turn an attempt is, to the Limiter. Defaults to the host
	// of the URL.
	Key func(*http.Request) string

	// Repeatable and Classify are those of retry.Transport. Classify is not
	// asked about attempts that were refused: those are not repeated.
	Repeatable func(*http.Request) bool
	Classify   func(resp *http.Response, err error, now time.Time) retry.Verdict

	// Outcome says what an attempt tells the breaker of the dependency; one of
	// the two is nil. It must leave the body unread. It is not asked where the
	// caller gave up, or nothing was sent. Defaults to [Outcome].
	Outcome func(resp *http.Response, err error) breaker.Outcome

	// Base sends the requests. Defaults to http.DefaultTransport.
	Base http.RoundTripper
}

// Outcome is what an attempt says of a dependency. It failed by an error, a
// status of 500 or more, or a number that is no status. A 429 is none: it is up
// and says so. An attempt that was canceled says nothing.
func Outcome(resp *http.Response, err error) breaker.Outcome {
	if err == nil && (resp.StatusCode >= http.StatusInternalServerError || !valid(resp.StatusCode)) {
		return breaker.Failure
	}
	return breaker.Classify(err)
}

func (o *Options) setDefaults() {
	if o.Key == nil {
		o.Key = host
	}
	if o.Classify == nil {
		o.Classify = retry.ClassifyHTTP
	}
	if o.Outcome == nil {
		o.Outcome = Outcome
	}
	if o.Base == nil {
		o.Base = http.DefaultTransport
	}
}

// host is a request's, if it has a URL: what has none is for Base to refuse.
func host(r *http.Request) string {
	if r.URL == nil {
		return ""
	}
	return r.URL.Host
}

// New returns a transport of these parts. The error names every option that
// cannot be.
func New(o Options) (*Transport, error) {
	o.setDefaults()
	t := &Transport{options: o, below: o.sender()}
	wrong := o.check()
	if o.Retry != nil {
		policy, err := t.options.Policy(*o.Retry)
		t.policy, wrong = policy, errors.Join(wrong, err)
	}
	if wrong != nil {
		return nil, wrong
	}
	return t, nil
}

func (o *Options) check() error {
	if o.Total < 0 {
		return fmt.Errorf("client: Total: is %v, which is below 0", o.Total)
	}
	return nil
}

// sender is Base, which says how much time is left if it should.
func (o *Options) sender() http.RoundTripper {
	if o.Deadline == nil {
		return o.Base
	}
	told := *o.Deadline
	told.Base = o.Base
	return &told
}

// Policy returns a policy of these options that also tells the Observer of its
// steps. It does not tell the Budget of requests: whoever sends them does, once
// they are sent, or else what the parts refuse would earn retries. Who does
// not send a retry returns it.
func (p *Parts) Policy(o retry.Options) (*retry.Policy, error) {
	observe := o.Observe
	o.Observe = func(s retry.Step) {
		if observe != nil {
			observe(s)
		}
		p.Observe(Event{Kind: Decided, Attempt: s.Attempt, Step: s})
	}
	if o.Budget != nil {
		o.Budget = silent{o.Budget}
	}
	return retry.New(o)
}

// silent is a budget that does not hear of requests.
type silent struct{ retry.Budget }

func (silent) Request() {}

func (o *Options) classify(resp *http.Response, err error, now time.Time) retry.Verdict {
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		return retry.Verdict{}
	}
	return o.Classify(resp, err, now)
}
