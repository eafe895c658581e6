package adaptive

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// tally is a gate that records the outcomes of calls.
type tally struct {
	*Concurrency

	outcomes []Outcome
}

func (t *tally) Begin() (Call, bool) {
	c, ok := t.Concurrency.Begin()
	if ok {
		c.gate = t
	}
	return c, ok
}

func (t *tally) answer(_ Call, o Outcome) { t.outcomes = append(t.outcomes, o) }

func newTally() *tally { return &tally{Concurrency: must(New(Options{Initial: 1, Max: 1}))} }

// TestMiddleware checks the load that responses over real connections report, and that their
// places are released.
func TestMiddleware(t *testing.T) {
	for _, c := range []struct {
		name  string
		serve http.HandlerFunc
		want  Outcome
	}{
		{"silent", func(http.ResponseWriter, *http.Request) {}, Success},
		{"ok", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }, Success},
		{"ownError", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, Success},
		{"overloaded", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, Failure},
		{"tooLate", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(504) }, Failure},
		{"firstStatusCounts", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(503) }, Failure},
		{"ignored", func(w http.ResponseWriter, _ *http.Request) { Ignore(w); w.WriteHeader(503) }, Ignored},
		{"ignoredFromFar", func(w http.ResponseWriter, _ *http.Request) { Ignore(wrapped{w}) }, Ignored},
		{"ignoredTooLate", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503); Ignore(w) }, Failure},
		{"panics", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Ignored},
		{"copies", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, strings.NewReader("hello")) }, Success},
		{"flushes", func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() }, Success},
	} {
		t.Run(c.name, func(t *testing.T) {
			gate := newTally()
			server := httptest.NewServer(Middleware{Gate: gate}.Wrap(c.serve))
			if resp, err := server.Client().Get(server.URL); err == nil {
				resp.Body.Close()
			}
			server.Close() // waits for the handler
			if len(gate.outcomes) != 1 || gate.outcomes[0] != c.want || gate.Usage().InFlight != 0 {
				t.Errorf("%v, %+v, want %v", gate.outcomes, gate.Usage(), c.want)
			}
		})
	}
}

// wrapped is a ResponseWriter like those of other middleware.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestIgnoreWithoutAGate(t *testing.T) {
	w := httptest.NewRecorder()
	Ignore(wrapped{w})
	if w.WriteHeader(503); w.Code != 503 {
		t.Errorf("got %d", w.Code)
	}
}

// A client that sends its body slowly does not count as load.
func TestSlowUploadsAreNoLatency(t *testing.T) {
	now, latency := time.Duration(0), time.Duration(0)
	gate := must(New(Options{Window: 1, Clock: func() time.Time { return time.Unix(0, int64(now)) }, Algorithm: by(func(limit float64, w Window) float64 {
		latency = w.Latency
		return limit
	})}))
	handler := Middleware{Gate: gate}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now += time.Hour
		_, _ = io.ReadAll(r.Body)
		now += time.Second
		w.WriteHeader(200)
	}))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", strings.NewReader("a body")))
	if latency != time.Second {
		t.Errorf("got %v", latency)
	}
}

// Latency ends when the response begins, however it begins.
func TestLatencyEndsWithTheFirstByte(t *testing.T) {
	for name, begin := range map[string]func(w http.ResponseWriter){
		"writes":  func(w http.ResponseWriter) { _, _ = io.WriteString(w, "hello") },
		"copies":  func(w http.ResponseWriter) { _, _ = io.Copy(w, io.LimitReader(strings.NewReader("hello"), 3)) },
		"flushes": func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() },
	} {
		now, latency := time.Hour, time.Duration(0)
		gate := must(New(Options{Window: 1, Clock: func() time.Time { now++; return time.Unix(0, int64(now)) }, Algorithm: by(func(limit float64, w Window) float64 {
			latency = w.Latency
			return limit
		})}))
		Middleware{Gate: gate}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			now += time.Second
			begin(w)
			now += time.Minute
		})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		if latency.Round(time.Millisecond) != time.Second {
			t.Errorf("%s: %v", name, latency)
		}
	}
}

// always is a foreign gate, whose calls belong to no gate of this package.
type always struct{}

func (always) Begin() (Call, bool) { return Call{}, true }

func TestMiddlewareWithAGateOfOnesOwn(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", strings.NewReader("a body"))
	w := httptest.NewRecorder()
	Middleware{Gate: always{}}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })).ServeHTTP(w, r)
	if w.Body.String() != "a body" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestRefusalRoundsUp(t *testing.T) {
	for wait, want := range map[time.Duration]string{-time.Hour: "1", 0: "1", time.Second: "1", time.Second + 1: "2"} {
		w := httptest.NewRecorder()
		Refusal(wait).ServeHTTP(w, nil)
		if got := w.Header().Get("Retry-After"); got != want || !strings.Contains(w.Body.String(), `"retry_after_seconds":`+want+"}") {
			t.Errorf("%v: %s, %s", wait, got, w.Body)
		}
	}
}

func TestShedRequestsHaveARetryTime(t *testing.T) {
	gate := newTally()
	gate.Begin()
	handler := Middleware{Gate: gate}.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request was admitted") }))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if w.Code != 503 || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), `"OVERLOADED"`) || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

func TestClientsThatLeftSayNothing(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	gate := newTally()
	handler := Middleware{Gate: gate}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { leave(); w.WriteHeader(502) }))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	if len(gate.outcomes) != 1 || gate.outcomes[0] != Ignored {
		t.Errorf("%v", gate.outcomes)
	}
}

// Streams and WebSockets last for hours and hold no place meanwhile.
func TestLongConnectionsHoldNoPlace(t *testing.T) {
	for _, c := range []struct {
		name  string
		begin func(w http.ResponseWriter)
		want  int
	}{
		{"events", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			w.WriteHeader(200)
		}, 0},
		{"gRPC", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/grpc+proto")
			w.WriteHeader(200)
		}, 0},
		{"gRPCWeb", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/grpc-web-text")
			w.WriteHeader(200)
		}, 0},
		{"pictures", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "multipart/x-mixed-replace; boundary=frame")
			w.WriteHeader(200)
		}, 0},
		{"switched", func(w http.ResponseWriter) { w.WriteHeader(101) }, 0},
		{"taken", func(w http.ResponseWriter) { conn, _, _ := http.NewResponseController(w).Hijack(); conn.Close() }, 0},
		{"page", func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/html"); w.WriteHeader(200) }, 1},
	} {
		gate := newTally()
		server := httptest.NewServer(Middleware{Gate: gate}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			c.begin(w)
			if got := gate.Usage().InFlight; got != c.want {
				t.Errorf("%s: %d in flight, want %d", c.name, got, c.want)
			}
		})))
		if resp, err := server.Client().Get(server.URL); err == nil {
			resp.Body.Close()
		}
		server.Close()
		if got := gate.Usage().InFlight; got != 0 {
			t.Errorf("%s: %d in flight at the end", c.name, got)
		}
	}
}

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTransport(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int // 0: an error
		want   Outcome
	}{{"ok", 200, Success}, {"ownError", 500, Success}, {"tooMany", 429, Failure}, {"overloaded", 503, Failure}, {"noAnswer", 0, Failure}} {
		gate := newTally()
		rt := &Transport{Gate: gate, Base: trip(func(*http.Request) (*http.Response, error) {
			if c.status == 0 {
				return nil, io.EOF
			}
			return &http.Response{StatusCode: c.status, Body: http.NoBody}, nil
		})}
		resp, err := rt.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://h/", nil))
		if err == nil {
			resp.Body.Close()
		}
		if len(gate.outcomes) != 1 || gate.outcomes[0] != c.want || gate.Usage().InFlight != 0 {
			t.Errorf("%s: %v, want %v", c.name, gate.outcomes, c.want)
		}
	}
}

// A caller that gives up after the response has begun does not change its outcome.
func TestAnswerBeforeTheCallerLeft(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	gate := newTally()
	rt := &Transport{Gate: gate, Base: trip(func(*http.Request) (*http.Response, error) {
		leave()
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
	})}
	resp, err := rt.RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodGet, "http://h/", nil))
	if err == nil {
		resp.Body.Close()
	}
	if len(gate.outcomes) != 1 || gate.outcomes[0] != Failure {
		t.Errorf("%v, %v", gate.outcomes, err)
	}
}

func TestTransportThatPanicsHoldsNoPlace(t *testing.T) {
	gate := newTally()
	rt := &Transport{Gate: gate, Base: trip(func(*http.Request) (*http.Response, error) { panic("broken") })}
	func() {
		defer func() { _ = recover() }()
		_, _ = rt.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://h/", nil))
	}()
	if len(gate.outcomes) != 1 || gate.outcomes[0] != Ignored || gate.Usage().InFlight != 0 {
		t.Errorf("%v, %+v", gate.outcomes, gate.Usage())
	}
}

func TestCallerMaySayWhatIsLoad(t *testing.T) {
	gate := newTally()
	rt := &Transport{
		Gate:    gate,
		Outcome: func(*http.Response, error) Outcome { return Ignored },
		Base:    trip(func(*http.Request) (*http.Response, error) { return nil, io.EOF }),
	}
	_, _ = rt.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://h/", nil))
	if len(gate.outcomes) != 1 || gate.outcomes[0] != Ignored {
		t.Errorf("%v", gate.outcomes)
	}
}

// A caller that gives up over a real connection tells nothing about the load.
func TestTransportIgnoresCanceledCalls(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { leave(); <-r.Context().Done() }))
	defer server.Close()
	gate := newTally()
	req := must(http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil))
	_, _ = (&http.Client{Transport: &Transport{Gate: gate}}).Do(req)
	if len(gate.outcomes) != 1 || gate.outcomes[0] != Ignored || gate.Usage().InFlight != 0 {
		t.Errorf("%v, %+v", gate.outcomes, gate.Usage())
	}
}

func TestTransportSaysWhatItShed(t *testing.T) {
	gate := newTally()
	gate.Begin()
	closed := make(chan struct{})
	body := closer{strings.NewReader("a body"), closed}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "http://orders.example/", nil)
	req.Body = body
	_, err := (&Transport{Gate: gate}).RoundTrip(req)
	if !errors.Is(err, ErrRefused) || !strings.HasPrefix(err.Error(), "orders.example: ") {
		t.Errorf("got %v", err)
	}
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("the body was left open")
	}
}

type closer struct {
	io.Reader

	closed chan struct{}
}

func (c closer) Close() error { close(c.closed); return nil }
