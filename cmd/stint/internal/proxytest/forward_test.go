//go:build linux

package proxytest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/processtest"
	"github.com/stintdev/stint/internal/testserver"
)

// site is a proxy between clients, Stint and an application, all running.
type site struct {
	proxy       *proxy
	addr        string
	stint       *processtest.Process
	stintAddr   string
	application *application
	clients     int
	http2       bool // clients from now on use HTTP/2
}

func newSite(t *testing.T, p *proxy, how mode, more ...string) *site {
	t.Helper()
	return newSiteWith(t, p, how, strings.ReplaceAll(rules, "MANY", limitsOf(many)), more...)
}

// newSiteWith is newSite with other rules.
func newSiteWith(t *testing.T, p *proxy, how mode, rules string, more ...string) *site {
	t.Helper()
	p.find(t)
	stintAddr := testserver.FreeAddr(t)
	stint := serveRules(t, stintAddr, rules, more...)
	s := newSiteAt(t, p, how, stintAddr)
	s.stint = stint
	return s
}

// newSiteAt is newSite with a Stint, or its substitute, that already listens.
func newSiteAt(t *testing.T, p *proxy, how mode, stintAddr string) *site {
	t.Helper()
	s := &site{proxy: p, stintAddr: stintAddr, application: newApplication(t)}
	configured := p.configure(t, stintAddr, s.application.addr(), how)
	configured.start(t)
	s.addr = configured.addr
	return s
}

// client returns a client with an address that was not counted yet.
func (s *site) client(t *testing.T) *client {
	t.Helper()
	s.clients++
	c := newClient(t, s.addr, s.clients)
	c.quiet = s.proxy.quiet
	if s.http2 {
		var only http.Protocols
		only.SetUnencryptedHTTP2(true)
		c.http.Transport.(*http.Transport).Protocols = &only
	}
	return c
}

// facts are true of every proxy while Stint answers.
var facts = []struct {
	name  string
	holds func(t *testing.T, s *site)
}{
	{"allowed requests show the limit", allowedShowsLimit},
	{"denied requests show why and when", deniedShowsReason},
	{"denials by a penalty say so", penaltyIsNamed},
	{"problem details on request", problemDetails},
	{"a list denies with 403", listedIs403},
	{"rules choose the dialect", dialects},
	{"answers may be long", longAnswers},
	{"uncounted requests show no limit", uncounted},
	{"a client cannot be another", spoofedAddress},
	{"a client cannot name another request", spoofedRequest},
	{"keys are distinguished", keysApart},
	{"paths arrive as they are", paths},
	{"methods arrive as they are", methods},
	{"host and headers arrive", hostAndHeaders},
	{"Stint counts the host that arrives", hostIsOne},
	{"bodies pass", bodies},
	{"upgrades pass", upgrades},
	{"events pass as they are sent", events},
	{"denials keep the connection in step", inStep},
}

func TestForwardAuth(t *testing.T) {
	for i := range proxies {
		p := &proxies[i]
		t.Run(p.name, func(t *testing.T) {
			s := newSite(t, p, patient)
			for _, f := range facts {
				t.Run(f.name, func(t *testing.T) { f.holds(t, s) })
			}
		})
	}
}

func allowedShowsLimit(t *testing.T, s *site) {
	got := s.client(t).get("/ip")
	got.received(t)
	wantHeader(t, &got, "X-RateLimit-Limit", "2")
	wantHeader(t, &got, "X-RateLimit-Remaining", "1")
	wantHeader(t, &got, "RateLimit-Policy", `"by-ip";q=2;w=3600`)
	wantHeader(t, &got, "RateLimit", `"by-ip";r=1;t=1800`)
	if reset, err := strconv.ParseInt(got.header.Get("X-RateLimit-Reset"), 10, 64); err != nil || reset < time.Now().Unix() {
		t.Errorf("X-RateLimit-Reset: %v", got.header)
	}
	for _, name := range []string{"Retry-After", "X-RateLimit-Status", "X-RateLimit-Body"} {
		if got.header.Get(name) != "" {
			t.Errorf("%s reached the client: %s", name, &got)
		}
	}
}

func wantHeader(t *testing.T, got *reply, name, want string) {
	t.Helper()
	if values := got.header.Values(name); !slices.Equal(values, []string{want}) {
		t.Errorf("%s: %q, want %q once, in\n%s", name, values, want, got)
	}
}

// denial is the body of a denial.
type denial struct {
	Error struct {
		Code    string
		Details struct {
			Limit         int   `json:"limit"`
			WindowSeconds int   `json:"window_seconds"`
			RetryAfter    int64 `json:"retry_after_seconds"`
		}
	}
}

func wantDenied(t *testing.T, got *reply, status int, code string) (d denial) {
	t.Helper()
	if err := json.Unmarshal([]byte(got.body), &d); err != nil || got.status != status || d.Error.Code != code {
		t.Fatalf("want %d with %s (%v), got\n%s", status, code, err, got)
	}
	wantHeader(t, got, "Content-Type", "application/json")
	wantHeader(t, got, "Cache-Control", "no-store")
	return d
}

func deniedShowsReason(t *testing.T, s *site) {
	c := s.client(t)
	c.get("/ip")
	c.get("/ip")
	before := s.application.reached.Load()
	got := c.get("/ip")
	d := wantDenied(t, &got, http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED").Error.Details
	retry, err := strconv.ParseInt(got.header.Get("Retry-After"), 10, 64)
	if err != nil || retry < 1700 || retry > 1800 || d.RetryAfter != retry || d.Limit != 2 || d.WindowSeconds != 3600 {
		t.Errorf("%+v, %v in\n%s", d, err, &got)
	}
	wantHeader(t, &got, "Retry-After", strconv.FormatInt(retry, 10))
	wantHeader(t, &got, "X-RateLimit-Limit", "2")
	wantHeader(t, &got, "X-RateLimit-Remaining", "0")
	wantHeader(t, &got, "RateLimit-Policy", `"by-ip";q=2;w=3600`)
	if s.application.reached.Load() != before {
		t.Error("it reached the application")
	}
}

func penaltyIsNamed(t *testing.T, s *site) {
	c := s.client(t)
	for range 3 { // the second is denied by the limit, which begins the penalty
		c.get("/punished")
	}
	got := c.get("/punished")
	wantDenied(t, &got, http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
	wantHeader(t, &got, "X-RateLimit-Penalty", "cool_down")
}

// TestEmergencyIsNamed expects the header of an emergency on the denials of every proxy.
func TestEmergencyIsNamed(t *testing.T) {
	t.Parallel()
	for i := range proxies {
		p := &proxies[i]
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			admin := testserver.FreeAddr(t)
			s := newSite(t, p, patient, "--admin", admin)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+admin+"/v1/emergency", strings.NewReader(`{"limit":"1/h","by":"ip","for":"1h"}`))
			if err != nil {
				t.Fatal(err)
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil || answer.Body.Close() != nil || answer.StatusCode != http.StatusOK {
				t.Fatal(answer, err)
			}
			c := s.client(t)
			if got := c.get("/ip"); got.status != http.StatusOK || got.header.Get("X-Stint-Emergency") != "" {
				t.Errorf("got\n%s", &got)
			}
			got := c.get("/ip")
			wantDenied(t, &got, http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
			if !strings.HasPrefix(got.header.Get("X-Stint-Emergency"), "until=") {
				t.Errorf("got\n%s", &got)
			}
		})
	}
}

func problemDetails(t *testing.T, s *site) {
	c := s.client(t)
	c.get("/ip")
	c.get("/ip")
	got := c.get("/ip", "Accept", "application/problem+json")
	var problem struct {
		Type   string
		Status int
	}
	if err := json.Unmarshal([]byte(got.body), &problem); err != nil || got.status != 429 || problem.Status != 429 || !strings.HasSuffix(problem.Type, "#quota-exceeded") {
		t.Errorf("%v in\n%s", err, &got)
	}
	wantHeader(t, &got, "Content-Type", "application/problem+json")
}

func listedIs403(t *testing.T, s *site) {
	got := s.client(t).get("/", "X-API-Key", "revoked")
	wantDenied(t, &got, http.StatusForbidden, "DENIED_BY_LIST")
	if got.header.Get("Retry-After") != "" || got.header.Get("RateLimit") != "" {
		t.Errorf("got\n%s", &got)
	}
}

func dialects(t *testing.T, s *site) {
	c := s.client(t)
	for _, status := range []int{http.StatusOK, http.StatusTooManyRequests} {
		got := c.get("/dialect")
		if got.status != status || got.header.Get("X-RateLimit-Limit") != "" || got.header.Get("RateLimit") != "" {
			t.Errorf("got %s", &got)
		}
		wantHeader(t, &got, "RateLimit-Limit", "1")
		wantHeader(t, &got, "RateLimit-Remaining", "0")
		wantHeader(t, &got, "RateLimit-Reset", "3600")
	}
}

func longAnswers(t *testing.T, s *site) {
	c := s.client(t)
	first := c.get("/many")
	first.received(t)
	second := c.get("/many", "Accept", "application/problem+json")
	if second.status != http.StatusTooManyRequests || second.header.Get("Retry-After") != "3600" {
		t.Errorf("got %s", &second)
	}
	for _, got := range []reply{first, second} {
		if policies := strings.Count(got.header.Get("RateLimit-Policy"), ";w="); policies != 2*many {
			t.Errorf("%d policies in\n%s", policies, &got)
		}
	}
}

func uncounted(t *testing.T, s *site) {
	got := s.client(t).get("/uncounted")
	got.received(t)
	for name := range got.header {
		if strings.HasPrefix(name, "X-Ratelimit") || strings.HasPrefix(name, "Ratelimit") || name == "Retry-After" {
			t.Errorf("%s in\n%s", name, &got)
		}
	}
}

// ways lists the headers in which a client can claim another address.
var ways = []string{"X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Client-IP", "True-Client-IP"}

func spoofedAddress(t *testing.T, s *site) {
	victim, c := "203.0.113.7", s.client(t)
	c.get("/ip")
	c.get("/ip")
	for _, name := range ways {
		value := victim
		if name == "Forwarded" {
			value = "for=" + victim
		}
		if got := c.get("/ip", name, value); got.status != http.StatusTooManyRequests {
			t.Errorf("%s made the client another: %s", name, &got)
		}
	}
	if got := c.get("/ip", "X-Forwarded-For", victim, "X-Forwarded-For", "127.0.0.1"); got.status != http.StatusTooManyRequests {
		t.Errorf("two lines made the client another: %s", &got)
	}
	if got := c.get("/ip", "Connection", "X-Forwarded-For, X-Original-URI, X-Forwarded-Uri, close"); got.status != http.StatusTooManyRequests && got.status != http.StatusBadRequest {
		t.Errorf("Connection took a header from the proxy: %s", &got)
	}
}

// spoofedRequest requests a counted path with headers that name another path, and the
// reverse.
func spoofedRequest(t *testing.T, s *site) {
	for _, name := range []string{"X-Original-URI", "X-Forwarded-Uri", "X-Original-Method", "X-Forwarded-Method", "X-Forwarded-Host", "X-Original-URL", "X-Rewrite-URL", "X-HTTP-Method-Override"} {
		value := "/uncounted"
		if strings.Contains(name, "Method") {
			value = "PUT"
		}
		c := s.client(t)
		first := c.get("/ip", name, value)
		first.received(t)
		wantHeader(t, &first, "X-RateLimit-Remaining", "1")
		second := c.get("/ip", name, "/ip")
		wantHeader(t, &second, "X-RateLimit-Remaining", "0")
		if got := c.get("/ip", name, value); got.status != http.StatusTooManyRequests {
			t.Errorf("%s made it another request: %s", name, &got)
		}
	}
}

func keysApart(t *testing.T, s *site) {
	for i, c := range []struct {
		name, value string
	}{{"X-API-Key", "a"}, {"Authorization", "Bearer b"}} {
		client := s.client(t)
		for range 2 {
			got := client.get("/key", c.name, c.value)
			got.received(t)
		}
		if got := s.client(t).get("/key", c.name, c.value); got.status != http.StatusTooManyRequests {
			t.Errorf("%d: the key is not counted: %s", i, &got)
		}
		if got := client.get("/key", c.name, c.value+"2"); got.status != http.StatusOK {
			t.Errorf("%d: another key: %s", i, &got)
		}
	}
}

func paths(t *testing.T, s *site) {
	for _, path := range []string{
		"/a%20b/%C3%A9", "/a%20b/%C3%A9?x=1&y=%26%20+&x=2", "/%61%20b/%c3%a9?", "/./a%20b//%C3%A9/", "/x/../a%20b/%C3%A9?q=/ip",
	} {
		c := s.client(t)
		first := c.do(http.MethodPost, path, nil)
		first.received(t)
		wantHeader(t, &first, "X-RateLimit-Limit", "1")
		if got := c.do(http.MethodPost, path, nil); got.status != http.StatusTooManyRequests {
			t.Errorf("%s is not counted: %s", path, &got)
		}
	}
	c := s.client(t)
	for _, path := range []string{"/x?a=%20b&c=%2F%3f", "/x%2Fy/%C3%A9", "/x;y=1?z", "/x?"} {
		got := c.get(path)
		if uri := got.received(t).URI; uri != path {
			t.Errorf("the application received %s, not %s", uri, path)
		}
	}
}

func methods(t *testing.T, s *site) {
	c := s.client(t)
	for range 3 {
		got := c.get("/a%20b/%C3%A9") // its rule counts POST
		got.received(t)
	}
	for _, method := range []string{"PATCH", "BREW", "HEAD"} {
		if method == "BREW" && s.proxy.knownMethods {
			continue
		}
		first := c.do(method, "/pot", nil)
		if !s.proxy.quiet || method != "HEAD" { // the answer to HEAD has no body with the received request
			wantHeader(t, &first, "X-RateLimit-Limit", "1")
		}
		if first.status != http.StatusOK {
			t.Errorf("%s: %s", method, &first)
		}
		second := c.do(method, "/pot", nil)
		if second.status != http.StatusTooManyRequests || (method == "HEAD") != (second.body == "") {
			t.Errorf("%s is not counted: %s", method, &second)
		}
	}
	for _, method := range []string{"PUT", "DELETE", "OPTIONS"} {
		got := c.do(method, "/pot", nil)
		if h := got.received(t); h.Method != method {
			t.Errorf("%s arrived as %s", method, h.Method)
		}
	}
}

func hostAndHeaders(t *testing.T, s *site) {
	c := s.client(t)
	for range 2 {
		got := c.get("/host", "Host", "other.example")
		got.received(t)
		if got := c.get("/plan", "X-Plan", "free"); got.status != http.StatusOK {
			t.Errorf("got %s", &got)
		}
	}
	for _, host := range []string{"shop.example", "other.example"} {
		if got := c.get("/host", "Host", "other.example", "X-Forwarded-Host", host); got.status != http.StatusOK || got.header.Get("RateLimit") != "" {
			t.Errorf("X-Forwarded-Host: %s", &got)
		}
	}
	c.get("/host", "Host", "shop.example")
	if got := c.get("/host", "Host", "shop.example", "X-Forwarded-Host", "other.example"); got.status != http.StatusTooManyRequests {
		t.Errorf("the host is not counted: %s", &got)
	}
	c.get("/plan", "X-Plan", "gold")
	if got := c.get("/plan", "X-Plan", "gold"); got.status != http.StatusTooManyRequests {
		t.Errorf("the header is not counted: %s", &got)
	}
}

// hostIsOne has clients name two hosts, or one host in an unusual form. Either a rule
// by host counts the host that the application sees, or the request is refused.
func hostIsOne(t *testing.T, s *site) {
	counted := 0
	for _, target := range []string{"", "http://shop.example", "http://SHOP.example", "http://other.example", "http://shop.example:80"} {
		for _, host := range []string{"Host: shop.example", "Host: Shop.Example", "Host: other.example", "Host: shop.example:80", "Host: shop.example:81", "Host:\tshop.example", "Host:"} {
			_, _, answer := s.client(t).raw("GET " + target + "/host HTTP/1.1\r\n" + host + "\r\nX-Forwarded-Host: other.example\r\nForwarded: host=other.example\r\n\r\n")
			body, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Fatal(err)
			}
			if answer.StatusCode == http.StatusBadRequest {
				continue
			}
			got := reply{answer.Proto, answer.StatusCode, answer.Header, string(body)}
			if s.proxy.quiet {
				got.addReceivedLimits()
			}
			seen, _, _ := strings.Cut(strings.ToLower(got.received(t).Host), ":")
			hasLimit := got.header.Get("X-RateLimit-Limit") == "1"
			if hasLimit != (seen == "shop.example") {
				t.Errorf("%s with %q: the application received %s, counted is %v", target, host, seen, hasLimit)
			}
			if hasLimit {
				counted++
			}
		}
	}
	if counted < 4 {
		t.Errorf("%d were counted: the others test nothing", counted)
	}
}

// bodies sends bodies with a length, and in chunks.
func bodies(t *testing.T, s *site) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 60_000) // just below what nginx takes by default
	sum := sha256.Sum256(body)
	c := s.client(t)
	for name, reader := range map[string]io.Reader{"length": bytes.NewReader(body), "chunks": io.MultiReader(bytes.NewReader(body))} {
		got := c.do(http.MethodPost, "/uncounted", reader)
		if h := got.received(t); h.Length != int64(len(body)) || h.Sum != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: %d bytes arrived", name, h.Length)
		}
	}
	if got := c.do(http.MethodPost, "/uncounted", bytes.NewReader(body), "Expect", "100-continue"); got.received(t).Length != int64(len(body)) {
		t.Errorf("after a while: %s", &got)
	}
	if got := c.do(http.MethodPost, "/ip", bytes.NewReader(body)); got.received(t).Length != int64(len(body)) {
		t.Errorf("a counted one: %s", &got)
	}
	c.get("/ip")
	if got := c.do(http.MethodPost, "/ip", strings.NewReader("a=b")); got.status != http.StatusTooManyRequests {
		t.Errorf("with a body: %s", &got)
	}
}

const upgrade = "GET /socket HTTP/1.1\r\nHost: app.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"

func upgrades(t *testing.T, s *site) {
	c := s.client(t)
	conn, r, first := c.raw(upgrade)
	if hasLimit := first.Header.Get("X-RateLimit-Limit") == "1"; first.StatusCode != http.StatusSwitchingProtocols || hasLimit == s.proxy.mute101 {
		t.Fatalf("got %d, %v", first.StatusCode, first.Header)
	}
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	echoed := make([]byte, 5)
	if _, err := io.ReadFull(r, echoed); err != nil || string(echoed) != "hello" {
		t.Errorf("echoed %q, %v", echoed, err)
	}
	if _, _, second := c.raw(upgrade); second.StatusCode != http.StatusTooManyRequests {
		t.Errorf("the second: %d", second.StatusCode)
	}
}

// events has the application send server-sent events, each after the client has
// received the last one.
func events(t *testing.T, s *site) {
	c := s.client(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://app.example/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	answer, err := c.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if hasLimit := answer.Header.Get("X-RateLimit-Limit") == "1"; answer.StatusCode != http.StatusOK || hasLimit == s.proxy.quiet {
		t.Fatalf("got %d, %v", answer.StatusCode, answer.Header)
	}
	body := bufio.NewReader(answer.Body)
	for i := range 3 {
		line, err := body.ReadString('\n')
		if want := fmt.Sprintf("data: %d\n", i); err != nil || line != want {
			t.Fatalf("%q, %v; want %q", line, err, want)
		}
		s.application.next <- struct{}{}
	}
	if rest, err := io.ReadAll(body); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v behind the last event", rest, err)
	}
	if got := c.get("/events"); got.status != http.StatusTooManyRequests {
		t.Errorf("the second: %s", &got)
	}
}

// raw sends text over a new connection and reads one answer.
func (c *client) raw(text string) (net.Conn, *bufio.Reader, *http.Response) {
	c.t.Helper()
	conn, err := c.http.Transport.(*http.Transport).DialContext(c.t.Context(), "tcp", "")
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, text); err != nil {
		c.t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return conn, r, answer
}

// inStep alternates denied and allowed requests on persistent connections, some with
// bodies that nobody reads. Each request must get its own answer.
func inStep(t *testing.T, s *site) {
	c := s.client(t)
	c.get("/ip")
	c.get("/ip")
	for i := range 10 {
		if got := c.do(http.MethodPost, "/ip", strings.NewReader("a body")); got.status != http.StatusTooManyRequests {
			t.Fatalf("%d: %s", i, &got)
		}
		path := "/uncounted/" + strconv.Itoa(i)
		got := c.get(path)
		if uri := got.received(t).URI; uri != path {
			t.Fatalf("%s got the answer of %s", path, uri)
		}
	}
}

// HAProxy speaks HTTP/2 to clients that begin with it, and then receives absolute URLs.
func TestHAProxySpeaksHTTP2(t *testing.T) {
	for i := range proxies {
		if p := &proxies[i]; p.name == "haproxy" {
			s := newSite(t, p, patient)
			s.http2 = true
			if got := s.client(t).get("/"); got.proto != "HTTP/2.0" {
				t.Errorf("it speaks %s", got.proto)
			}
			for _, f := range []func(*testing.T, *site){allowedShowsLimit, deniedShowsReason, spoofedRequest, paths, bodies} {
				f(t, s)
			}
		}
	}
}
