package server

import (
	"bufio"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// connects reports whether the gateway answers a new connection.
func connects(t *testing.T, s *running, path string) bool {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr("gateway").String())
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write([]byte("GET " + path + " HTTP/1.1\r\nHost: h\r\nX-API-Key: k\r\nConnection: close\r\n\r\n")); err != nil {
		return false
	}
	n, err := conn.Read(make([]byte, 100))
	return n > 0 && err == nil
}

// ended reports whether the server has closed the connection, and sent nothing before.
func (c *rawClient) ended() bool {
	_, err := c.read.ReadByte()
	network, ok := err.(net.Error) //nolint:errorlint // the socket returns it unwrapped
	return err != nil && (!ok || !network.Timeout())
}

func TestAnAddressWhoseRequestsAreAllDeniedIsRefused(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, oneAnHour), Gateway: "127.0.0.1:0", Upstreams: echo(t), CloseAfter: 5, RefuseFor: 500 * time.Millisecond})
	idle := dialGateway(t, s)
	idle.get("/one")
	for i := range 4 { // each on a connection of its own
		if r := dialGateway(t, s).get("/one"); r.StatusCode != 429 || r.Close {
			t.Fatalf("denial %d: %s, close %v", i+1, r.Status, r.Close)
		}
	}
	fifth := dialGateway(t, s)
	began := time.Now()
	if r := fifth.get("/one"); r.StatusCode != 429 || !r.Close {
		t.Fatalf("%s, close %v", r.Status, r.Close)
	}
	if !idle.ended() {
		t.Error("another connection of the address is open")
	}
	refused := 0
	for !connects(t, s, "/") {
		refused++
		if time.Since(began) > patience {
			t.Fatal("refused for ever")
		}
	}
	if took := time.Since(began); refused == 0 || took < 500*time.Millisecond {
		t.Errorf("refused %d connections, for %v", refused, took)
	}
	s.wantMetric("stint_gateway_refusals_total 1", true)
	s.wantMetric(`stint_gateway_connections_refused_total{reason="denials"} 0`, false)
	for late := time.Now().Add(patience); !strings.Contains(s.get("admin", "/metrics").body, "stint_gateway_connections_closed_total 6"); {
		if time.Now().After(late) {
			t.Fatal("not all connections of the address are ended")
		}
	}
	s.logs.wait(t, "the gateway closes connections of abusive addresses")
	s.logs.wait(t, "newest_address=127.0.0.1")
}

func TestAnAllowedRequestOnAnotherConnectionEndsTheRow(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, oneAnHour), Gateway: "127.0.0.1:0", Upstreams: echo(t), CloseAfter: 3, RefuseFor: time.Hour})
	dialGateway(t, s).get("/one")
	for range 5 {
		for range 2 {
			if r := dialGateway(t, s).get("/one"); r.StatusCode != 429 || r.Close {
				t.Fatalf("%s, close %v", r.Status, r.Close)
			}
		}
		if r := dialGateway(t, s).get("/"); r.StatusCode != 200 {
			t.Fatal(r.Status)
		}
	}
}

func TestRefusalsPrecedeTLS(t *testing.T) {
	ca := newAuthority(t, "ca")
	files := ca.files()
	ca.issue(1, files)
	s := run(t, Config{Rules: rulesFile(t, oneAnHour), Gateway: "127.0.0.1:0", Upstreams: echo(t), CloseAfter: 2, RefuseFor: time.Hour, TLS: files})
	dial := func() (*tls.Conn, error) {
		return tls.Dial("tcp", s.Addr("gateway").String(), ca.client(TLSFiles{}))
	}
	shaking, err := net.Dial("tcp", s.Addr("gateway").String()) // never shakes hands
	if err != nil {
		t.Fatal(err)
	}
	defer shaking.Close()
	for i, want := range []int{200, 429, 429} {
		conn, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		client := &rawClient{t, conn, bufio.NewReader(conn)}
		if r := client.get("/one"); r.StatusCode != want || r.Close != (i == 2) {
			t.Errorf("%d: %s, close %v", i, r.Status, r.Close)
		}
		defer conn.Close()
	}
	if conn, err := dial(); err == nil {
		conn.Close()
		t.Error("a refused client can shake hands")
	}
	_ = shaking.SetDeadline(time.Now().Add(patience))
	if !(&rawClient{t, shaking, bufio.NewReader(shaking)}).ended() {
		t.Error("a connection in its handshake is open")
	}
}

func TestAddressesOfTrustedProxiesAreLeftAlone(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, oneAnHour), Gateway: "127.0.0.1:0", Upstreams: echo(t), CloseAfter: 2, RefuseFor: time.Hour,
		ConnectionsPerAddress: 1, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	open := dialGateway(t, s)
	open.get("/one")
	for range 10 {
		if r := dialGateway(t, s).get("/one"); r.StatusCode != 429 || r.Close {
			t.Fatalf("%s, close %v", r.Status, r.Close)
		}
	}
}

func TestDenialsWhileTheStoreFailsRefuseNobody(t *testing.T) {
	s := guarded(t, Config{Gateway: "127.0.0.1:0", Upstreams: echo(t), CloseAfter: 3, RefuseFor: time.Hour})
	statuses := map[int]int{}
	for range 10 {
		for _, path := range []string{"/closed", "/local"} {
			statuses[dialGateway(t, s).get(path).StatusCode]++
		}
	}
	if statuses[http.StatusServiceUnavailable] != 10 || statuses[http.StatusTooManyRequests] == 0 {
		t.Errorf("%v", statuses)
	}
	s.wantMetric("stint_gateway_refusals_total 0", true)
}

func TestConnectionsPerAddressAreBounded(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, oneAnHour), Gateway: "127.0.0.1:0", Upstreams: echo(t), ConnectionsPerAddress: 2})
	first, second := dialGateway(t, s), dialGateway(t, s)
	first.get("/")
	second.get("/")
	if connects(t, s, "/") {
		t.Fatal("a third connection is served")
	}
	s.wantMetric(`stint_gateway_connections_refused_total{reason="connections"} 1`, true)
	first.conn.Close()
	for late := time.Now().Add(patience); !connects(t, s, "/"); {
		if time.Now().After(late) {
			t.Fatal("a closed connection makes no room")
		}
	}
	second.get("/")
}
