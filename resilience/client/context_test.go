package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/retry"
)

func getIn(ctx context.Context, rt http.RoundTripper) (*http.Response, error) {
	return rt.RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodGet, "http://orders.example/", nil))
}

// A call whose context has ended sends nothing and does not count against the dependency.
func TestNothingIsSentInAContextThatHasEnded(t *testing.T) {
	b, seen := must(breaker.New(breaker.Options{ConsecutiveFailures: 1})), &log{}
	rt := must(New(Options{Chain: Chain{Breaker: b, Observer: seen}, Retry: &retry.Options{}, Base: trip(func(r *http.Request) (*http.Response, error) {
		t.Error("sent")
		return nil, r.Context().Err()
	})}))
	past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, err := getIn(past, rt); !errors.Is(err, context.DeadlineExceeded) || b.State() != breaker.Closed {
		t.Errorf("%v, %v", err, b.State())
	}
	if want := " retry=context_ended request=timeout"; seen.kinds() != want {
		t.Errorf("got %s, want %s", seen.kinds(), want)
	}
}

// A caller that leaves while it waits for its turn is not reported as refused.
func TestWaitForATurnEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, seen := must(stint.Spec{Algorithm: stint.LeakyBucket, Limit: 1, Window: time.Hour, Queue: 10}.Compile()), &log{}
		limiter := must(stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "client", limit))
		rt := must(New(Options{Chain: Chain{Limiter: limiter, Observer: seen}, Base: answers(200)}))
		must(get(t, rt)).Body.Close()
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, leave)
		var refused *RefusedError
		if _, err := getIn(ctx, rt); !errors.Is(err, context.Canceled) || errors.As(err, &refused) {
			t.Errorf("got %v", err)
		}
		if want := " attempt=2xx request=2xx request=canceled"; seen.kinds() != want {
			t.Errorf("got %s, want %s", seen.kinds(), want)
		}
	})
}

// Base returns the cause of a context that ended; the result is canceled nevertheless.
func TestLeavingWithACauseIsCanceled(t *testing.T) {
	cause, seen := errors.New("mine"), &log{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	ctx, leave := context.WithCancelCause(t.Context())
	rt := must(New(Options{Chain: Chain{Observer: seen}, Base: trip(func(r *http.Request) (*http.Response, error) {
		time.AfterFunc(time.Millisecond, func() { leave(cause) })
		return http.DefaultTransport.RoundTrip(r)
	})}))
	req := must(http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody))
	resp, err := rt.RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	if want := " attempt=canceled request=canceled"; !errors.Is(err, cause) || seen.kinds() != want {
		t.Errorf("%v; got %s, want %s", err, seen.kinds(), want)
	}
}

// Whichever deadline ends the call, the result is a timeout.
func TestTimeoutsShow(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	const short = 5 * time.Millisecond
	for name, c := range map[string]struct {
		o      Options
		client http.Client
	}{
		"total":         {Options{Timeout: short}, http.Client{}},
		"clientTimeout": {Options{}, http.Client{Timeout: short}},
		"base":          {Options{Base: &http.Transport{ResponseHeaderTimeout: short}}, http.Client{}},
	} {
		seen := &log{}
		c.o.Observer = seen
		c.client.Transport = must(New(c.o))
		resp, err := c.client.Do(must(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)))
		if err == nil {
			resp.Body.Close()
		}
		// On a busy machine the time may be over before anything is sent.
		if got := seen.kinds(); got != " attempt=timeout request=timeout" && got != " request=timeout" {
			t.Errorf("%s: %v; got %s", name, err, got)
		}
	}
	seen := &log{}
	_, _ = get(t, must(New(Options{Chain: Chain{Observer: seen}, Base: trip(func(*http.Request) (*http.Response, error) { return nil, io.EOF })})))
	if want := " attempt=error request=error"; seen.kinds() != want {
		t.Errorf("broken off: got %s, want %s", seen.kinds(), want)
	}
}
