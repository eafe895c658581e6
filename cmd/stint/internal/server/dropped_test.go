package server

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// brokenOff has, by listener, the bytes that clients have sent when they leave.
func brokenOff() map[string][]string {
	body := "POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40\r\n\r\n"
	call := http2Call()
	return map[string][]string{
		"http": {"", "POST /v1/ta", body, body + `{"key":"k","li`, "GET /v1/auth/x HTTP/1.1\r\nHost: x\r\n\r\n",
			"POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"it", http2Preface()},
		"gateway": {"", "GET / HT", body, body + "half of it", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", http2Preface()},
		"grpc":    {"", http2.ClientPreface[:9], http2Preface(), http2Preface() + call[:20], http2Preface() + call[:len(call)-5], http2Preface() + call},
		"resp":    {"", "*5\r\n$11\r\nCL.THR", "CL.THROTTLE k 1 1 1\r\nCL.TH"},
	}
}

// TestConnectionsThatDropLeaveNothing opens ten thousand connections to the four listeners and
// closes them in the middle of a request. Afterwards no goroutine and no memory of them is left.
func TestConnectionsThatDropLeaveNothing(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(upstream.Close)
	to, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := run(t, Config{GRPC: "127.0.0.1:0", RESP: "127.0.0.1:0", Gateway: "127.0.0.1:0", Upstreams: []*url.URL{to}})
	each := 2500
	if testing.Short() || raceDetector {
		each = 250
	}
	before := runtime.NumGoroutine() + 20 // some goroutines begin a little later; a leak has hundreds
	settle := func() {
		upstream.CloseClientConnections() // idle connections that the gateway keeps for its next requests are no leak
		s.await(t, before)
	}
	s.drop(100) // creates the state that is made once, and fills the pools
	settle()
	heap := s.heap()
	s.drop(each)
	settle()
	const bound = 1 << 20
	grown := s.heap() - heap
	t.Logf("%d dropped connections left %d bytes", 4*each, grown)
	if grown > bound {
		t.Errorf("%d dropped connections left %d bytes, want at most %d", 4*each, grown, bound)
	}
	for path, body := range map[string]string{"/v1/take": `{"key":"k","limit":"9/s"}`, "/v1/check": `{"attributes":{"api_key":"after"}}`} {
		if got := s.post("http", path, body); got.status != http.StatusOK {
			t.Errorf("%s afterwards: status %d", path, got.status)
		}
	}
}

// drop opens the given number of connections to each listener, some at a time.
func (r *running) drop(each int) {
	r.t.Helper()
	var all sync.WaitGroup
	for name, parts := range brokenOff() {
		all.Go(func() {
			for i := range each {
				r.dropOne(r.Addr(name), parts[i%len(parts)], i%3 == 0)
			}
		})
	}
	all.Wait()
}

// dropOne closes a connection, in order or by a reset, as for a client that was killed.
func (r *running) dropOne(to net.Addr, sent string, inOrder bool) {
	conn, err := net.Dial("tcp", to.String())
	if err != nil {
		r.t.Error(err)
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, sent) // the server may have closed the connection
	if !inOrder {
		_ = conn.(*net.TCPConn).SetLinger(0) // resets, so that the port is free at once
	}
}

// await waits until the number of goroutines is back to its value before the test.
func (r *running) await(t *testing.T, before int) {
	t.Helper()
	end := time.After(patience)
	for runtime.NumGoroutine() > before {
		select {
		case <-end:
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, and there were %d:\n%.20000s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// heap returns the bytes in use, without the log of the test.
func (r *running) heap() int64 {
	r.logs.mu.Lock()
	r.logs.text = bytes.Buffer{}
	r.logs.mu.Unlock()
	var m runtime.MemStats
	for range 2 { // a pool keeps what it holds through one collection
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
