package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"testing"
	"time"
)

const oneAnHour = "rules:\n  - {id: one, match: {path: /one}, limit: 1, window: 1h}\n"

// rawClient speaks HTTP/1.1 on one socket.
type rawClient struct {
	t    *testing.T
	conn net.Conn
	read *bufio.Reader
}

func dialGateway(t *testing.T, s *running) *rawClient {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr("gateway").String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &rawClient{t, conn, bufio.NewReader(conn)}
}

func (c *rawClient) get(path string) *http.Response {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.conn, "GET %s HTTP/1.1\r\nHost: h\r\nX-API-Key: k\r\n\r\n", path); err != nil {
		c.t.Fatal(err)
	}
	r, err := http.ReadResponse(c.read, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		c.t.Fatal(err)
	}
	return r
}

func TestConnectionsWhoseRequestsAreAllDeniedAreEnded(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, oneAnHour), Gateway: "127.0.0.1:0", Upstreams: echo(t), CloseAfter: 5})
	c := dialGateway(t, s)
	if r := c.get("/one"); r.StatusCode != 200 {
		t.Fatal(r.Status)
	}
	for i := 1; i <= 5; i++ {
		if r := c.get("/one"); r.StatusCode != 429 || r.Close != (i == 5) {
			t.Fatalf("denial %d: %s, close %v", i, r.Status, r.Close)
		}
	}
	if _, err := c.read.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the connection is open: %v", err)
	}
	s.wantMetric("stint_gateway_connections_closed_total 1", true)
	if r := dialGateway(t, s).get("/one"); r.StatusCode != 429 || r.Close {
		t.Errorf("another connection begins anew: %s, close %v", r.Status, r.Close)
	}
}

func TestAnAllowedRequestEndsARowOfDenials(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, oneAnHour), Gateway: "127.0.0.1:0", Upstreams: echo(t), CloseAfter: 3})
	c := dialGateway(t, s)
	c.get("/one")
	for range 10 {
		for range 2 {
			if r := c.get("/one"); r.StatusCode != 429 || r.Close {
				t.Fatalf("%s, close %v", r.Status, r.Close)
			}
		}
		if r := c.get("/"); r.StatusCode != 200 || r.Close {
			t.Fatalf("%s, close %v", r.Status, r.Close)
		}
	}
}

func TestConnectionsOfTrustedProxiesAreLeftAlone(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, oneAnHour), Gateway: "127.0.0.1:0", Upstreams: echo(t), CloseAfter: 2,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	c := dialGateway(t, s)
	for range 10 {
		if r := c.get("/one"); r.Close {
			t.Fatal("closed")
		}
	}
}

func TestZeroEndsNoConnection(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, oneAnHour), Gateway: "127.0.0.1:0", Upstreams: echo(t)})
	c := dialGateway(t, s)
	for range 1100 {
		if r := c.get("/one"); r.Close {
			t.Fatal("closed")
		}
	}
}

func TestHTTP2ConnectionsAreEndedByGoAway(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, oneAnHour), Gateway: "127.0.0.1:0", Upstreams: echo(t), CloseAfter: 3})
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	client, err := transport.NewClientConn(t.Context(), "http", s.Addr("gateway").String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range 4 {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://h/one", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-API-Key", "k")
		answer, err := client.RoundTrip(r)
		if err != nil || (answer.StatusCode == 200) != (i == 0) {
			t.Fatalf("request %d: %v %v", i, answer, err)
		}
		answer.Body.Close()
	}
	for late := time.Now().Add(10 * time.Second); client.Available() > 0; runtime.Gosched() {
		if time.Now().After(late) {
			t.Fatal("no GOAWAY")
		}
	}
	s.wantMetric("stint_gateway_connections_closed_total 1", true)
}
