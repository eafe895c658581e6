package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/testserver"
)

// clock is a clock that a test sets.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(1_700_000_000, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// startOn serves on an address that was used before.
func startOn(t *testing.T, addr string, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener = listen(t, addr)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func handle(t *testing.T, g *Gateway, method, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(bounded(t), method, "/", strings.NewReader(body))
	g.ServeHTTP(w, r)
	return w
}

var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })

func TestUpstreamThatFallsIsTriedAgain(t *testing.T) {
	var c clock
	addr := testserver.FreeAddr(t)
	s := startOn(t, addr, echo)
	g := newGateway(t, toServers(urlOf(t, "http://"+addr)))
	g.now = c.now
	expect := func(when string, status int, retryAfter string) {
		t.Helper()
		w := handle(t, g, http.MethodPost, "body")
		if w.Code != status || w.Header().Get("Retry-After") != retryAfter {
			t.Fatalf("%s: got %d, retry after %q, want %d and %q", when, w.Code, w.Header().Get("Retry-After"), status, retryAfter)
		}
		if status == http.StatusServiceUnavailable && errorCode(t, w.Body.String()) != "UPSTREAM_UNAVAILABLE" {
			t.Errorf("%s: got %s", when, w.Body)
		}
	}
	expect("while it runs", http.StatusOK, "")
	s.Close()
	g.CloseIdleConnections()
	expect("when it has fallen", http.StatusServiceUnavailable, "1")
	s = startOn(t, addr, echo)
	expect("in the pause, when it is back", http.StatusOK, "")
	s.Close()
	g.CloseIdleConnections()
	for _, pause := range []string{"1", "1", "2", "4", "8", "15", "15"} {
		expect("when it falls for long", http.StatusServiceUnavailable, pause)
		c.advance(g.groups[0].retryAfter(c.now()))
	}
}

func TestUpstreamsThatAreAllDownAreTriedOneByOne(t *testing.T) {
	var c clock
	live := serve(t, http1, echo)
	g := newGateway(t, toServers(urlOf(t, "http://"+testserver.FreeAddr(t)), urlOf(t, live.URL)))
	g.now = c.now
	dead, back := g.groups[0].upstreams[0], g.groups[0].upstreams[1]
	dead.health.dialFailed(c.now(), 0)
	back.health.checked(false)
	pause := dead.health.retryAfter(c.now(), time.Hour)
	back.trials.Store(maxTrials)
	for range 4 { // the dead upstream is tried first, and the other has no free trial
		if w := handle(t, g, http.MethodPost, "body"); w.Code != http.StatusServiceUnavailable || errorCode(t, w.Body.String()) != "UPSTREAM_UNAVAILABLE" {
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
	}
	if got := dead.health.retryAfter(c.now(), time.Hour); got != pause {
		t.Errorf("failed trials changed the pause to %v; it was %v", got, pause)
	}
	back.trials.Store(0)
	statuses := map[int]int{}
	for range 2 {
		statuses[handle(t, g, http.MethodPost, "body").Code]++
	}
	if statuses[http.StatusOK] == 0 || len(back.checkDue) != 1 || back.health.usable(c.now()) {
		t.Errorf("got %v; %d checks requested; want an answer of the upstream that is up again, and one check of it", statuses, len(back.checkDue))
	}
	if dead.trials.Load()+back.trials.Load() != 0 {
		t.Error("ended trials are still counted")
	}
}

func TestFailedDialGoesToTheNextUpstreamWithItsBody(t *testing.T) {
	for _, schemes := range [][2]string{{"http", "http"}, {"h2c", "http"}, {"https", "http"}, {"http", "h2c"}} {
		t.Run(schemes[0]+" then "+schemes[1], func(t *testing.T) {
			live := serve(t, http1, echo)
			g := newGateway(t, toServers(
				urlOf(t, schemes[0]+"://"+testserver.FreeAddr(t)), urlOf(t, schemes[1]+"://"+live.Listener.Addr().String()),
			))
			for range 4 {
				if w := handle(t, g, http.MethodPost, "body"); w.Code != http.StatusOK || w.Body.String() != "body" {
					t.Fatalf("got %d %q", w.Code, w.Body)
				}
			}
			if g.groups[0].upstreams[0].health.usable(g.now()) {
				t.Error("the dead upstream counts as up")
			}
		})
	}
}

func TestHandshakeThatFailsCountsAsADial(t *testing.T) {
	stranger := serve(t, http2, echo) // the gateway does not trust its certificate
	g := newGateway(t, toServers(urlOf(t, stranger.URL)))
	if w := handle(t, g, http.MethodGet, ""); w.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestConnectionThatWasThereIsNoFailedDial(t *testing.T) {
	target, asked := rude(t, "")
	target.Host = net.JoinHostPort("two.example", target.Port())
	g := newGateway(t, toServers(target, target))
	g.groups[0].wire.Load().standard.DialContext = firstAddressFails(target.Port())
	if w := handle(t, g, http.MethodPost, "body"); w.Code != http.StatusBadGateway || asked.Load() != 1 {
		t.Errorf("got %d after %d requests, want 502 after one", w.Code, asked.Load())
	}
}

// firstAddressFails dials as for a name with two addresses, the first of them dead.
func firstAddressFails(port string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		if _, err := d.DialContext(ctx, network, "127.0.0.1:1"); err == nil {
			return nil, errors.New("somebody listens on port 1")
		}
		return d.DialContext(ctx, network, "127.0.0.1:"+port)
	}
}

func TestRequestThatCannotBeSentIsNotTheUpstreamsFault(t *testing.T) {
	g := behind(t, http1, echo, Options{})
	r := httptest.NewRequestWithContext(bounded(t), http.MethodGet, "/", http.NoBody)
	r.Header.Set("X-Bad", "two\nlines")
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	if w.Code != http.StatusBadGateway || !g.groups[0].upstreams[0].health.usable(g.now()) {
		t.Errorf("got %d; usable: %v", w.Code, g.groups[0].upstreams[0].health.usable(g.now()))
	}
}

func TestManyRequestsSurviveTheFallOfOneUpstream(t *testing.T) {
	dying, living := serve(t, http1, echo), serve(t, http1, echo)
	g := newGateway(t, toServers(urlOf(t, dying.URL), urlOf(t, living.URL)))
	front := serve(t, http1, g)
	client := clientOf(t, http1, front)
	const clients, each = 8, 50
	var failed atomic.Int64
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for i := range each {
				if c == 0 && i == each/2 {
					dying.CloseClientConnections()
					dying.Listener.Close()
				}
				if !echoes(t, client, front.URL, fmt.Sprintf("%d/%d", c, i)) {
					failed.Add(1)
				}
			}
		})
	}
	all.Wait()
	client.CloseIdleConnections()
	front.Close() // waits for handlers that have answered but not returned
	if n := failed.Load(); n > 2*clients {
		t.Errorf("%d of %d requests failed, more than could have been under way", n, clients*each)
	}
	for _, u := range g.groups[0].upstreams {
		if n := u.inFlight.Load(); n != 0 {
			t.Errorf("%s: %d in flight", u.name, n)
		}
	}
}

// echoes reports whether the request was answered. It fails the test if the answer
// belongs to another request.
func echoes(t *testing.T, c *http.Client, target, body string) bool {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return false
	}
	res, err := c.Do(r)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode == http.StatusOK && string(got) != body {
		t.Errorf("%s was answered with %s", body, got)
	}
	return err == nil && res.StatusCode == http.StatusOK
}

// rude answers the first request of each connection with a fixed text, and closes the
// connection.
func rude(t *testing.T, answer string) (target *url.URL, asked *atomic.Int64) {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	t.Cleanup(func() { _ = l.Close() })
	asked = new(atomic.Int64)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
				asked.Add(1)
			}
			fmt.Fprint(conn, answer)
			_ = conn.Close()
		}
	}()
	return urlOf(t, "http://"+l.Addr().String()), asked
}

func TestRequestThatWasSentIsNeverSentAgain(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		for name, answer := range map[string]string{"hangsUp": "", "noHTTP": "SSH-2.0-x\r\n\r\n"} {
			t.Run(method+" "+name, func(t *testing.T) {
				first, askedFirst := rude(t, answer)
				second, askedSecond := rude(t, answer)
				g := newGateway(t, toServers(first, second))
				w := handle(t, g, method, "")
				if w.Code != http.StatusBadGateway || errorCode(t, w.Body.String()) != "UPSTREAM_FAILED" {
					t.Errorf("got %d %s", w.Code, w.Body)
				}
				if n := askedFirst.Load() + askedSecond.Load(); n != 1 {
					t.Errorf("sent %d times", n)
				}
				if w.Header().Get("Retry-After") != "" {
					t.Error("the answer asks the client to retry")
				}
			})
		}
	}
}

func TestUpstreamThatDoesNotAnswerTimesOut(t *testing.T) {
	for _, back := range []string{http1, http2, h2c} {
		t.Run(back, func(t *testing.T) {
			silent := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			g := behind(t, back, silent, Options{Groups: []GroupOptions{{ResponseHeaderTimeout: 20 * time.Millisecond}}})
			w := handle(t, g, http.MethodGet, "")
			if w.Code != http.StatusGatewayTimeout || errorCode(t, w.Body.String()) != "UPSTREAM_TIMEOUT" {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
}

func TestBodyOverTheServersBoundIs413(t *testing.T) {
	g := behind(t, http1, echo, Options{})
	s := serve(t, http1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 10)
		g.ServeHTTP(w, r)
	}))
	r, _ := http.NewRequestWithContext(bounded(t), http.MethodPost, s.URL, strings.NewReader(strings.Repeat("x", 1000)))
	if res, body := do(t, clientOf(t, http1, s), r); res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
}

func TestFailuresKeepTheLimitersHeadersAndTellNoSecret(t *testing.T) {
	var logged bytes.Buffer
	target, _ := rude(t, "SSH-2.0-x\r\n\r\n")
	g := newGateway(t, Options{Groups: []GroupOptions{{Servers: servers(target)}}, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(bounded(t), http.MethodGet, "/path-secret?token=secret", http.NoBody)
	r.Header.Set("Authorization", "Bearer secret")
	r.Header.Set("X-Request-Id", "id-1")
	limited(g).ServeHTTP(w, r)
	written := w.Header()["X-RateLimit-Limit"] //nolint:staticcheck // as the limiter wrote it, letter by letter
	if written == nil || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("X-Request-Id") != "id-1" {
		t.Errorf("got %v", w.Header())
	}
	if text := logged.String() + w.Body.String(); strings.Contains(text, "secret") || !strings.Contains(text, "request_id=id-1") {
		t.Errorf("the log or the answer reveals too much, or lacks something: %s", text)
	}
}

func TestLeastBusyUpstreamIsChosen(t *testing.T) {
	g := newGateway(t, toServers(urlOf(t, "http://a"), urlOf(t, "http://b"), urlOf(t, "http://c")))
	counts := map[*upstream]int{}
	for range 30 {
		u, _ := g.groups[0].choose(g.now(), nil)
		u.inFlight.Add(1)
		counts[u]++
	}
	for _, u := range g.groups[0].upstreams {
		if counts[u] != 10 {
			t.Errorf("%s got %d of 30, want 10", u.name, counts[u])
		}
	}
	g.groups[0].upstreams[1].inFlight.Add(-3)
	if u, _ := g.groups[0].choose(g.now(), nil); u != g.groups[0].upstreams[1] {
		t.Errorf("got %s, want the one with the fewest", u.name)
	}
}

func TestTurnsOfOneThatIsDownFallToAllOthers(t *testing.T) {
	g := newGateway(t, toServers(urlOf(t, "http://a"), urlOf(t, "http://b"), urlOf(t, "http://c"), urlOf(t, "http://d")))
	counts := map[*upstream]int{}
	for range 30 {
		u, _ := g.groups[0].choose(g.now(), g.groups[0].upstreams[:1])
		counts[u]++
	}
	for _, u := range g.groups[0].upstreams[1:] {
		if counts[u] != 10 {
			t.Errorf("%s got %d of 30, want 10", u.name, counts[u])
		}
	}
}

func TestFinishedRequestsAreNotInFlight(t *testing.T) {
	g := behind(t, http1, echo, Options{})
	for range 3 {
		handle(t, g, http.MethodPost, "x")
	}
	if n := g.groups[0].upstreams[0].inFlight.Load(); n != 0 {
		t.Errorf("%d in flight", n)
	}
}

func TestPathOfTheUpstreamComesFirst(t *testing.T) {
	s := serve(t, http1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.EscapedPath()) }))
	g := newGateway(t, toServers(urlOf(t, s.URL+"/base/")))
	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequestWithContext(bounded(t), http.MethodGet, "/a%2Fb", http.NoBody))
	if w.Body.String() != "/base/a%2Fb" {
		t.Errorf("got %s", w.Body)
	}
}
