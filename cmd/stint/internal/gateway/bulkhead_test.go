package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/stintdev/stint/resilience/bulkhead"
)

// held is an upstream whose requests for /held wait until they are released.
func held(t *testing.T) (target string, arrived, release chan struct{}) {
	t.Helper()
	arrived, release = make(chan struct{}, 100), make(chan struct{})
	s := serve(t, http1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			fallthrough
		case "/held":
			arrived <- struct{}{}
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
	}))
	return s.URL, arrived, release
}

func at(ctx context.Context, g http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	g.ServeHTTP(w, r)
	return w
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

func TestBulkheadBoundsTheRequestsInFlight(t *testing.T) {
	target, arrived, release := held(t)
	g := newGuarded(t, GroupOptions{Servers: servers(urlOf(t, target)), Bulkhead: &bulkhead.Options{Limit: 2, Queue: 1, MaxWait: patience}})
	results := make(chan int, 3)
	ask := func() { results <- at(bounded(t), g, "/held").Code }
	go ask()
	go ask()
	<-arrived
	<-arrived
	go ask()
	places := g.groups[0].bulkhead
	until(t, "a request waits", func() bool { return places.Usage().Waiting == 1 })
	w := at(bounded(t), g, "/held")
	if w.Code != http.StatusServiceUnavailable || errorCode(t, w.Body.String()) != "OVERLOADED" || w.Header().Get("Retry-After") != "1" {
		t.Errorf("with a full queue: got %d %v %s", w.Code, w.Header(), w.Body)
	}
	close(release)
	for range 3 {
		if code := <-results; code != http.StatusOK {
			t.Errorf("a request with a place got %d", code)
		}
	}
	if u := places.Usage(); u.InUse != 0 || u.MaxInUse != 2 || u.Full != 1 {
		t.Errorf("usage: %+v", u)
	}
}

func TestBulkheadBoundsTheWait(t *testing.T) {
	target, arrived, _ := held(t)
	g := newGuarded(t, GroupOptions{Servers: servers(urlOf(t, target)), Bulkhead: &bulkhead.Options{Limit: 1, Queue: 10, MaxWait: 20 * time.Millisecond}})
	ctx, leave := context.WithCancel(bounded(t))
	first := make(chan struct{})
	go func() { defer close(first); at(ctx, g, "/held") }()
	<-arrived
	if w := at(bounded(t), g, "/"); w.Code != http.StatusServiceUnavailable || errorCode(t, w.Body.String()) != "OVERLOADED" {
		t.Errorf("after the wait: got %d %s", w.Code, w.Body)
	}
	if w := at(bounded(t), g, "/", "X-Deadline-Ms", "5"); w.Code != http.StatusGatewayTimeout && w.Code != http.StatusServiceUnavailable {
		t.Errorf("a deadline in the queue: got %d", w.Code)
	}
	leave()
	<-first
	if w := at(bounded(t), g, "/"); w.Code != http.StatusOK {
		t.Errorf("after the client left: got %d", w.Code)
	}
	if u := g.groups[0].bulkhead.Usage(); u.InUse != 0 || u.Waiting != 0 {
		t.Errorf("usage: %+v", u)
	}
}

// A stream that has begun may last as long as its client stays, so it frees its place.
func TestStreamsHoldNoPlace(t *testing.T) {
	target, arrived, _ := held(t)
	g := newGuarded(t, GroupOptions{Servers: servers(urlOf(t, target)), Bulkhead: &bulkhead.Options{Limit: 1}})
	front := serve(t, http1, g)
	r, _ := http.NewRequestWithContext(bounded(t), http.MethodGet, front.URL+"/events", http.NoBody)
	res, err := clientOf(t, http1, front).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	<-arrived
	until(t, "the place is free", func() bool { return g.groups[0].bulkhead.Usage().InUse == 0 })
	if w := at(bounded(t), g, "/"); w.Code != http.StatusOK {
		t.Errorf("got %d while a stream lasts", w.Code)
	}
}

func TestInvalidResilienceIsRefused(t *testing.T) {
	for want, o := range map[string]GroupOptions{
		"bulkhead: limit: 0 is out of range (use 1 to 100000)":                      {Bulkhead: &bulkhead.Options{}},
		"retry: attempts: 9 is out of range (use 2 to 5)":                           {Retry: &RetryOptions{Attempts: 9}},
		`retry: on: "timeout" is not known (use connect, reset, 502, 503 or 504)`:   {Retry: &RetryOptions{On: []string{"timeout"}}},
		"retry: budget: 2 is out of range (use a share above 0, at most 1)":         {Retry: &RetryOptions{Budget: 2}},
		"ejection: failures: -1 is out of range (use 1 to 1000000)":                 {Ejection: &EjectionOptions{Failures: -1}},
		"ejection: max_share: 2 is out of range (use a share above 0, at most 1)":   {Ejection: &EjectionOptions{MaxShare: 2}},
		"panic_below: 1.5 is out of range (use a share above 0, at most 1, or off)": {PanicBelow: 1.5},
	} {
		o.Servers = servers(urlOf(t, "http://127.0.0.1:1"))
		if _, err := New(Options{Groups: []GroupOptions{o}}); err == nil || err.Error() != `gateway: group "default": `+want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
