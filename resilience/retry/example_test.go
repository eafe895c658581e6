package retry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/stintdev/stint/resilience/deadline"
	"github.com/stintdev/stint/resilience/retry"
	"github.com/stintdev/stint/resilience/retrybudget"
)

// A client that waits as long as the server asks, repeats at most a tenth of its
// requests, and does not repeat a POST by itself.
func ExampleTransport() {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls == 1 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()

	retries, err := retrybudget.New(retrybudget.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	policy, err := retry.New(retry.Options{Base: time.Millisecond, Budget: retries})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &retry.Transport{Policy: policy}}
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, "after", calls, "calls")
	// Output: 200 after 2 calls
}

// Ten seconds for a call and its retries; each attempt sends the server the time that is
// left.
func ExampleTransport_deadline() {
	server := httptest.NewServer(deadline.Middleware{}.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		left, ok := deadline.Left(r.Header, "")
		fmt.Println(ok, left <= 10*time.Second)
	})))
	defer server.Close()

	client := &http.Client{
		Timeout:   10 * time.Second,
		Transport: &retry.Transport{Base: &deadline.Transport{}},
	}
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	// Output: true true
}

// Any call can be retried. It can report that a retry would not help, or the least wait
// before one.
func ExampleDo() {
	policy, err := retry.New(retry.Options{Attempts: 5, Base: time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	calls := 0
	id, err := retry.Do(context.Background(), policy, func(context.Context) (int, error) {
		switch calls++; calls {
		case 1:
			return 0, errors.New("connection lost")
		case 2:
			return 0, retry.After(errors.New("busy"), 2*time.Millisecond)
		}
		return 42, retry.Permanent(errors.New("no such order"))
	})
	fmt.Println(id, err, calls)
	// Output: 42 no such order 3
}

// A policy that reports its decisions, and waits in virtual time.
func ExampleNew() {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	policy, err := retry.New(retry.Options{
		Jitter:  retry.None,
		Observe: func(s retry.Step) { fmt.Println("attempt", s.Attempt, "failed:", s.Stop, s.Wait) },
		Clock:   func() time.Time { return now },
		Sleep: func(ctx context.Context, d time.Duration) error {
			now = now.Add(d)
			return ctx.Err()
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = policy.Do(context.Background(), func(context.Context) error { return errors.New("connection lost") })
	fmt.Println(err)
	// Output:
	// attempt 1 failed: retry 100ms
	// attempt 2 failed: retry 200ms
	// attempt 3 failed: attempts used up 0s
	// connection lost
}

// The computation of waits alone: without jitter the waits double up to the cap.
func ExampleBackoff() {
	b := retry.Backoff{Base: 100 * time.Millisecond, Cap: time.Second, Jitter: retry.None}
	for n := range 5 {
		fmt.Print(b.Wait(n, 0, nil), " ")
	}
	fmt.Println()
	// Output: 100ms 200ms 400ms 800ms 1s
}

// A gRPC server asks for a wait, or for no retry.
func ExampleParsePushback() {
	fmt.Println(retry.ParsePushback("1500"))
	fmt.Println(retry.ParsePushback("-1"))
	// Output:
	// 1.5s true
	// 0s false
}
