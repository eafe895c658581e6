package stintprom

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/resilience/retry"
	"github.com/stintdev/stint/resilience/retrybudget"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// page returns the result of a scrape, from a pedantic registry.
func page(t *testing.T, m *Metrics) string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(m); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// The metrics of a real client with a real server: its events and the state of its parts.
func TestMetricsOfAClient(t *testing.T) {
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	m := New()
	parts := client.Chain{
		Name: "orders", Observer: m,
		Bulkhead: must(bulkhead.New(bulkhead.Options{Limit: 3})),
		Breaker:  must(breaker.New(breaker.Options{})),
	}
	retries := must(retrybudget.New(retrybudget.Options{}))
	check(t, m.WatchClient(parts, retries))
	c := &http.Client{Transport: must(client.New(client.Options{Chain: parts, Retry: &retry.Options{Base: time.Millisecond, Budget: retries}}))}
	defer c.CloseIdleConnections()
	get := func() {
		resp, err := c.Get(server.URL)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	get()
	parts.Breaker.ForceOpen()
	get()
	got := page(t, m)
	for _, want := range []string{
		`stint_client_attempts_total{dependency="orders",result="2xx"} 1`,
		`stint_client_attempts_total{dependency="orders",result="5xx"} 1`,
		`stint_client_retries_total{decision="retry",dependency="orders"} 1`,
		`stint_client_retries_total{decision="not_to_be_repeated",dependency="orders"} 1`,
		`stint_client_refused_total{dependency="orders",part="breaker"} 1`,
		`stint_client_calls_total{dependency="orders",result="2xx"} 1`,
		`stint_client_calls_total{dependency="orders",result="refused"} 1`,
		`stint_client_call_duration_seconds_count{dependency="orders"} 2`,
		`stint_client_breaker_state{dependency="orders",state="forced_open"} 1`,
		`stint_client_breaker_state{dependency="orders",state="closed"} 0`,
		`stint_client_bulkhead_limit{dependency="orders"} 3`,
		`stint_client_bulkhead_in_use{dependency="orders"} 0`,
		`stint_client_bulkhead_waiting{dependency="orders"} 0`,
		`stint_client_budget_left{dependency="orders"} 9`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("missing: %s", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

// decide has a chain's retry policy come to a decision for the given reason.
func decide(t *testing.T, chain *client.Chain, why retry.Stop) {
	t.Helper()
	o := retry.Options{Base: time.Microsecond, Jitter: retry.None, Attempts: 2, Classify: func(error) retry.Classification { return retry.Classification{Retry: true} }}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := func(context.Context) error { return errors.New("down") }
	switch why {
	case retry.Continue:
		answers := []error{errors.New("down"), nil}
		f = func(context.Context) error { err := answers[0]; answers = answers[1:]; return err }
	case retry.StopNotRetryable:
		o.Classify = func(error) retry.Classification { return retry.Classification{} }
	case retry.StopAttempts:
		o.Attempts = 1
	case retry.StopContext:
		f = func(context.Context) error { cancel(); return errors.New("down") }
	case retry.StopDeadline:
		o.Base, o.TotalTime = time.Hour, time.Minute
	case retry.StopRetryAfter:
		o.MaxRetryAfter = time.Second
		o.Classify = func(error) retry.Classification { return retry.Classification{Retry: true, After: time.Hour} }
	case retry.StopBudget:
		o.Budget = empty{}
	}
	_ = must(chain.RetryPolicy(o)).Do(ctx, f)
}

// empty is a budget without retries.
type empty struct{}

func (empty) Request()    {}
func (empty) Retry() bool { return false }
func (empty) Refund()     {}

// The labels are part of the contract with dashboards; they are made from the texts of
// the reasons.
func TestEveryDecisionHasALabel(t *testing.T) {
	m := New()
	labels := []string{"retry", "not_to_be_repeated", "attempts_used_up", "context_ended", "deadline_too_near", "asked_to_wait_too_long", "budget_used_up"}
	chain := client.Chain{Observer: m}
	for stop := retry.Continue; stop <= retry.StopBudget; stop++ {
		decide(t, &chain, stop)
	}
	got := page(t, m)
	for _, label := range labels {
		if want := `stint_client_retries_total{decision="` + label + `",dependency=""} 1`; !strings.Contains(got, want+"\n") {
			t.Errorf("missing: %s", want)
		}
	}
	if strings.Count(got, "stint_client_retries_total{") != len(labels) {
		t.Error(got)
	}
}

func TestPartsThatAreMissingAreNotShown(t *testing.T) {
	m := New()
	check(t, m.WatchClient(client.Chain{Name: "bare"}, nil))
	if got := page(t, m); strings.Contains(got, "bare") {
		t.Error(got)
	}
}

func TestNamesOfAnyBytesAreShown(t *testing.T) {
	m := New()
	check(t, m.WatchClient(client.Chain{Name: "a\xff", Breaker: must(breaker.New(breaker.Options{}))}, nil))
	m.Observe(t.Context(), stint.Event{Kind: stint.EventAttempt, Name: "a\xff", Result: "2xx"})
	for _, want := range []string{"stint_client_attempts_total{dependency=\"a\uFFFD\",", "stint_client_breaker_state{dependency=\"a\uFFFD\","} {
		if got := page(t, m); !strings.Contains(got, want) {
			t.Errorf("missing: %s\n%s", want, got)
		}
	}
}

// A scrape shows the current state of the parts.
func TestPartsShowAsTheyAre(t *testing.T) {
	var now time.Duration
	parts := client.Chain{
		Name:     "orders",
		Bulkhead: must(bulkhead.New(bulkhead.Options{Limit: 1, Queue: 1})),
		Breaker:  must(breaker.New(breaker.Options{ConsecutiveFailures: 1, OpenFor: time.Second, Clock: func() time.Time { return time.Unix(0, int64(now)) }})),
	}
	m := New()
	check(t, m.WatchClient(parts, nil))
	place := must(parts.Bulkhead.Acquire(t.Context()))
	served := make(chan error, 1)
	go func() { served <- parts.Bulkhead.Do(t.Context(), func(context.Context) error { return nil }) }()
	for end := time.Now().Add(10 * time.Second); parts.Bulkhead.Usage().Waiting == 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("no caller waits")
		}
	}
	failed, _ := parts.Breaker.Begin()
	failed.Failure()
	now += time.Second
	parts.Breaker.Begin()
	m.Observe(t.Context(), stint.Event{Kind: stint.EventRequest, Name: "orders", Result: "2xx", Took: 1500 * time.Millisecond})
	got := page(t, m)
	for _, want := range []string{
		`stint_client_bulkhead_in_use{dependency="orders"} 1`,
		`stint_client_bulkhead_waiting{dependency="orders"} 1`,
		`stint_client_breaker_state{dependency="orders",state="half_open"} 1`,
		`stint_client_call_duration_seconds_sum{dependency="orders"} 1.5`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("missing: %s\n%s", want, got)
		}
	}
	place.Release()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// Clients are added, work and are scraped at the same time.
func TestEverythingAtOnce(t *testing.T) {
	m := New()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for kind := stint.EventDecision; kind <= stint.EventRetry; kind++ {
				check(t, m.WatchClient(client.Chain{Name: string(rune('a' + i)), Breaker: must(breaker.New(breaker.Options{}))}, nil))
				check(t, m.WatchStore(string(rune('a'+i)), stint.NewMemory(stint.MemoryOptions{})))
				m.Observe(t.Context(), stint.Event{Kind: kind, Name: "orders", Result: "2xx"})
				page(t, m)
			}
		})
	}
	wg.Wait()
	if got := page(t, m); strings.Count(got, `state="closed"} 1`) != 4 || !strings.Contains(got, `stint_client_calls_total{dependency="orders",result="2xx"} 4`) {
		t.Error(got)
	}
}
