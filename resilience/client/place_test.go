package client

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
	"github.com/stintdev/stint/resilience/retry"
)

// A response that could have been retried, but is the last, holds its place like any
// other: its body is still being read.
func TestLastAnswerHoldsItsPlace(t *testing.T) {
	places := must(bulkhead.New(bulkhead.Options{Limit: 1}))
	asked := 0
	resp, err := get(t, must(New(Options{
		Chain: Chain{Bulkhead: places},
		Retry: &retry.Options{Attempts: 1},
		Classify: func(*http.Response, error, time.Time) retry.Classification {
			asked++
			return retry.Classification{Retry: true}
		},
		Base: answers(503),
	})))
	if err != nil || places.Usage().InUse != 1 || asked != 1 {
		t.Errorf("%v, %+v, classified %d times", err, places.Usage(), asked)
	}
	resp.Body.Close()
	if u := places.Usage(); u.InUse != 0 {
		t.Errorf("%+v", u)
	}
}

// closing is a body that records whether it was closed.
type closing struct {
	io.Reader

	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

// panicking is an observer that panics at one kind of event: at its start, or at its end.
type panicking struct {
	kind    stint.EventKind
	atStart bool
}

func (p panicking) Start(ctx context.Context, e stint.Event) context.Context {
	if e.Kind == p.kind && p.atStart {
		panic("observer")
	}
	return ctx
}

func (p panicking) Observe(_ context.Context, e stint.Event) {
	if e.Kind == p.kind {
		panic("observer")
	}
}

// Whichever function panics, no place, no probe and no response body is lost.
func TestPanicsLoseNothing(t *testing.T) {
	for name, with := range map[string]func(*Options){
		"base":    func(o *Options) { o.Base = trip(func(*http.Request) (*http.Response, error) { panic("base") }) },
		"key":     func(o *Options) { o.Key = func(*http.Request) string { panic("key") } },
		"outcome": func(o *Options) { o.Outcome = func(*http.Response, error) breaker.Outcome { panic("outcome") } },
		"classify": func(o *Options) {
			o.Classify = func(*http.Response, error, time.Time) retry.Classification { panic("classify") }
		},
		"repeatable":          func(o *Options) { o.Repeatable = func(*http.Request) bool { panic("repeatable") } },
		"observerOfAttempt":   func(o *Options) { o.Observer = panicking{kind: stint.EventAttempt} },
		"observerOfStep":      func(o *Options) { o.Observer = panicking{kind: stint.EventRetry} },
		"observerOfEnding":    func(o *Options) { o.Observer = panicking{kind: stint.EventRequest} },
		"observerOfBeginning": func(o *Options) { o.Observer = panicking{stint.EventAttempt, true} },
	} {
		t.Run(name, func(t *testing.T) {
			places, probed := must(bulkhead.New(bulkhead.Options{Limit: 1})), halfOpen()
			body := &closing{Reader: strings.NewReader("an answer")}
			o := Options{
				Chain: Chain{Bulkhead: places, Breaker: probed}, Timeout: time.Hour, Retry: &retry.Options{Base: time.Microsecond},
				Base: trip(func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: 503, Body: body}, nil }),
			}
			with(&o)
			var over func() error
			if base := o.Base; name != "base" {
				o.Base = trip(func(r *http.Request) (*http.Response, error) { over = r.Context().Err; return base.RoundTrip(r) })
			}
			if !panics(func() { _, _ = get(t, must(New(o))) }) {
				t.Error("nothing panicked")
			}
			if over != nil && over() == nil {
				t.Error("the context of the whole call was not canceled")
			}
			if _, ok := probed.Begin(); probed.State() == breaker.HalfOpen && !ok {
				t.Error("the probe is lost")
			}
			if u := places.Usage(); u.InUse != 0 || !body.closed && name != "base" && name != "key" && name != "observerOfBeginning" {
				t.Errorf("%+v, body closed: %v", u, body.closed)
			}
		})
	}
}

// halfOpen returns a breaker that lets its one probe through.
func halfOpen() *breaker.Breaker {
	var now time.Duration
	b := must(breaker.New(breaker.Options{ConsecutiveFailures: 1, OpenFor: time.Hour, Clock: func() time.Time { return time.Unix(0, int64(now)) }}))
	c, _ := b.Begin()
	c.Failure()
	now += time.Hour
	return b
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// A Base that breaks its contract by returning neither a response nor an error causes a specific
// error.
func TestBaseThatAnswersNothing(t *testing.T) {
	places := must(bulkhead.New(bulkhead.Options{Limit: 1}))
	rt := must(New(Options{Chain: Chain{Bulkhead: places}, Base: trip(func(*http.Request) (*http.Response, error) { return nil, nil })})) //nolint:nilnil // returning nothing is the point of the test
	if _, err := get(t, rt); err == nil || places.Usage().InUse != 0 {
		t.Errorf("%v, %+v", err, places.Usage())
	}
}

// A response whose body the caller does not close holds its place until the context ends,
// unless its body is empty.
func TestUnclosedBodiesReleaseTheirPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		places := must(bulkhead.New(bulkhead.Options{Limit: 3}))
		send := func(status int, body io.ReadCloser) {
			_, err := get(t, must(New(Options{Chain: Chain{Bulkhead: places}, Timeout: time.Second, Base: trip(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: status, Body: body}, nil
			})})))
			if err != nil {
				t.Error(err)
			}
		}
		held := func() int { synctest.Wait(); return places.Usage().InUse }
		if send(204, http.NoBody); held() != 0 {
			t.Error("a response without a body holds a place")
		}
		send(200, &closing{Reader: strings.NewReader("an answer")})
		send(101, &closing{Reader: strings.NewReader("another protocol, that no context ends")})
		if held() != 2 {
			t.Errorf("%d places held, want 2", held())
		}
		if time.Sleep(time.Second); held() != 1 {
			t.Errorf("after the context %d places held, want that of the other protocol", held())
		}
	})
}
