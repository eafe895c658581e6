package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
	"github.com/stintdev/stint/resilience/deadline"
)

// keys is a limiter that records the keys of its turns.
type keys struct{ asked []string }

func (k *keys) Wait(_ context.Context, key string) error { k.asked = append(k.asked, key); return nil }

func TestTheLimiterIsAskedForTheHost(t *testing.T) {
	k := &keys{}
	must(get(t, must(New(Options{Chain: Chain{Limiter: k}, Base: answers(200)})))).Body.Close()
	if len(k.asked) != 1 || k.asked[0] != "orders.example" {
		t.Errorf("asked for %q", k.asked)
	}
}

// An attempt that the breaker would refuse after its turn takes no turn.
func TestAnOpenBreakerSparesTheTurn(t *testing.T) {
	for name, open := range map[string]func(*breaker.Breaker){
		"forced": (*breaker.Breaker).ForceOpen,
		"failed": func(b *breaker.Breaker) { c, _ := b.Begin(); c.Failure() },
	} {
		k, b := &keys{}, must(breaker.New(breaker.Options{ConsecutiveFailures: 1, OpenFor: time.Hour}))
		open(b)
		if _, err := (&Chain{Breaker: b, Limiter: k}).Begin(t.Context(), "a"); err == nil || len(k.asked) != 0 {
			t.Errorf("%s: %v, asked for %q", name, err, k.asked)
		}
	}
}

// The body of a request that is not sent is closed, as net/http requires, and the request
// does not count against the dependency.
func TestRefusedRequestsAreClosedAndNotCounted(t *testing.T) {
	full := must(bulkhead.New(bulkhead.Options{Limit: 1}))
	must(full.Acquire(t.Context()))
	for name, o := range map[string]Options{
		"bulkhead": {Chain: Chain{Bulkhead: full}},
		"limiter":  {Chain: Chain{Limiter: never{}}},
		"deadline": {Timeout: time.Second, Deadline: &deadline.Transport{Reserve: time.Hour}},
	} {
		o.Breaker = must(breaker.New(breaker.Options{}))
		body := &closing{Reader: strings.NewReader("a body")}
		_, err := must(New(o)).RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodPut, "http://orders.example/", body))
		if err == nil || !body.closed || o.Breaker.Counts() != (breaker.Counts{}) {
			t.Errorf("%s: %v, body closed: %v, %+v", name, err, body.closed, o.Breaker.Counts())
		}
	}
}

func TestRefusalsAreTimeoutsWhereTimeWasShort(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{{&deadline.RefusedError{}, true}, {context.DeadlineExceeded, true}, {&bulkhead.RefusedError{Reason: bulkhead.ErrFull}, false}, {io.EOF, false}} {
		if err := (&RefusedError{Err: c.err}); err.Timeout() != c.want || !errors.Is(err, c.err) {
			t.Errorf("%v: %v", c.err, err.Timeout())
		}
	}
}

// idle is a Base that records whether its idle connections were closed.
type idle struct {
	http.RoundTripper

	closed bool
}

func (i *idle) CloseIdleConnections() { i.closed = true }

func TestIdleConnectionsCanBeClosed(t *testing.T) {
	base := &idle{}
	(&http.Client{Transport: must(New(Options{Base: base, Deadline: &deadline.Transport{}}))}).CloseIdleConnections()
	if !base.closed {
		t.Error("idle connections are left open")
	}
	must(New(Options{Base: answers(200)})).CloseIdleConnections() // this Base cannot close idle connections
}
