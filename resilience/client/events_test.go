package client

import (
	"context"
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/retry"
)

// all is an observer that keeps whole events.
type all struct{ events []stint.Event }

func (a *all) Start(ctx context.Context, _ stint.Event) context.Context { return ctx }

func (a *all) Observe(_ context.Context, e stint.Event) { a.events = append(a.events, e) }

// Each attempt, decision and call has an event with its number and its duration.
func TestEventsTellWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps []retry.Step
		seen, slow := &all{}, answers(503, 200)
		resp, err := get(t, must(New(Options{
			Chain: Chain{Name: "orders", Observer: seen},
			Retry: &retry.Options{Jitter: retry.None, Base: time.Minute, Observe: func(s retry.Step) { steps = append(steps, s) }},
			Base:  trip(func(r *http.Request) (*http.Response, error) { time.Sleep(time.Second); return slow(r) }),
		})))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		step := retry.Step{Attempt: 1, Wait: time.Minute, Status: 503}
		want := []stint.Event{
			{Kind: stint.EventAttempt, Name: "orders", Attempt: 1, Took: time.Second, Result: "5xx"},
			{Kind: stint.EventRetry, Name: "orders", Attempt: 1, Took: time.Minute, Result: "retry"},
			{Kind: stint.EventAttempt, Name: "orders", Attempt: 2, Took: time.Second, Result: "2xx"},
			{Kind: stint.EventRequest, Name: "orders", Attempt: 2, Took: time.Minute + 2*time.Second, Result: "2xx"},
		}
		if !slices.Equal(seen.events, want) || !slices.Equal(steps, []retry.Step{step}) {
			t.Errorf("got\n%+v\nwant\n%+v\nsteps %+v", seen.events, want, steps)
		}
	})
}

// A refusal has the number of its attempt and the error of the attempt before.
func TestRefusalHasItsNumber(t *testing.T) {
	seen, b := &all{}, must(breaker.New(breaker.Options{ConsecutiveFailures: 1}))
	_, err := get(t, must(New(Options{
		Chain: Chain{Name: "orders", Breaker: b, Observer: seen},
		Retry: &retry.Options{Base: time.Microsecond},
		Base:  trip(func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }),
	})))
	refusals := slices.DeleteFunc(seen.events, func(e stint.Event) bool { return e.Kind != stint.EventRefusal })
	if len(refusals) != 1 {
		t.Fatalf("%v; got %+v", err, refusals)
	}
	got := refusals[0]
	if refused, ok := got.Err.(*RefusedError); !ok || got.Attempt != 2 || refused.Part != PartBreaker || got.Result != "breaker" || refused.Before != io.ErrUnexpectedEOF { //nolint:errorlint // the events have the original errors
		t.Errorf("got %+v", got)
	}
}
