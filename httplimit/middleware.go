package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stintdev/stint/internal/errlog"
)

// Decider decides a request. It must be safe for concurrent use, and must not keep the
// request. A denial is an answer. An error, preferably a [*stint.Error], means that no
// decision could be made.
type Decider interface {
	Decide(ctx context.Context, r *Request) (Answer, error)
}

// DeciderFunc is a function as a [Decider].
type DeciderFunc func(ctx context.Context, r *Request) (Answer, error)

// Decide calls the function.
func (f DeciderFunc) Decide(ctx context.Context, r *Request) (Answer, error) { return f(ctx, r) }

// Middleware asks a decider before it passes a request on. Make one with [Limit] or [New]:
// a nil or zero Middleware answers every request with 500. It is safe for concurrent use.
type Middleware struct {
	decider  Decider
	identity Identity
	onDenied func(w http.ResponseWriter, r *http.Request, a *Answer) bool
	onError  func(w http.ResponseWriter, r *http.Request, err error) bool
	log      *errlog.Log
	now      func() time.Time
}

// Limit returns middleware that counts requests under a limiter, by the address of the
// client unless an option says otherwise. It is shorthand for [NewCounter] and [New]. The
// error reports a limiter without limits, or an option that is wrong.
func Limit[L Limiter](limiter L, o Options) (*Middleware, error) {
	c, err := NewCounter(limiter, o)
	if err != nil {
		return nil, err
	}
	return newMiddleware(c, &o)
}

// New returns middleware that asks a decider, such as one of a rule set. The error reports
// a nil decider, or an option that is wrong or that is for counters.
func New(d Decider, o Options) (*Middleware, error) {
	if err := o.refuseCounting(); err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	return newMiddleware(d, &o)
}

func newMiddleware(d Decider, o *Options) (*Middleware, error) {
	id, err := o.identity()
	if err == nil {
		err = checkDecider(d, &id)
	}
	if err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	m := &Middleware{decider: d, identity: id, onDenied: o.OnDenied, onError: o.OnError, now: o.Clock}
	if m.now == nil {
		m.now = time.Now
	}
	m.log = errlog.New(o.Logger, "the rate limit of a request could not be checked", m.now)
	return m, nil
}

func checkDecider(d Decider, id *Identity) error {
	if f, ok := d.(DeciderFunc); d == nil || ok && f == nil {
		return errors.New("the decider is nil (use Limit for a limiter)")
	}
	c, ok := d.(*Counter)
	if !ok {
		return nil
	}
	if !c.made() {
		return errNotMade
	}
	for i := range c.keys {
		if c.keys[i].claims && id.Tokens == nil {
			return fmt.Errorf("claims: %w", errNoTokens)
		}
	}
	return nil
}

// Wrap returns a handler that calls next for each request that may pass. A request that a
// leaky bucket delays waits in the handler; if its context ends first, next is not called.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.Admit(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// Admit is Wrap for frameworks with handlers of another type. If the request may pass,
// Admit sets the headers that report the limits, waits for the delay of a leaky bucket,
// and returns true. If not, it has answered the request and returns false.
func (m *Middleware) Admit(w http.ResponseWriter, r *http.Request) bool {
	if m == nil || m.decider == nil {
		WriteError(w, r, errNotMade)
		return false
	}
	q := NewRequest(r, &m.identity)
	answer, err := m.decide(q)
	decided := err == nil && answer.Allowed()
	switch {
	case err != nil && !m.passesError(w, r, err):
		return false
	case err == nil && !decided && !m.passesDenial(w, r, answer):
		return false
	}
	if err := q.TokenError(); err != nil {
		WriteError(w, r, err)
		return false
	}
	if !decided {
		return true
	}
	answer.SetHeaders(w.Header(), m.now())
	if err := answer.Wait(r.Context()); err != nil {
		WriteError(w, r, err)
		return false
	}
	return true
}

// Decide decides a request and writes nothing, for servers whose responses are no
// [http.ResponseWriter]. The caller reports the answer: by [Answer.SetHeaders] and, on a
// denial, by [Answer.Status], [Answer.RetryAfter] and [Answer.DenialBody]. It calls
// [Answer.Wait] before it serves a request that may pass, and answers an error by
// [ErrorStatus]. An error may be a [Request.TokenError], with which no request may pass.
// No hook is called.
func (m *Middleware) Decide(r *http.Request) (Answer, error) {
	if m == nil || m.decider == nil {
		return Answer{Binding: -1}, errNotMade
	}
	q := NewRequest(r, &m.identity)
	answer, err := m.decide(q)
	if err == nil && answer.Allowed() {
		err = q.TokenError()
	}
	return answer, err
}

func (m *Middleware) decide(q *Request) (Answer, error) {
	answer, err := m.decider.Decide(q.Context(), q)
	m.log.Note(q.Context(), err)
	m.log.Note(q.Context(), q.VerifierError())
	return answer, err
}

func (m *Middleware) passesError(w http.ResponseWriter, r *http.Request, err error) bool {
	if m.onError == nil {
		WriteError(w, r, err)
		return false
	}
	return m.onError(w, r, err)
}

func (m *Middleware) passesDenial(w http.ResponseWriter, r *http.Request, a Answer) bool {
	if m.onDenied == nil {
		a.WriteDenial(w, r, m.now())
		return false
	}
	return m.askOnDenied(w, r, a)
}

// askOnDenied calls the hook. If the request passes, its response is not that of a denial,
// and may be cached and repeated. (The hook's pointer moves a to the heap, which would cost
// passesDenial an allocation without a hook too.)
func (m *Middleware) askOnDenied(w http.ResponseWriter, r *http.Request, a Answer) bool {
	h := w.Header()
	cache, cached := h["Cache-Control"]
	a.SetHeaders(h, m.now())
	if !m.onDenied(w, r, &a) {
		return false
	}
	delete(h, "Retry-After")
	if delete(h, "Cache-Control"); cached {
		h["Cache-Control"] = cache
	}
	return true
}
