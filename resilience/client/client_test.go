package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
	"github.com/stintdev/stint/resilience/deadline"
	"github.com/stintdev/stint/resilience/retry"
	"github.com/stintdev/stint/resilience/retrybudget"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answers returns a Base that answers with these statuses; the last one repeats.
func answers(statuses ...int) trip {
	var n atomic.Int64
	return func(*http.Request) (*http.Response, error) {
		i := min(int(n.Add(1)), len(statuses)) - 1
		return &http.Response{StatusCode: statuses[i], Header: http.Header{}, Body: io.NopCloser(strings.NewReader("an answer"))}, nil
	}
}

func get(t *testing.T, rt http.RoundTripper) (*http.Response, error) {
	t.Helper()
	return rt.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://orders.example/", nil))
}

// log is an observer that records events.
type log struct {
	mu     sync.Mutex
	events []stint.Event
}

// started is the key of the event that began in a context.
type started struct{ *log }

func (l *log) Start(ctx context.Context, e stint.Event) context.Context {
	return context.WithValue(ctx, started{l}, e)
}

// Observe checks that an event ends in the context in which it began; a refusal ends in
// that of the request, or of the attempt that it ends.
func (l *log) Observe(ctx context.Context, e stint.Event) {
	begun, ok := ctx.Value(started{l}).(stint.Event)
	if want := e.Kind != stint.EventRetry; ok != want || ok && begun.Kind != e.Kind && e.Kind != stint.EventRefusal || begun.Name != e.Name && ok {
		panic(fmt.Sprintf("%v in the context of %v", e, begun))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Took = 0
	l.events = append(l.events, e)
}

func (l *log) kinds() (all string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		all += " " + e.Kind.String() + "=" + e.Result
	}
	return all
}

func TestZeroOptionsAddNoPart(t *testing.T) {
	rt := must(New(Options{Base: answers(503)}))
	resp, err := get(t, rt)
	if err != nil || resp.StatusCode != 503 {
		t.Errorf("%v, %v", resp, err)
	}
}

func TestRequestWithoutAURLIsAnError(t *testing.T) {
	if _, err := must(New(Options{})).RoundTrip(&http.Request{Method: http.MethodGet}); err == nil {
		t.Error("it was sent")
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	_, err := New(Options{Timeout: -1, Retry: &retry.Options{Attempts: -1}})
	if err == nil || !strings.Contains(err.Error(), "Timeout") || !strings.Contains(err.Error(), "Attempts") {
		t.Errorf("got %v", err)
	}
}

// All parts together over a real connection: two failures, then a success.
func TestAllPartsOverRealConnections(t *testing.T) {
	defer nothingRunsOn(t, runtime.NumGoroutine())
	var calls atomic.Int64
	server := httptest.NewServer(deadline.Middleware{}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := r.Context().Deadline(); !ok {
			t.Error("the server did not receive the deadline")
		}
		if calls.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.Copy(w, r.Body)
	})))
	defer server.Close()
	seen, limit := &log{}, must(stint.Spec{Limit: 1000, Window: time.Second}.Compile())
	places := must(bulkhead.New(bulkhead.Options{Limit: 1, Queue: 50}))
	client := &http.Client{Transport: must(New(Options{
		Chain: Chain{
			Name: "echo", Bulkhead: places, Breaker: must(breaker.New(breaker.Options{})), Observer: seen,
			Limiter: must(stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "client", limit)),
		},
		Timeout:  10 * time.Second,
		Retry:    &retry.Options{Base: time.Millisecond, Budget: must(retrybudget.New(retrybudget.Options{}))},
		Deadline: &deadline.Transport{},
	}))}
	defer client.CloseIdleConnections()
	req := must(http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL, strings.NewReader("a body")))
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body := string(must(io.ReadAll(resp.Body)))
	resp.Body.Close()
	if body != "a body" || places.Usage().InUse != 0 {
		t.Errorf("read %q; %+v", body, places.Usage())
	}
	if got, want := seen.kinds(), " attempt=5xx retry=retry attempt=5xx retry=retry attempt=2xx request=2xx"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// nothingRunsOn waits until no more goroutines run than before.
func nothingRunsOn(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Errorf("%d goroutines, and there were %d", runtime.NumGoroutine(), before)
			return
		}
	}
}

// No place is lost when some of many callers leave.
func TestNoPlaceIsLost(t *testing.T) {
	defer nothingRunsOn(t, runtime.NumGoroutine())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fails" {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write([]byte("hello"))
	}))
	defer server.Close()
	places := must(bulkhead.New(bulkhead.Options{Limit: 4, Queue: 100}))
	client := &http.Client{Transport: must(New(Options{Chain: Chain{Bulkhead: places}, Retry: &retry.Options{Base: time.Microsecond}}))}
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			path := [...]string{"/", "/fails", "/leaves"}[i%3]
			if path == "/leaves" {
				time.AfterFunc(time.Duration(i)*100*time.Microsecond, cancel)
			}
			resp, err := client.Do(must(http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)))
			if err != nil {
				return
			}
			if i%2 == 0 {
				_, _ = io.Copy(io.Discard, resp.Body)
			}
			resp.Body.Close()
		})
	}
	wg.Wait()
	for end := time.Now().Add(10 * time.Second); places.Usage().InUse > 0; runtime.Gosched() { // the place of a context that ends is released concurrently
		if time.Now().After(end) {
			t.Fatalf("%+v", places.Usage())
		}
	}
	if u := places.Usage(); u.Waiting != 0 {
		t.Errorf("%+v", u)
	}
}

// Each part's refusal has its error, and is not retried.
func TestRefusals(t *testing.T) {
	full := must(bulkhead.New(bulkhead.Options{Limit: 1}))
	must(full.Acquire(t.Context()))
	open := must(breaker.New(breaker.Options{}))
	open.ForceOpen()
	for _, c := range []struct {
		name   string
		o      Options
		part   Part
		target any
	}{
		{"bulkhead", Options{Chain: Chain{Bulkhead: full}}, PartBulkhead, new(*bulkhead.RefusedError)},
		{"breaker", Options{Chain: Chain{Breaker: open}}, PartBreaker, new(*breaker.RefusedError)},
		{"limiter", Options{Chain: Chain{Limiter: never{}}}, PartLimiter, new(*stint.Error)},
		{"deadline", Options{Timeout: time.Second, Deadline: &deadline.Transport{Reserve: time.Hour}}, PartDeadline, new(*deadline.RefusedError)},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := &log{}
			earned := must(retrybudget.New(retrybudget.Options{}))
			c.o.Name, c.o.Observer, c.o.Retry = "orders", seen, &retry.Options{Budget: earned}
			c.o.Base = trip(func(*http.Request) (*http.Response, error) { t.Error("sent"); return nil, io.EOF })
			_, err := (&http.Client{Transport: must(New(c.o))}).Get("http://orders.example/")
			var refused *RefusedError
			if !errors.As(err, &refused) || refused.Part != c.part || refused.Name != "orders" || !errors.As(err, c.target) {
				t.Errorf("got %v", err)
			}
			if u := earned.Usage(); u.Requests != 0 || u.Retries != 0 {
				t.Errorf("a request that was not sent earned retries: %+v", u)
			}
			if retry.Classify(err).Retry || retry.NetworkError(err) {
				t.Error("a retry around the client would repeat it")
			}
			if want := " refusal=" + c.name + " retry=not_to_be_repeated request=refused"; seen.kinds() != want {
				t.Errorf("got %s, want %s", seen.kinds(), want)
			}
		})
	}
}

type never struct{}

func (never) Wait(context.Context, string) error {
	return &stint.Error{Code: stint.CodeTimeout, Problem: "no turn", Err: context.DeadlineExceeded}
}

// If a breaker opens between two attempts, the error contains both errors.
func TestRefusalTellsWhatCameBefore(t *testing.T) {
	b, granted := must(breaker.New(breaker.Options{ConsecutiveFailures: 1})), must(retrybudget.New(retrybudget.Options{}))
	_, err := get(t, must(New(Options{Chain: Chain{Name: "orders", Breaker: b}, Retry: &retry.Options{Base: time.Microsecond, Budget: granted}, Base: answers(503)})))
	var refused *RefusedError
	var before *StatusError
	if !errors.As(err, &refused) || !errors.As(refused.Before, &before) || before.Status != 503 {
		t.Fatalf("got %v", err)
	}
	if u := granted.Usage(); u.Requests != 1 || u.Retries != 0 {
		t.Errorf("a retry that was not sent was charged to the budget: %+v", u)
	}
	if text := err.Error(); !strings.HasPrefix(text, "orders: not sent: circuit breaker is open") || !strings.HasSuffix(text, "(the attempt before: 503 Service Unavailable)") {
		t.Errorf("got %s", text)
	}
}

// With an empty budget the response is returned unchanged.
func TestBudgetKeepsTheAnswer(t *testing.T) {
	none := must(retrybudget.New(retrybudget.Options{PerSecond: retrybudget.NoShare}))
	resp, err := get(t, must(New(Options{Retry: &retry.Options{Budget: none}, Base: answers(503)})))
	if err != nil || resp.StatusCode != 503 || string(must(io.ReadAll(resp.Body))) != "an answer" {
		t.Errorf("%v, %v", resp, err)
	}
}

// A call that waits for a retry holds no place, and no probe is lost when its caller
// gives up.
func TestWaitingHoldsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		places := must(bulkhead.New(bulkhead.Options{Limit: 1}))
		rt := must(New(Options{
			Chain: Chain{Bulkhead: places},
			Retry: &retry.Options{Jitter: retry.None, Base: time.Second},
			Base:  answers(503, 200),
		}))
		go func() { time.Sleep(500 * time.Millisecond); must(places.Acquire(t.Context())).Release() }()
		resp, err := get(t, rt)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v, %v", resp, err)
		}
		if u := places.Usage(); u.InUse != 1 || u.Full != 0 {
			t.Errorf("a response that has been read holds its place: %+v", u)
		}
		_ = must(io.ReadAll(resp.Body))
		if u := places.Usage(); u.InUse != 0 {
			t.Errorf("%+v", u)
		}
	})
}

func TestBreakerDoesNotCountCanceledCalls(t *testing.T) {
	b := must(breaker.New(breaker.Options{}))
	ctx, cancel := context.WithCancel(t.Context())
	rt := must(New(Options{Chain: Chain{Breaker: b}, Base: trip(func(*http.Request) (*http.Response, error) { cancel(); return nil, context.Canceled })}))
	if _, err := rt.RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodGet, "http://h/", nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if c := b.Counts(); c.Calls != 0 {
		t.Errorf("%+v", c)
	}
}

// The wait for a turn does not make the dependency slow.
func TestBreakerDoesNotTimeTheWaitForATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := must(breaker.New(breaker.Options{SlowAfter: 100 * time.Millisecond, SlowRatio: 1}))
		rt := must(New(Options{Chain: Chain{Breaker: b, Limiter: turn(time.Second)}, Base: answers(200)}))
		if _, err := get(t, rt); err != nil {
			t.Fatal(err)
		}
		if c := b.Counts(); c != (breaker.Counts{Calls: 1}) {
			t.Errorf("%+v", c)
		}
	})
}

// turn is a limiter whose turns come after a fixed time.
type turn time.Duration

func (d turn) Wait(context.Context, string) error { time.Sleep(time.Duration(d)); return nil }

// A leaky bucket in the client shapes the traffic that it sends.
func TestStintShapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := must(stint.Spec{Algorithm: stint.LeakyBucket, Limit: 10, Window: time.Second, Queue: 100}.Compile())
		start := time.Now()
		var mu sync.Mutex
		var sent []time.Duration
		rt := must(New(Options{
			Chain: Chain{Limiter: must(stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "client", limit))},
			Base: trip(func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				sent = append(sent, time.Since(start))
				return answers(200)(r)
			}),
		}))
		for range 4 {
			go func() { _, _ = get(t, rt) }()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for i, at := range sent {
			if want := time.Duration(i) * 100 * time.Millisecond; at.Round(time.Millisecond) != want {
				t.Errorf("request %d was sent at %v, want %v", i, at, want)
			}
		}
		if len(sent) != 4 {
			t.Errorf("%d sent", len(sent))
		}
	})
}

// A connection that changes its protocol can still be written to.
func TestUpgradedConnectionsStayWritable(t *testing.T) {
	places := must(bulkhead.New(bulkhead.Options{Limit: 1}))
	one, other := io.Pipe()
	rt := must(New(Options{Chain: Chain{Bulkhead: places}, Base: trip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 101, Body: struct {
			io.ReadCloser
			io.Writer
		}{one, other}}, nil
	})}))
	resp, err := get(t, rt)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := resp.Body.(io.Writer); !ok || places.Usage().InUse != 1 {
		t.Errorf("%T, %+v", resp.Body, places.Usage())
	}
	resp.Body.Close()
	if places.Usage().InUse != 0 {
		t.Errorf("%+v", places.Usage())
	}
}

func TestTimeoutBoundsTheWholeCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		rt := must(New(Options{Timeout: time.Second, Retry: &retry.Options{Attempts: 100, Jitter: retry.None}, Base: answers(503)}))
		resp, err := get(t, rt)
		if err != nil || resp.StatusCode != 503 || time.Since(start) != 700*time.Millisecond {
			t.Errorf("%v, %v after %v", resp, err, time.Since(start))
		}
		resp.Body.Close()
	})
}
