package httplimit

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
)

// answers gives every request the same answer.
type answers struct {
	answer Answer
	err    error
}

func (a answers) Decide(context.Context, *Request) (Answer, error) { return a.answer, a.err }

// pass is an answer without any limit.
func pass() Answer { return Answer{Decision: stint.Decision{Allowed: true}, Binding: -1} }

// fixed returns a limiter of two a minute whose clock is fixed at testNow.
func fixed(t testing.TB, specs ...stint.Spec) *stint.Limiter {
	t.Helper()
	store := stint.NewMemory(stint.MemoryOptions{Clock: func() time.Time { return testNow }})
	if len(specs) == 0 {
		specs = []stint.Spec{{Limit: 2, Window: time.Minute}}
	}
	var limits []stint.Limit
	for _, s := range specs {
		limits = append(limits, compile(t, s))
	}
	return over(t, store, limits...)
}

// over is a limiter, named orders.
func over(t testing.TB, store stint.Store, limits ...stint.Limit) *stint.Limiter {
	t.Helper()
	limiter, err := stint.NewLimiter(store, "orders", limits...)
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

// serve starts a real server, with TLS for HTTP/2.
func serve(t *testing.T, http2 bool, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	if s.EnableHTTP2 = http2; http2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, s *httptest.Server) *http.Response {
	t.Helper()
	response, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func TestRequestsOverTheLimitDoNotReachTheHandler(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(name, func(t *testing.T) {
			served := 0
			m := mustLimit(t, fixed(t), Options{Clock: func() time.Time { return testNow }})
			s := serve(t, http2, m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				served++
				w.WriteHeader(http.StatusCreated)
			})))
			for i, want := range []struct {
				status                 int
				remaining, rate, retry string
			}{
				{201, "1", `"orders";r=1;t=30`, ""},
				{201, "0", `"orders";r=0;t=30`, ""},
				{429, "0", `"orders";r=0;t=30`, "30"},
			} {
				r := get(t, s)
				got := r.Header
				if r.Proto != name || r.StatusCode != want.status || got.Get("X-RateLimit-Remaining") != want.remaining ||
					got.Get("RateLimit") != want.rate || got.Get("Retry-After") != want.retry {
					t.Errorf("request %d: %s %d %v; want %+v", i, r.Proto, r.StatusCode, got, want)
				}
			}
			if served != 2 {
				t.Errorf("the handler was called %d times; want 2", served)
			}
		})
	}
}

func TestHeadOverARealConnectionStaysUsable(t *testing.T) {
	m := asking(t, answers{answer: Answer{Decision: denied(), Policies: []Policy{orders(t)}}}, Options{})
	s := serve(t, false, m.Wrap(http.NotFoundHandler()))
	for range 2 {
		r, err := s.Client().Head(s.URL)
		if err != nil || r.StatusCode != 429 {
			t.Fatalf("HEAD: %v, %v; want 429", r, err)
		}
		_ = r.Body.Close()
	}
}

func TestResponseWriterIsPassedOnAsItCame(t *testing.T) {
	w := httptest.NewRecorder()
	next := http.HandlerFunc(func(got http.ResponseWriter, _ *http.Request) {
		if got != http.ResponseWriter(w) {
			t.Errorf("the handler got %T", got)
		}
		if got.Header().Get("X-RateLimit-Limit") != "100" {
			t.Errorf("headers when the handler runs: %v", got.Header())
		}
	})
	m := asking(t, answers{answer: Answer{Decision: allowed(), Policies: []Policy{orders(t)}}}, Options{})
	m.Wrap(next).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
}

func TestStreamsPassThrough(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			read := make(chan struct{})
			s := serve(t, http2, asking(t, answers{answer: pass()}, Options{}).Wrap(
				http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.WriteString(w, "data: first\n")
					if err := http.NewResponseController(w).Flush(); err != nil {
						t.Error(err)
					}
					select { // the client must see the line while the handler runs
					case <-read:
					case <-r.Context().Done():
					}
				})))
			line, err := bufio.NewReader(get(t, s).Body).ReadString('\n')
			close(read)
			if line != "data: first\n" || err != nil {
				t.Errorf("read %q, %v", line, err)
			}
		})
	}
}

// TestUpgradesPassThrough upgrades connections to a protocol that echoes lines, as
// WebSocket libraries do.
func TestUpgradesPassThrough(t *testing.T) {
	s := serve(t, false, mustLimit(t, fixed(t), Options{}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Upgrade", "echo")
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(http.StatusSwitchingProtocols)
		hijacker, ok := w.(http.Hijacker)
		if !ok {
			t.Errorf("the handler got %T", w)
			return
		}
		c, lines, err := hijacker.Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		line, err := lines.ReadString('\n')
		if err == nil {
			_, err = io.WriteString(c, "echo "+line)
		}
		if err != nil {
			t.Error(err)
		}
	})))
	for i, want := range []int{101, 101, 429} {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answers := bufio.NewReader(c)
		response, err := http.ReadResponse(answers, nil)
		if err != nil || response.StatusCode != want || response.Header.Get("X-RateLimit-Limit") != "2" {
			t.Fatalf("connection %d: %v, %v; want %d", i, response, err, want)
		}
		if want == 429 {
			continue
		}
		if _, err := io.WriteString(c, "hello\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := answers.ReadString('\n'); line != "echo hello\n" || err != nil {
			t.Errorf("connection %d: read %q, %v", i, line, err)
		}
	}
}

func TestDelayIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := pass()
		answer.Decision.Delay = 1500 * time.Millisecond
		start := time.Now()
		var after time.Duration
		m := asking(t, answers{answer: answer}, Options{})
		w := httptest.NewRecorder()
		m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { after = time.Since(start) })).
			ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if after != 1500*time.Millisecond || w.Code != 200 {
			t.Errorf("served after %v with %d", after, w.Code)
		}
	})
}

func TestDelayEndsWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := pass()
		answer.Decision.Delay = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		w := httptest.NewRecorder()
		m := asking(t, answers{answer: answer}, Options{OnError: func(http.ResponseWriter, *http.Request, error) bool {
			t.Error("a request that ended is no failure to decide")
			return false
		}})
		m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })).
			ServeHTTP(w, httptest.NewRequest("GET", "/", nil).WithContext(ctx))
		if waited := time.Since(start); waited != time.Second || w.Code != 503 {
			t.Errorf("gave up after %v with %d; want 1s, 503", waited, w.Code)
		}
	})
}

func TestFailureToDecideIsAnsweredOrHandedOver(t *testing.T) {
	failure := &stint.Error{Code: stint.CodeUnavailable, Problem: "no store"}
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	var seen error
	for name, c := range map[string]struct {
		onError func(http.ResponseWriter, *http.Request, error) bool
		status  int
	}{
		"unless said, 503": {nil, 503},
		"a hook may let it pass": {func(_ http.ResponseWriter, _ *http.Request, err error) bool {
			seen = err
			return true
		}, 418},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			m := asking(t, answers{err: failure}, Options{OnError: c.onError})
			m.Wrap(next).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			if w.Code != c.status {
				t.Errorf("status %d; want %d", w.Code, c.status)
			}
		})
	}
	if !errors.Is(seen, failure) {
		t.Errorf("the hook saw %v", seen)
	}
}

// undecided is a decider that returns an error for every request.
type undecided struct{}

func (undecided) Decide(context.Context, *Request) (Answer, error) {
	return Answer{}, errors.New("no store")
}

func TestOnErrorLetsNoInvalidTokenPass(t *testing.T) {
	m := asking(t, undecided{}, Options{
		Identity: Identity{Tokens: user1(), RejectInvalidTokens: true},
		OnError:  func(http.ResponseWriter, *http.Request, error) bool { return true },
	})
	handler := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for header, want := range map[string]int{"": 200, "Bearer forged": 401} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", header)
		if handler.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%q: %d; want %d", header, w.Code, want)
		}
	}
}

func TestInvalidTokenIsRejectedWhenConfiguredAndCounted(t *testing.T) {
	m := mustLimit(t, fixed(t), Options{Identity: Identity{Tokens: user1(), RejectInvalidTokens: true}})
	handler := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for n, want := range []int{401, 401, 429} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", "Bearer forged")
		handler.ServeHTTP(w, r)
		if w.Code != want || (want == 401) != (w.Header().Get("WWW-Authenticate") != "") {
			t.Errorf("request %d: %d %v; want %d", n, w.Code, w.Header(), want)
		}
	}
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "198.51.100.7:1"
	if handler.ServeHTTP(w, r); w.Code != 200 {
		t.Errorf("without a token: %d; want 200", w.Code)
	}
}
