//go:build linux

package proxytest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// hostileRequest is a request that a client may write by hand.
type hostileRequest struct{ name, text string }

// headerLine returns a request for / with one further header line.
func headerLine(name, line string) hostileRequest {
	return hostileRequest{name, "GET / HTTP/1.1\r\nHost: app.example\r\n" + line + "\r\n\r\n"}
}

// requestLine returns a request with the given first line.
func requestLine(line string) hostileRequest {
	return hostileRequest{fmt.Sprintf("%.60q", line), line + "\r\nHost: app.example\r\n\r\n"}
}

func headerLines(n, length int) hostileRequest {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "X-Filler-%d: %s\r\n", i, strings.Repeat("x", length))
	}
	return headerLine(fmt.Sprintf("%d headers of %d bytes", n, length), strings.TrimSuffix(all.String(), "\r\n"))
}

// hostileRequests are malformed, oversized or unusual in every way in which net/http,
// or a proxy that queries it, may answer by itself.
func hostileRequests() []hostileRequest {
	return slices.Concat(oddBytes(), oddHeaders(), oversized(), oddRequestLines(), oddHosts())
}

func oddBytes() (all []hostileRequest) {
	for c := range 256 {
		if c == '\n' {
			continue
		}
		all = append(all, headerLine(fmt.Sprintf("byte %#02x in a value", c), "X-Odd: a"+string([]byte{byte(c)})+"b"))
		if c != ':' {
			all = append(all, headerLine(fmt.Sprintf("byte %#02x in a name", c), "X-O"+string([]byte{byte(c)})+"dd: a"))
		}
	}
	return all
}

func oddHeaders() (all []hostileRequest) {
	for _, line := range []string{
		"X-Odd: a\r\n b", "X-Odd : a", " X-Odd: a", ": a", "X-Odd", "X-Odd: a\nX-Odder: b", "X-Odd:\x00",
		"Content-Length: x", "Content-Length: -1", "Content-Length: 1\r\nContent-Length: 2", "Content-Length: 99999999999999999999",
		"Transfer-Encoding: x", "Transfer-Encoding: chunked, gzip", "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0",
		"Expect: x", "Expect: 100-continue", "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA",
		"Trailer: X-Original-URI", "TE: trailers, x", "Connection: close, X-Original-URI, X-Forwarded-For, Host",
		"Authorization: \x01", "Authorization: Bearer a\r\nAuthorization: Bearer b", "X-API-Key: \x7f",
		"X-Stint-Token: \x01", "X-Stint-Token: x", "X-Original-URI: /\x01", "X-Forwarded-Method: \x01", "X-Forwarded-For: \x01",
		"X-Forwarded-For: 203.0.113.7", "Forwarded: for=203.0.113.7", "X-Real-IP: 203.0.113.7",
	} {
		all = append(all, headerLine(fmt.Sprintf("%q", line), line))
	}
	return all
}

// oversized has requests of each size at which one of the programs may stop reading.
func oversized() (all []hostileRequest) {
	for _, size := range [][2]int{
		{1, 4_000}, {1, 8_000}, {1, 14_000}, {1, 16_000}, {1, 17_000}, {1, 26_000}, {1, 30_000}, {1, 33_000}, {1, 58_000}, {1, 66_000}, {1, 200_000}, {1, 900_000},
		{2, 7_000}, {4, 7_900}, {4, 8_000}, {6, 8_000}, {7, 8_000}, {8, 8_000}, {9, 8_000}, {15, 8_000}, {60, 8_000}, {90, 8_000}, {99, 8_000},
		{200, 10}, {1_000, 10}, {5_000, 10}, {100_000, 1},
	} {
		all = append(all, headerLines(size[0], size[1]))
	}
	// Around the end of HAProxy's buffer: the query to Stint is longer than the request.
	for length := 15_000; length <= 15_400; length += 8 {
		all = append(all, headerLines(1, length), requestLine("GET /"+strings.Repeat("x", length)+" HTTP/1.1"))
	}
	for _, n := range aboutHundred() {
		all = append(all, headerLines(n, 1), headerLine(fmt.Sprintf("one header of %d lines", n), strings.Repeat("X-Odd: a\r\n", n-1)+"X-Odd: a"))
	}
	for _, size := range []int{4_000, 7_000, 8_000, 14_000, 15_000, 30_000, 60_000, 500_000} {
		long := strings.Repeat("x", size)
		all = append(all, requestLine("GET /"+long+" HTTP/1.1"), requestLine("GET /?"+long+" HTTP/1.1"),
			hostileRequest{fmt.Sprintf("a host of %d bytes", size), "GET / HTTP/1.1\r\nHost: " + long + "\r\n\r\n"})
	}
	return all
}

// aboutHundred are numbers of header lines around the limits of HAProxy and Apache.
func aboutHundred() (all []int) {
	for n := 85; n <= 105; n++ {
		all = append(all, n)
	}
	return all
}

func oddRequestLines() (all []hostileRequest) {
	for _, method := range []string{
		"get", "G", "G@T", "GE\x01T", "GE\x80T", "G(T", "G\"T", "BREW", "PRI", "TRACE", "TRACK", "DEBUG", "PURGE", "SEARCH", "M-SEARCH", "*", "",
		strings.Repeat("X", 300), strings.Repeat("X", 7_000),
	} {
		all = append(all, requestLine(method+" / HTTP/1.1"))
	}
	for _, version := range []string{
		"", " ", " HTTP", " HTTP/1", " HTTP/0.9", " HTTP/1.0", " HTTP/1.2", " HTTP/1.10", " HTTP/01.1", " HTTP/11.1", " HTTP/2.0", " HTTP/2", " HTTP/3.0",
		" HTTP/9.9", " http/1.1", " HTTP/1.1x", " HTTP/1.1 x", " HTTP/1,1", " ICAP/1.0", " RTSP/1.0", " HTTP/1.\x01",
	} {
		all = append(all, requestLine("GET /"+version))
	}
	for _, target := range []string{
		"http://app.example/", "http://other.example/", "http://app.example", "https://app.example/", "ftp://app.example/", "http:///", "http://u:p@app.example/",
		"//other.example/", "\\", "/\\", "x", "?x", "#", "/#x", "/%", "/%00", "/%zz", "/\x01", "/\x7f", "/\x80", "/a\tb", "/a b", "*", "app.example:80", "/..", "/../", "/;x",
		"?deny_status=418", "/v1/auth", "/v1/auth?deny_status=418", "/stint",
	} {
		all = append(all, requestLine("GET "+target+" HTTP/1.1"))
	}
	return append(all, requestLine("OPTIONS * HTTP/1.1"), requestLine("CONNECT app.example:80 HTTP/1.1"), requestLine("CONNECT / HTTP/1.1"))
}

func oddHosts() (all []hostileRequest) {
	for _, host := range []string{
		"", "Host:\r\n", "Host: \r\n", "Host: a b\r\n", "Host: a/b\r\n", "Host: a@b\r\n", "Host: a:b\r\n", "Host: a:99999\r\n", "Host: [::1\r\n", "Host: a\x01\r\n",
		"Host: a\x80\r\n", "Host: a,b\r\n", "Host: a\"b\r\n", "Host: a<b\r\n", "Host: a%00\r\n", "Host: a\r\nHost: b\r\n", "Host: ..\r\n", "Host : a\r\n", "Host: a\r\n b\r\n",
	} {
		for _, version := range []string{"1.1", "1.0"} {
			all = append(all, hostileRequest{fmt.Sprintf("%q in HTTP/%s", host, version), "GET / HTTP/" + version + "\r\n" + host + "\r\n"})
		}
	}
	return all
}

// everyRequest is a rule that counts every request.
const everyRequest = "rules: [{id: every, by: [ip], limit: 1, window: 1h}]\n"

// exhausted returns a client that has used up the limit of everyRequest.
func (s *site) exhausted(t *testing.T) *client {
	t.Helper()
	c := s.client(t)
	for range 100 {
		if got := c.get("/"); got.status == http.StatusTooManyRequests {
			return c
		}
	}
	t.Fatal("a limit of 1 does not end")
	return nil
}

// TestNoRequestEscapesItsLimit sends malformed and oversized requests from a client
// that has used up its limit. A proxy that fails open must not treat the answer as an
// outage.
func TestNoRequestEscapesItsLimit(t *testing.T) {
	t.Parallel()
	requests := hostileRequests()
	for i := range proxies {
		p := &proxies[i]
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := newSiteWith(t, p, patient, everyRequest)
			c := s.exhausted(t)
			denied := s.wantNonePasses(t, requests, func(r hostileRequest) int { return c.status(r.text) })
			if denied < len(requests)/3 {
				t.Errorf("Stint decided %d of %d: the others test nothing of it", denied, len(requests))
			}
		})
	}
}

// wantNonePasses checks that no request passes, and returns the number of requests
// that their limit denied.
func (s *site) wantNonePasses(t *testing.T, requests []hostileRequest, send func(hostileRequest) int) (denied int) {
	t.Helper()
	before := s.application.reached.Load()
	for _, r := range requests {
		status := send(r)
		if after := s.application.reached.Load(); after != before {
			t.Errorf("%s reached the application, and got %d", r.name, status)
			before = after
		}
		if status == http.StatusTooManyRequests {
			denied++
		}
	}
	return denied
}

// TestHAProxyRefusesWhatItCannotAsk leaves HAProxy no room for the headers that its
// query to Stint has beyond the request, so that its HTTP client fails.
func TestHAProxyRefusesWhatItCannotAsk(t *testing.T) {
	t.Parallel()
	p := *proxyNamed(t, "haproxy")
	p.own = append(slices.Clone(p.own), "global\n", "global\n    tune.maxrewrite 0\n")
	s := newSiteWith(t, &p, patient, everyRequest)
	c := s.exhausted(t)
	var requests []hostileRequest
	for length := 15_900; length <= 16_400; length += 4 {
		requests = append(requests, headerLines(1, length), headerLines(300, length/300-17))
	}
	s.wantNonePasses(t, requests, func(r hostileRequest) int { return c.status(r.text) })
}

func proxyNamed(t *testing.T, name string) *proxy {
	t.Helper()
	for i := range proxies {
		if proxies[i].name == name {
			return &proxies[i]
		}
	}
	t.Fatalf("no %s", name)
	return nil
}

// TestClientsSetNoParameters has clients send parameters that only the proxy may set.
func TestClientsSetNoParameters(t *testing.T) {
	t.Parallel()
	for i := range proxies {
		p := &proxies[i]
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := newSiteWith(t, p, patient, everyRequest)
			c := s.exhausted(t)
			for _, path := range []string{"/?deny_status=418", "/?deny_status=x", "/?error_status=418", "/x?a=b&deny_status=418", "/;deny_status=418/x", "/;deny_status=418"} {
				got := c.get(path)
				wantDenied(t, &got, http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
				if got.header.Get("X-RateLimit-Body") != "" {
					t.Errorf("%s: %s", path, &got)
				}
			}
		})
	}
}

// TestAnswersWithoutADecision replaces Stint with another server. A complete answer
// refuses the request, unless it says that Stint cannot be reached.
func TestAnswersWithoutADecision(t *testing.T) {
	t.Parallel()
	for i := range proxies {
		p := &proxies[i]
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.find(t)
			if p.grpc {
				t.Skip("this proxy queries Stint over gRPC")
			}
			var status atomic.Int64
			status.Store(http.StatusOK)
			other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/readyz" { // for HAProxy's health check
					w.WriteHeader(int(status.Load()))
				}
				_, _ = io.WriteString(w, "of another server")
			}))
			t.Cleanup(other.Close)
			s := newSiteAt(t, p, patient, other.Listener.Addr().String())
			c := s.client(t)
			for _, code := range []int{200, 204, 302, 400, 401, 403, 404, 405, 413, 417, 418, 429, 431, 500, 501, 502, 503, 504, 505, 511} {
				status.Store(int64(code))
				before := s.application.reached.Load()
				got := c.get("/")
				if passed := s.application.reached.Load() > before; passed != slices.Contains(p.passes, code) {
					t.Errorf("%d: passed is %v, got %s", code, passed, &got)
				}
			}
		})
	}
}

// status sends text over a new connection. It returns the status of the answer, or 0 if
// the connection ends without an answer.
func (c *client) status(text string) int {
	c.t.Helper()
	conn, err := c.http.Transport.(*http.Transport).DialContext(c.t.Context(), "tcp", "")
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	go func() { _, _ = io.WriteString(conn, text) }() // fails if the proxy stops reading
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

// TestClientsThatLeaveOpenNothing has clients close their connections at any point of
// a request, while another client has used up its limit. The proxy must not treat the
// closed connections as an outage of Stint and let the other client pass.
func TestClientsThatLeaveOpenNothing(t *testing.T) {
	t.Parallel()
	for i := range proxies {
		p := &proxies[i]
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := newSiteWith(t, p, patient, everyRequest)
			c, leaving := s.exhausted(t), s.exhausted(t)
			before := s.application.reached.Load()
			for n := range 350 {
				leaving.leave(n)
				if n%5 > 0 {
					continue
				}
				if got := c.get("/"); got.status != http.StatusTooManyRequests {
					t.Errorf("after %d: %s", n, &got)
				}
			}
			if reached := s.application.reached.Load() - before; reached != 0 {
				t.Errorf("%d requests reached the application", reached)
			}
		})
	}
}

// leave begins a request in one of several ways, and closes its connection.
func (c *client) leave(n int) {
	c.t.Helper()
	conn, err := c.http.Transport.(*http.Transport).DialContext(c.t.Context(), "tcp", "")
	if err != nil {
		c.t.Fatal(err)
	}
	texts := []string{
		"GET / HTTP/1.1\r\nHost: app.example\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: app.example\r\nContent-Length: 100\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: app.example\r\nContent-Length: 100\r\n\r\nx",
		"POST / HTTP/1.1\r\nHost: app.example\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nx",
		"POST / HTTP/1.1\r\nHost: app.example\r\nTransfer-Encoding: chunked\r\n\r\nodd\r\n",
		"POST / HTTP/1.1\r\nHost: app.example\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: app.example\r\nX-Odd: ",
	}
	_, _ = io.WriteString(conn, texts[n%len(texts)]) // the proxy may have closed the connection first
	if n%2 == 0 {
		_ = conn.(*net.TCPConn).SetLinger(0) // a reset
	}
	_ = conn.Close()
}
