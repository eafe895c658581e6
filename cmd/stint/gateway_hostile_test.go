package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// wholeGateway is a file with every key of an upstream and of a route. Its verbs are the
// URLs of two servers by http and one by https, and the files of a certificate.
const wholeGateway = `
upstreams:
  api:
    servers: [{url: %[1]s, weight: 3}, %[2]s]
    host: client
    health: {path: /healthz, interval: 200ms}
    timeouts: {connect: 2s, header: 2s, whole: 10s, idle: 30s}
    breaker: {failure_ratio: 50%%, minimum_calls: 20, window: 10s, open_for: 1s, max_open_for: 1m}
    ejection: {failures: 5, for: 10s, max_for: 5m, max_share: 50%%}
    panic_below: 50%%
    bulkhead: {limit: 50, queue: 10, max_wait: 200ms}
    retry: {attempts: 3, on: [connect, reset, 502, 503, 504], budget: 100%%}
  safe:
    servers: %[3]s
    tls: {ca: %[4]s, cert: %[4]s, key: %[5]s, server_name: 127.0.0.1}
  gone: {servers: http://127.0.0.1:1, panic_below: off}
routes:
  - {name: api, host: api.example, path_prefix: /v1/, upstream: api, strip_prefix: /v1, add_prefix: /app,
     request_headers: {set: {X-Plan: gold}, remove: [X-Debug]}, response_headers: {set: {X-Served: gateway}, remove: [Server]}}
  - {host: "*.safe.example", upstream: safe}
  - {path_prefix: /gone/, upstream: gone, fallback: {status: 200, body: closed, headers: {Content-Type: text/x-closed}}}
`

const wholeRules = "rules:\n" +
	"  - {id: secret, match: {path_prefix: /v1/secret}, by: [ip], deny_all: true, limit: 1/s}\n" +
	"  - {id: all, match: {path_prefix: /}, by: [ip], limit: 1000000/h}\n"

const (
	apiHost = " HTTP/1.1\r\nHost: api.example\r\n"
	last    = "Connection: close\r\n\r\n"

	// smuggled follows requests whose end can be read in two ways.
	smuggled = "GET /v1/secret/smuggled" + apiHost + last
)

// besieged is a gateway process with every key, and what its upstreams got.
type besieged struct {
	*process

	mu       sync.Mutex
	arrived  []string // targets
	requests []string // method, target and body
	ended    []string // targets of requests that ended because the gateway left
}

func besiege(t *testing.T) *besieged {
	t.Helper()
	b := &besieged{}
	certificate, key := selfSigned(t)
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	var arguments []any
	for _, secure := range []bool{false, false, true} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(b.upstream))
		s.Config.ErrorLog = log.New(io.Discard, "", 0) // checks connect without a handshake
		if secure {
			s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
			s.StartTLS()
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
		arguments = append(arguments, s.URL)
	}
	folder := t.TempDir()
	file := writeFile(t, filepath.Join(folder, "gateway.yaml"), fmt.Sprintf(wholeGateway, append(arguments, certificate, key)...))
	rules := writeFile(t, filepath.Join(folder, "rules.yaml"), wholeRules)
	b.process = startServer(t, nil, "--rules", rules, "--gateway", "127.0.0.1:0", "--gateway-config", file)
	return b
}

// upstream serves a request by the end of its path.
func (b *besieged) upstream(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" {
		return
	}
	b.note(&b.arrived, r.URL.Path)
	body, err := io.ReadAll(r.Body)
	b.note(&b.requests, fmt.Sprintf("%s %s %q", r.Method, r.RequestURI, body))
	if err != nil {
		b.note(&b.ended, r.URL.Path)
		return
	}
	w.Header().Set("Server", "app")
	switch filepath.Base(r.URL.Path) {
	case "hang":
		<-r.Context().Done()
		b.note(&b.ended, r.URL.Path)
	case "endless":
		for err == nil {
			_, err = w.Write(make([]byte, 64<<10))
		}
		b.note(&b.ended, r.URL.Path)
	case "reset":
		panic(http.ErrAbortHandler)
	case "503":
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		fmt.Fprintf(w, "%s %s %q host=%s plan=%s debug=%s upgrade=%s", r.Method, r.RequestURI, body, r.Host, r.Header["X-Plan"], r.Header["X-Debug"], r.Header["Upgrade"])
	}
}

func (b *besieged) note(list *[]string, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*list = append(*list, text)
}

// count returns the number of lines with a text.
func (b *besieged) count(list *[]string, text string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range *list {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// await waits for a line with a text.
func (b *besieged) await(t *testing.T, list *[]string, text string) {
	t.Helper()
	late := time.After(20 * time.Second)
	for b.count(list, text) == 0 {
		select {
		case <-late:
			t.Fatalf("the upstreams do not note %s", text)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// answers sends raw bytes and returns the answers until the gateway closes the connection:
// status, body, and some header fields of each.
func (b *besieged) answers(t *testing.T, raw string) (all []string) {
	t.Helper()
	w := dial(t, b.addr("gateway"))
	go func() { _, _ = io.WriteString(w.conn, raw) }() // the gateway may answer before it has read all
	method, _, _ := strings.Cut(raw, " ")
	for reader := bufio.NewReader(w.conn); ; {
		res, err := http.ReadResponse(reader, &http.Request{Method: method})
		if err != nil {
			return all
		}
		body, _ := io.ReadAll(res.Body)
		all = append(all, fmt.Sprintf("%d %s server=%s served=%s retry=%s", res.StatusCode, body, res.Header["Server"], res.Header["X-Served"], res.Header["Retry-After"]))
		_ = res.Body.Close()
	}
}

// wantAnswers sends raw bytes and wants each answer to contain a text.
func (b *besieged) wantAnswers(t *testing.T, raw string, want ...string) {
	t.Helper()
	got := b.answers(t, raw)
	if !slices.EqualFunc(got, want, strings.Contains) {
		t.Errorf("%.300q: got %q, want %q", raw, got, want)
	}
}

// A gateway with every key serves well-behaved clients after any number of hostile ones.
func TestAGatewayWithEveryKeyWithstandsHostileClients(t *testing.T) {
	b := besiege(t)
	silent := dial(t, b.addr("gateway"))
	_ = silent.conn.SetDeadline(time.Now().Add(time.Minute))
	silent.send("GET /v1/x HTTP/1.1\r\nHost: api.ex") // the rest never arrives
	t.Run("smuggling", b.smuggling)
	t.Run("headersAndHosts", b.headersAndHosts)
	t.Run("paths", b.paths)
	t.Run("deadlines", b.deadlines)
	t.Run("upgrades", b.upgrades)
	t.Run("repeats", b.repeats)
	t.Run("leaving", b.leaving)
	t.Run("flood", b.flood)
	if got := silent.readAll(); got != "" {
		t.Errorf("a header without an end is answered: %s", got)
	}
	b.wantAnswers(t, "GET /v1/x"+apiHost+last, `200 GET /app/x "" host=api.example plan=[gold] debug=[] upgrade=[] server=[] served=[gateway]`)
	b.wantAnswers(t, "GET /x HTTP/1.1\r\nHost: a.safe.example\r\n"+last, `200 GET /x ""`)
	_, metrics := do(t, http.MethodGet, "http://"+b.addr("admin")+"/metrics", "")
	for _, want := range []string{
		`stint_gateway_requests_in_flight{route="api"} 0`,
		`stint_gateway_bulkhead_in_flight{upstream="api"} 0`,
		`stint_gateway_bulkhead_waiting{upstream="api"} 0`,
		`stint_gateway_circuit_openings_total{upstream="api"} 0`, // they are one client address
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if b.count(&b.requests, "smuggled") > 0 || b.count(&b.requests, "secret") > 0 {
		t.Errorf("the upstreams got what the rules deny: %q", b.requests)
	}
	if text := strings.Join(b.logged(), "\n"); strings.Contains(text, "panic") || strings.Contains(text, "status=400") || strings.Contains(text, "nothing was sent with") {
		t.Errorf("the server panicked, or warns of what clients did wrong:\n%s", text)
	}
}

// smuggling sends requests whose length can be read in two ways. They are refused, or read
// in one way by the rules and the upstreams, so that the rules decide every request.
func (b *besieged) smuggling(t *testing.T) {
	const (
		ok, denied, bad, unsupported = `200 POST /app/x ""`, "RATE_LIMIT_EXCEEDED", "400 ", "501 "
		post                         = "POST /v1/x" + apiHost
		chunked                      = post + "Transfer-Encoding: chunked\r\n\r\n"
	)
	for raw, want := range map[string][]string{
		post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled:          {ok, denied},
		post + "Transfer-Encoding: chunked\r\nContent-Length: 500\r\n\r\n0\r\n\r\n" + smuggled:        {ok, denied},
		post + "Content-Length: 0\r\nContent-Length: 80\r\n\r\n" + smuggled:                           {bad},
		post + "Content-Length: 0, 80\r\n\r\n" + smuggled:                                             {bad},
		post + "Content-Length: +4\r\n\r\nabcd":                                                       {bad},
		post + "Content-Length: -1\r\n\r\n" + smuggled:                                                {bad},
		post + "Content-Length: 99999999999999999999\r\n\r\n" + smuggled:                              {bad},
		post + "Content-Length : 80\r\n\r\n" + smuggled:                                               {bad},
		post + "Content_Length: 80\r\n\r\n" + smuggled:                                                {ok, denied},
		post + "Connection: Content-Length, close\r\nContent-Length: 4\r\n\r\nabcd":                   {"BAD_CONNECTION"},
		post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + smuggled:                              {unsupported},
		post + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + smuggled:                     {unsupported},
		post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled: {unsupported},
		post + "Transfer-Encoding:\vchunked\r\n\r\n0\r\n\r\n" + smuggled:                              {bad},
		post + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + smuggled:                           {ok, denied},
		post + "X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled:                         {bad},
		post + "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled:                         {ok, denied},
		"POST /v1/x HTTP/1.0\r\nHost: api.example\r\nTransfer-Encoding: chunked\r\n\r\n" + smuggled:   {ok},
		chunked + "3;a=b\r\nabc\r\n0\r\nX-Api-Key: t\r\n\r\n" + smuggled:                              {`200 POST /app/x "abc"`, denied},
		chunked + "3\nabc\n0\n\n" + smuggled:                                                          {"BAD_BODY"},
		chunked + "0x3\r\nabc\r\n0\r\n\r\n":                                                           {"BAD_BODY"},
		chunked + "-1\r\nabc\r\n0\r\n\r\n":                                                            {"BAD_BODY"},
		chunked + "fffffffffffffffff\r\nabc\r\n0\r\n\r\n":                                             {"BAD_BODY"},
		chunked + "2\r\nabc\r\n0\r\n\r\n":                                                             {"BAD_BODY"},
		chunked + "3;" + strings.Repeat("a", 5000) + "\r\nabc\r\n0\r\n\r\n":                           {"BAD_BODY"},
		"GET /v1/x" + apiHost + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled:              {`200 GET /app/x ""`, denied},
	} {
		b.wantAnswers(t, raw, want...)
	}
}

// headersAndHosts sends huge headers and odd hosts.
func (b *besieged) headersAndHosts(t *testing.T) {
	for raw, want := range map[string]string{
		"GET /v1/x" + apiHost + "A: " + strings.Repeat("a", 40<<10) + "\r\n" + last:       "431 ",
		"GET /v1/" + strings.Repeat("a", 40<<10) + apiHost + last:                         "431 ",
		"GET /v1/x" + apiHost + strings.Repeat("A: a\r\n", 3000) + last:                   "200 GET /app/x",
		"GET /v1/x" + apiHost + "X-Plan: free\r\nX_Plan: free\r\nX-Debug: 1\r\n" + last:   "plan=[gold] debug=[]",
		"GET /v1/x" + apiHost + "Host: api.example\r\n" + last:                            "400 ",
		"GET /v1/x HTTP/1.1\r\n" + last:                                                   "400 ",
		"GET /v1/x HTTP/1.1\r\nHost: \r\n" + last:                                         "NO_ROUTE",
		"GET /v1/x HTTP/1.1\r\nHost: api.example@a\r\n" + last:                            "400 ",
		"GET /v1/x HTTP/1.1\r\nHost: api.example\xff\r\n" + last:                          "400 ",
		"GET /v1/x HTTP/1.1\r\nHost: API.Example.:99999\r\n" + last:                       "200 GET /app/x",
		"GET /v1/x HTTP/1.1\r\nHost: api.example..\r\n" + last:                            "NO_ROUTE",
		"GET /v1/x HTTP/1.1\r\nHost: safe.example\r\n" + last:                             "NO_ROUTE",
		"GET http://api.example/v1/x HTTP/1.1\r\nHost: a.safe.example\r\n" + last:         "plan=[gold]",
		"GET http://api.example HTTP/1.1\r\nHost: a.safe.example\r\n" + last:              "NO_ROUTE",
		"GET api.example:80 HTTP/1.1\r\nHost: api.example\r\n" + last:                     "BAD_PATH",
		"GET * HTTP/1.1\r\nHost: api.example\r\n" + last:                                  "BAD_PATH",
		"CONNECT api.example:80 HTTP/1.1\r\nHost: api.example\r\n" + last:                 "METHOD_NOT_ALLOWED",
		strings.Repeat("M", 20<<10) + " /gone/x HTTP/1.1\r\nHost: api.example\r\n" + last: "UPSTREAM_UNAVAILABLE",
	} {
		b.wantAnswers(t, raw, want)
	}
	for _, line := range b.logged() {
		if len(line) > 2000 {
			t.Errorf("a client makes a log line of %d bytes: %.300s…", len(line), line)
		}
	}
}

// paths spells the denied path in many ways. No spelling reaches an upstream that reads it as
// the denied path.
func (b *besieged) paths(t *testing.T) {
	const denied, bad, none = "RATE_LIMIT_EXCEEDED", "BAD_PATH", "NO_ROUTE"
	for path, want := range map[string]string{
		"/v1/secret": denied, "/v1//secret/x": denied, "//v1/secret/x": denied, "/v1/%73ecret/x": denied, "/v1%2fsecret": denied,
		"/v1/x/../secret/x": denied, "/v1/x%2F..%2Fsecret/x": denied, "/v1/./secret": denied, "/v1/%2e%2e/v1/secret/x": denied,
		"/v1/;/secret/x": denied, "/v1;a=b/secret/x": denied, "/v1/x;/../secret/x": denied, "/v1/x/..;/secret/x": denied, "/v1/x/%2e%2e;/secret": denied,
		"/gone/../v1/secret": denied, "/gone/..;/v1/secret": denied, "/v1/secret%00": denied,
		"/..": bad, "/v1/..;/..;/x": bad, "/../v1/x": bad, "/gone/../v1/x": bad, "/v1%2Fx": bad,
		"/v1/..": none, "/V1/secret/x": none, "//api.example/v1/x": none,
		"/v1/%": "400 ", "/v1/a b": "400 ", "/v1/\x7f": "400 ",
		"/v1": "200 GET /app ", "/v1/": "200 GET /app/ ", "/v1//x": "200 GET /app//x ", "/v1/...": "200 GET /app/... ",
		"/v1/a;b=c/%20%2e?/../v1=%zz": "200 GET /app/a;b=c/%20%2e?/../v1=%zz ",
	} {
		b.wantAnswers(t, "GET "+path+apiHost+last, want)
	}
}

// deadlines gives too little time, too much and nonsense. Nothing is sent without time left,
// and nonsense gives no more time than the upstream has.
func (b *besieged) deadlines(t *testing.T) {
	const over, upstream = "504 {\"error\":{\"code\":\"DEADLINE_EXCEEDED\"", "504 {\"error\":{\"code\":\"UPSTREAM_TIMEOUT\""
	var all sync.WaitGroup
	for i, c := range []struct {
		fields, want string
		sent         int
	}{
		{"X-Deadline-Ms: 0", over, 0},
		{"X-Deadline-Ms: 1", over, 0},
		{"X-Deadline-Ms: -99999999999999999999", over, 0},
		{"X-Deadline-Ms: 5000\r\nX-Deadline-Ms: 0", over, 0},
		{"X-Deadline-Ms: 5000\r\nGrpc-Timeout: 1n", over, 0},
		{"X-Deadline-Ms: 99999999999999999999\r\nX-Deadline-Ms: 1000", over, 1},
		{"X-Envoy-Expected-Rq-Timeout-Ms: 1000", over, 1},
		{"X-Deadline-Ms: 99999999999999999999999", upstream, 1},
		{"X-Deadline-Ms: 9223372036854", upstream, 1},
		{"X-Deadline-Ms: 1e1", upstream, 1},
		{"X-Deadline-Ms: ", upstream, 1},
		{"Grpc-Timeout: 99999999H", upstream, 1},
		{"Grpc-Timeout: -1m", upstream, 1},
		{"X-Envoy-Expected-Rq-Timeout-Ms: 0", upstream, 1},
	} {
		all.Go(func() {
			target := fmt.Sprintf("/d%d/hang", i)
			b.wantAnswers(t, "GET /v1"+target+apiHost+c.fields+"\r\n"+last, c.want)
			if n := b.count(&b.requests, "/app"+target+" "); n != c.sent {
				t.Errorf("%q: the upstream got %d requests, want %d", c.fields, n, c.sent)
			}
		})
	}
	all.Wait()
	// Bodies that stop arriving, with and without a copy for another attempt.
	for _, method := range []string{http.MethodPost, http.MethodPut} {
		b.wantAnswers(t, method+" /v1/x"+apiHost+"X-Deadline-Ms: 200\r\nContent-Length: 400\r\n"+last+"abc", over)
	}
}

// upgrades asks for other protocols than the application speaks. The connection stays one
// of HTTP, so that the rules decide what follows.
func (b *besieged) upgrades(t *testing.T) {
	const denied = "RATE_LIMIT_EXCEEDED"
	for fields, want := range map[string]string{
		"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__": "upgrade=[]",
		"Connection: Upgrade\r\nUpgrade: websocket, h2c":                                          "upgrade=[]",
		"Upgrade: websocket": "upgrade=[]",
		"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c":                              "upgrade=[websocket]",
		"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nContent-Length: 0": "upgrade=[websocket]",
	} {
		b.wantAnswers(t, "GET /v1/x"+apiHost+fields+"\r\n\r\n"+smuggled, want, denied)
	}
	b.wantAnswers(t, "GET /v1/x"+apiHost+"Connection: close, X-Api-Key\r\n\r\n"+smuggled, "BAD_CONNECTION")
}

// repeats sends requests that fail. Only what may be repeated is sent again, and only as
// often as the file says.
func (b *besieged) repeats(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete} {
		for _, failure := range []string{"503", "reset"} {
			want, status := 1, map[string]string{"503": "503 ", "reset": "UPSTREAM_FAILED"}[failure]
			if method == http.MethodPut || method == http.MethodDelete {
				want = 3
			}
			target := "/" + method + "/" + failure
			b.wantAnswers(t, "POST /v1/x"+apiHost+last, "200 ") // leaves an idle connection
			b.wantAnswers(t, method+" /v1"+target+apiHost+"Idempotency-Key: k\r\nContent-Length: 0\r\n"+last, status)
			if n := b.count(&b.requests, "/app"+target+" "); n != want {
				t.Errorf("%s %s: the upstream got %d requests, want %d", method, failure, n, want)
			}
		}
	}
	b.wantAnswers(t, "GET /v1/GET/reset"+apiHost+last, "UPSTREAM_FAILED")
	if n := b.count(&b.requests, "/app/GET/reset "); n < 3 || n > 6 { // an idle connection that breaks costs one more
		t.Errorf("the upstream got %d requests, want 3 to 6", n)
	}
	b.wantAnswers(t, "GET /gone/x"+apiHost+last, "200 closed")
	b.wantAnswers(t, "POST /gone/x"+apiHost+last, "UPSTREAM_UNAVAILABLE")
}

// leaving breaks off in the middle. The upstreams learn of it.
func (b *besieged) leaving(t *testing.T) {
	for target, raw := range map[string]string{
		"/l1/hang":    "GET /v1/l1/hang" + apiHost + "\r\n",
		"/l2/hang":    "POST /v1/l2/hang" + apiHost + "Content-Length: 3\r\n\r\nabc",
		"/l3/endless": "GET /v1/l3/endless" + apiHost + "\r\n",
		"/l4/upload":  "POST /v1/l4/upload" + apiHost + "Content-Length: 300000\r\n\r\nabc",
		"/l5/upload":  "POST /v1/l5/upload" + apiHost + "Transfer-Encoding: chunked\r\n\r\nfff\r\nabc",
	} {
		w := dial(t, b.addr("gateway"))
		w.send(raw)
		b.await(t, &b.arrived, target)
		_ = w.conn.Close()
		b.await(t, &b.ended, target)
	}
	half := dial(t, b.addr("gateway"))
	half.send("GET /v1/l6/hang" + apiHost + last)
	b.await(t, &b.arrived, "/l6/hang")
	if err := half.conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	b.await(t, &b.ended, "/l6/hang")
	_ = half.readAll()
}

// flood fills the bulkhead. Further requests are answered at once, and those that have a
// place are answered when the upstream's time is over.
func (b *besieged) flood(t *testing.T) {
	var all sync.WaitGroup
	var refused atomic.Int64
	for range 100 {
		all.Go(func() {
			switch got := strings.Join(b.answers(t, "GET /v1/flood/hang"+apiHost+last), "; "); {
			case strings.Contains(got, "OVERLOADED") && strings.Contains(got, "retry=[1]"):
				refused.Add(1)
			case !strings.Contains(got, "UPSTREAM_TIMEOUT"):
				t.Errorf("got %q", got)
			}
		})
	}
	all.Wait()
	if n := b.count(&b.requests, "/app/flood/hang "); refused.Load() == 0 || int64(n) != 100-refused.Load() {
		t.Errorf("%d requests were sent and %d refused, of 100", n, refused.Load())
	}
}
