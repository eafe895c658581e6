package server

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/httpapi"
	"github.com/stintdev/stint/cmd/stint/internal/slowclient"
)

func TestPathsAndMethods(t *testing.T) {
	s := run(t, Config{Profiling: true})
	for _, c := range []struct {
		method, listener, path string
		want                   int
		allow                  string
	}{
		{"GET", "http", "/v1/check", 405, "POST"},
		{"PUT", "http", "/v1/take", 405, "POST"},
		{"GET", "http", "/v1/batch", 405, "POST"},
		{"POST", "http", "/openapi.yaml", 405, "GET, HEAD"},
		{"HEAD", "http", "/openapi.yaml", 200, ""},
		{"POST", "http", "/healthz", 405, "GET, HEAD"},
		{"GET", "admin", "/v1/reset", 405, "POST"},
		{"DELETE", "admin", "/metrics", 405, "GET, HEAD"},
		{"HEAD", "http", "/readyz", 200, ""},
		{"GET", "http", "/healthcheck", 200, ""},
		{"GET", "http", "/", 404, ""},
		{"GET", "http", "/v1/authority", 404, ""},
		{"POST", "http", "/v1/check/", 404, ""},
		{"POST", "http", "//v1/check", 404, ""},
		{"POST", "http", "/v1/../v1/check", 404, ""},
		{"GET", "http", "/metrics", 404, ""},
		{"POST", "http", "/v1/reset", 404, ""},
		{"OPTIONS", "http", "/v1/auth/x", 200, ""},
		{"PROPFIND", "http", "/v1/auth", 200, ""},
	} {
		got := s.do(c.method, c.listener, c.path, "", nil)
		if got.status != c.want || got.header.Get("Allow") != c.allow {
			t.Errorf("%s %s: status %d, Allow %q, want %d, %q", c.method, c.path, got.status, got.header.Get("Allow"), c.want, c.allow)
		}
		if got.status >= 400 && got.errorMessage() == "" {
			t.Errorf("%s %s: %q is no error body", c.method, c.path, got.body)
		}
	}
}

func TestBodyIsReadAsJSONWhateverItsType(t *testing.T) {
	s := run(t, Config{})
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded"} {
		if got := s.do("POST", "http", "/v1/take", `{"key":"k","limit":"9/s"}`, []string{"Content-Type", kind}); got.status != http.StatusOK {
			t.Errorf("%q: status %d", kind, got.status)
		}
	}
}

func TestHugeBodyIsRefused(t *testing.T) {
	s := run(t, Config{})
	atMost := `{"key":"k","limit":"9/s"}`
	atMost += strings.Repeat(" ", httpapi.MaxBody-len(atMost))
	for path, listener := range map[string]string{"/v1/check": "http", "/v1/take": "http", "/v1/batch": "http", "/v1/reset": "admin"} {
		// A client that sends the body at once may see its connection break before it
		// reads the answer.
		if got := s.do("POST", listener, path, atMost+" ", []string{"Expect", "100-continue"}); got.status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: status %d for a byte too many", path, got.status)
		}
	}
	if got := s.post("http", "/v1/take", atMost); got.status != http.StatusOK {
		t.Errorf("status %d for a body just within the bound: %s", got.status, got.body)
	}
}

func TestHugeHeaderIsRefused(t *testing.T) {
	upstream := echo(t)
	s := run(t, Config{Gateway: "127.0.0.1:0", Upstreams: upstream})
	for name, most := range map[string]int{"http": slowclient.MaxHeaderBytes, "admin": maxHeaderBytes, "gateway": maxHeaderBytes} {
		if got := s.get(name, "/healthz", "X-Huge", strings.Repeat("x", most+8<<10)); got.status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: status %d", name, got.status)
		}
		if got := s.get(name, "/healthz", "X-Large", strings.Repeat("x", most*7/8)); got.status != http.StatusOK {
			t.Errorf("%s: status %d for a header within the bound", name, got.status)
		}
	}
}

// TestLargeHeadersTakeRoom checks that the check API bounds the memory of large headers.
func TestLargeHeadersTakeRoom(t *testing.T) {
	s := run(t, Config{})
	var room *slowclient.HeaderRoom
	for _, l := range s.listeners {
		if l.name == "http" {
			room = l.service.(*httpListener).room
		}
	}
	all := room.Left()
	conn := dial(t, s.Addr("http"))
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Large: "+strings.Repeat("x", 40<<10)); err != nil {
		t.Fatal(err)
	}
	awaitTrue(t, "a large header takes room", func() bool { return room.Left() < all-30<<10 })
	_ = conn.Close()
	awaitTrue(t, "its end releases the room", func() bool { return room.Left() == all })
}

// TestSlowClientsAreCut sends part of a request and waits for the server to
// give up.
func TestSlowClientsAreCut(t *testing.T) {
	s := run(t, Config{Gateway: "127.0.0.1:0", Upstreams: echo(t), HeaderTimeout: 50 * time.Millisecond, BodyTimeout: 100 * time.Millisecond})
	for name, c := range map[string]struct{ listener, sent string }{
		"nothing to http":      {"http", ""},
		"half a header":        {"http", "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "},
		"half a body":          {"http", "POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"},
		"header to the proxy":  {"gateway", "GET / HTTP/1.1\r\nHost: x\r\n"},
		"header to the admin":  {"admin", "GET / HTTP/1.1\r\n"},
		"half a body to admin": {"admin", "POST /v1/reset HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, s.Addr(c.listener))
			if _, err := io.WriteString(conn, c.sent); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(conn)
			if err != nil && isTimeout(err) {
				t.Errorf("the connection stays open: %v", err)
			}
			if name == "half a body" && !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
				t.Errorf("%s", answer)
			}
		})
	}
}

// TestGatewayStreamsBeyondTheBoundsOfTheAPI holds a request open for longer
// than any timeout of the API.
func TestGatewayStreamsBeyondTheBoundsOfTheAPI(t *testing.T) {
	s := run(t, Config{Gateway: "127.0.0.1:0", Upstreams: echo(t), HeaderTimeout: 50 * time.Millisecond, BodyTimeout: 50 * time.Millisecond})
	probe := dial(t, s.Addr("http")) // the server closes this connection when the timeouts of the API are over
	conn := dial(t, s.Addr("gateway"))
	if _, err := io.WriteString(conn, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\nab"); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(probe, "POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab")
	_, _ = io.Copy(io.Discard, probe)
	if _, err := io.WriteString(conn, "cde"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != "abcde" {
		t.Errorf("%q, %v", body, err)
	}
}

func TestPanicIsLoggedAndClientsFaultsAreNot(t *testing.T) {
	logs := newLogBuffer()
	l := serverLog{slog.New(slog.NewTextHandler(logs, nil))}
	for text, shown := range map[string]bool{"http: panic serving 127.0.0.1:1: boom\n": true, "http: TLS handshake error from 127.0.0.1:1: EOF\n": false} {
		if n, err := l.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if strings.Contains(logs.String(), text[6:11]) != shown {
			t.Errorf("%q: shown %v, want %v", text, !shown, shown)
		}
	}
}

func dial(t *testing.T, addr net.Addr) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}
