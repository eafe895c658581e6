package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/testserver"
)

// echo is an upstream that answers with the body of the request.
func echo(t *testing.T) []*url.URL {
	t.Helper()
	return upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Upstream-Path", r.URL.Path)
		_, _ = io.Copy(w, r.Body)
	})
}

func upstreamOf(t *testing.T, handler http.HandlerFunc) []*url.URL {
	t.Helper()
	upstream := httptest.NewServer(handler)
	t.Cleanup(upstream.Close)
	u, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	return []*url.URL{u}
}

func TestGatewayPassesOnWhatTheRulesAllow(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, orders), Gateway: "127.0.0.1:0", Upstreams: echo(t)})
	for i, want := range []int{200, 200, 429} {
		got := s.do("POST", "gateway", "/v1/orders", "body", []string{"X-API-Key", "k"})
		if got.status != want {
			t.Fatalf("request %d: status %d, want %d", i+1, got.status, want)
		}
		if ids := got.header.Values("X-Request-Id"); len(ids) != 1 || ids[0] == "" {
			t.Errorf("request %d: ids %q", i+1, ids)
		}
		if got.header.Get("X-RateLimit-Limit") != "2" || (got.body == "body") != (want == 200) {
			t.Errorf("request %d: %v %q", i+1, got.header, got.body)
		}
	}
	if got := s.get("gateway", "/elsewhere", "X-API-Key", "k"); got.status != http.StatusOK || got.header.Get("X-RateLimit-Limit") != "" || got.header.Get("X-Upstream-Path") != "/elsewhere" {
		t.Errorf("not counted: %d %v", got.status, got.header)
	}
	if got := s.get("gateway", "/v1/orders", "X-API-Key", "sk_revoked_1", "X-Request-Id", "its-own"); got.status != http.StatusForbidden || got.header.Get("X-Request-Id") != "its-own" {
		t.Errorf("deny-listed: status %d", got.status)
	}
	s.wantMetric(`stint_check_duration_seconds_count{surface="gateway"} 5`, true)
	s.wantMetric(`stint_decisions_total{decision="deny",rule="orders"} 1`, true)
}

func TestGatewayServesTheDelayOfAShaper(t *testing.T) {
	s := run(t, Config{
		Rules:   rulesFile(t, "rules:\n  - {id: a, by: [api_key], algorithm: leaky_bucket, limit: 20, window: 1, params: {queue: 5}}\n"),
		Gateway: "127.0.0.1:0", Upstreams: echo(t),
	})
	s.get("gateway", "/", "X-API-Key", "k")
	begun := time.Now()
	got := s.get("gateway", "/", "X-API-Key", "k")
	if took := time.Since(begun); got.status != http.StatusOK || took < 50*time.Millisecond {
		t.Errorf("status %d after %v, want a delay of 50 ms", got.status, took)
	}
}

func TestGatewayAnswersWhatCannotBeDecided(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, orders), Gateway: "127.0.0.1:0", Upstreams: echo(t)})
	got := s.get("gateway", "/v1/orders", "X-API-Key", strings.Repeat("k", 5000))
	if got.status != http.StatusBadRequest {
		t.Errorf("status %d: %s", got.status, got.body)
	}
}

// TestDrainLetsRequestsEnd holds a request at the upstream while the server
// drains.
func TestDrainLetsRequestsEnd(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	upstream := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			close(arrived)
			<-release
		}
		fmt.Fprint(w, "done")
	})
	s := run(t, Config{Gateway: "127.0.0.1:0", GRPC: "127.0.0.1:0", Upstreams: upstream})
	answers := make(chan answer, 1)
	go func() { answers <- s.get("gateway", "/held") }()
	<-arrived
	s.stop()
	s.logs.wait(t, "draining")
	if got := s.get("http", "/readyz"); got.status != http.StatusServiceUnavailable {
		t.Errorf("/readyz while draining: status %d", got.status)
	}
	if got := s.post("http", "/v1/take", `{"key":"k","limit":"1/s"}`); got.status != http.StatusOK {
		t.Errorf("a check while draining: status %d", got.status)
	}
	close(release)
	if got := <-answers; got.status != http.StatusOK || got.body != "done" {
		t.Errorf("the request in flight: %d %q", got.status, got.body)
	}
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

// TestDrainCutsWhatDoesNotEnd keeps open an upgraded connection, which is not counted as a
// request, and a request that never ends.
func TestDrainCutsWhatDoesNotEnd(t *testing.T) {
	upstream := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/upgrade" {
			upgrade(w)
			return
		}
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	s := run(t, Config{Gateway: "127.0.0.1:0", Upstreams: upstream, DrainTimeout: 100 * time.Millisecond})
	for _, request := range []string{
		"GET /upgrade HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n",
		"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		conn := dial(t, s.Addr("gateway"))
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil { // reads the status line
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := io.Copy(io.Discard, conn); err != nil && isTimeout(err) {
				t.Errorf("the connection stays open: %v", err)
			}
		})
	}
	s.stop()
	if err := s.end(); err != nil {
		t.Error(err)
	}
	s.logs.wait(t, "requests cut")
}

// upgrade speaks another protocol until the other side hangs up.
func upgrade(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n")
	_, _ = io.Copy(io.Discard, conn)
}

func TestDrainDelayKeepsAccepting(t *testing.T) {
	t.Parallel()
	s := run(t, Config{DrainDelay: time.Hour, DrainTimeout: 2 * time.Second})
	s.stop()
	s.logs.wait(t, "draining")
	for range 3 { // each request uses a new connection
		if got := s.get("http", "/readyz"); got.status != http.StatusServiceUnavailable {
			t.Errorf("status %d", got.status)
		}
	}
}

// While the server drains, a load balancer may have sent a request on a connection that is idle
// here. The request is answered, and is the last one of its connection.
func TestDrainDelayAnswersOnOpenConnections(t *testing.T) {
	t.Parallel()
	s := run(t, Config{Gateway: "127.0.0.1:0", Upstreams: echo(t), DrainDelay: time.Hour, DrainTimeout: 2 * time.Second})
	for _, name := range []string{"http", "gateway"} {
		conn := dial(t, s.Addr(name))
		answers := bufio.NewReader(conn)
		ask := func() *http.Response {
			_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") // the answer shows a failure
			response, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			return response
		}
		if ask().Close {
			t.Errorf("%s: closes before the end", name)
		}
		defer func() {
			if got := ask(); got.StatusCode != http.StatusOK || !got.Close {
				t.Errorf("%s: status %d, closes: %v", name, got.StatusCode, got.Close)
			}
		}()
	}
	s.stop()
	s.logs.wait(t, "draining")
}

func TestHTTP2IsServedWithoutTLS(t *testing.T) {
	s := run(t, Config{Gateway: "127.0.0.1:0", Upstreams: echo(t)})
	for _, name := range []string{"http", "admin", "gateway"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url(name, "/healthz"), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetUnencryptedHTTP2(true)
		defer transport.CloseIdleConnections()
		response, err := (&http.Client{Transport: transport}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.ProtoMajor != 2 || response.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %d", name, response.Proto, response.StatusCode)
		}
	}
}

// The check at the start has failed, and the next one is seconds away.
func TestGatewayAsksAnUpstreamThatIsBackAtOnce(t *testing.T) {
	upstreams := []*url.URL{{Scheme: "http", Host: testserver.FreeAddr(t)}}
	s := run(t, Config{Rules: rulesFile(t, "rules:\n  - {id: a, by: [api_key], limit: 3, window: 3600}\n"), Gateway: "127.0.0.1:0", Upstreams: upstreams})
	s.logs.wait(t, "upstream is not healthy")
	for _, remaining := range []string{"2", "1"} { // the charge of a request that could not be sent stands
		got := s.get("gateway", "/", "X-API-Key", "k")
		if got.status != http.StatusServiceUnavailable || got.header.Get("X-RateLimit-Remaining") != remaining || got.header.Get("Retry-After") == "" {
			t.Fatalf("while it is down: %d %v", got.status, got.header)
		}
	}
	l, err := net.Listen("tcp", upstreams[0].Host)
	if err != nil {
		t.Fatal(err)
	}
	back := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}}
	back.Start()
	t.Cleanup(back.Close)
	if got := s.get("gateway", "/", "X-API-Key", "k"); got.status != http.StatusOK {
		t.Errorf("when it is back: %d %s", got.status, got.body)
	}
	s.logs.wait(t, "upstream is healthy")
}
