package http1server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stintdev/stint/cmd/stint/internal/http1line"
)

// readResponse reads a response and returns its body.
func readResponse(t testing.TB, r *bufio.Reader) (*http.Response, string) {
	t.Helper()
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// plainConnections returns the number of connections that net/http does not have.
func (p *pair) plainConnections() int {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	return len(p.server.conns)
}

func (p *pair) await(t *testing.T, connections int) {
	t.Helper()
	late := time.After(patience)
	for p.plainConnections() != connections {
		select {
		case <-late:
			t.Fatalf("%d connections are plain, want %d", p.plainConnections(), connections)
		case <-time.After(time.Millisecond):
		}
	}
}

func echoPath(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprint(w, r.URL.Path, string(body))
}

func getPath(path string) string { return strings.Replace(get, "/path", path, 1) }

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	p := serve(t, echoPath)
	c := dial(t, p.plain)
	r := bufio.NewReader(c)
	send(t, c, getPath("/1")+getPath("/2")+requests["body"]+getPath("/3")+getPath("/4"))
	for _, want := range []string{"/1", "/2", "/abc", "/3", "/4"} {
		if _, got := readResponse(t, r); got != want {
			t.Errorf("the answer is %q, want %q", got, want)
		}
	}
	p.await(t, 0)
}

// pipes is a listener of connections in memory, each of whose writes is one read.
type pipes chan net.Conn

func (l pipes) Accept() (net.Conn, error) {
	c, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (l pipes) Close() error { close(l); return nil }

func (l pipes) Addr() net.Addr { return &net.TCPAddr{} }

func TestHeadsArriveInParts(t *testing.T) {
	l := make(pipes)
	h := &http.Server{Handler: http.HandlerFunc(echoPath)}
	s := New(h)
	t.Cleanup(func() { _ = h.Close(); s.Close() })
	go func() { _ = s.Serve(l) }()
	for _, parts := range []int{1, 2, maxParts, 3 * maxParts} {
		c, served := net.Pipe()
		l <- served
		r := bufio.NewReader(c)
		for range 2 {
			text := getPath("/slow")
			for i := range parts {
				send(t, c, text[len(text)*i/parts:len(text)*(i+1)/parts])
			}
			if _, got := readResponse(t, r); got != "/slow" {
				t.Errorf("the answer is %q", got)
			}
		}
		plain := 0
		if parts <= maxParts {
			plain = 1
		}
		p := &pair{server: s}
		p.await(t, plain)
		_ = c.Close()
		p.await(t, 0)
	}
}

func TestHTTP2IsHandedOver(t *testing.T) {
	p := serve(t, echoPath)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Get("http://" + p.plain.String() + "/h2")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "/h2" || res.ProtoMajor != 2 {
		t.Errorf("the answer is %s %q: %v", res.Proto, body, err)
	}
	p.await(t, 0)
}

func TestShutdownWaitsForRequests(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			close(begun)
			<-end
		}
		echoPath(w, r)
	})
	idle, active, unused := dial(t, p.plain), dial(t, p.plain), dial(t, p.plain)
	send(t, idle, get)
	readResponse(t, bufio.NewReader(idle))
	send(t, active, getPath("/wait"))
	<-begun
	done := make(chan error, 1)
	go func() { done <- p.server.Shutdown(context.Background()) }()
	if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the idle connection ends with %v", err)
	}
	send(t, unused, get) // too late: it is closed without an answer, as by net/http
	if _, err := http.ReadResponse(bufio.NewReader(unused), nil); err == nil {
		t.Error("a request during the shutdown is served")
	}
	select {
	case err := <-done:
		t.Fatalf("the shutdown does not wait: %v", err)
	default:
	}
	close(end)
	r := bufio.NewReader(active)
	if res, body := readResponse(t, r); body != "/wait" || !res.Close {
		t.Errorf("the answer is %q, last of the connection: %v", body, res.Close)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", p.plain.String()); err == nil {
		t.Error("the server accepts connections after the shutdown")
	}
}

func TestShutdownEndsWithItsContext(t *testing.T) {
	begun := make(chan struct{})
	p := serve(t, func(_ http.ResponseWriter, r *http.Request) { close(begun); <-r.Context().Done() })
	c := dial(t, p.plain)
	send(t, c, get)
	<-begun
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := p.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the shutdown returns %v", err)
	}
	p.server.Close()
	if _, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
		t.Error("the connection is open after Close")
	}
}

// timed is a pair with short timeouts.
func timed(t *testing.T) *pair {
	t.Helper()
	p := &pair{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(echoPath), ReadHeaderTimeout: 200 * time.Millisecond, IdleTimeout: 300 * time.Millisecond}
	p.plain, p.server = l.Addr(), New(s)
	t.Cleanup(func() { _ = s.Close(); p.server.Close() })
	go func() { _ = p.server.Serve(l) }()
	return p
}

func TestSlowHeadsAndIdleConnectionsEnd(t *testing.T) {
	t.Parallel()
	p := timed(t)
	for name, c := range map[string]struct {
		before, text string
		least        time.Duration
	}{
		"silent":       {"", "", 200 * time.Millisecond},
		"begun":        {"", get[:len(get)-3], 200 * time.Millisecond},
		"begunStrange": {"", "POST / HTTP/1.1\r\n", 200 * time.Millisecond},
		"idle":         {get, "", 300 * time.Millisecond},
		"begunLater":   {get, get[:len(get)-3], 200 * time.Millisecond},
		"strangeLater": {get, "POST / HTTP/1.1\r\n", 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, p.plain)
			r := bufio.NewReader(conn)
			if c.before != "" {
				send(t, conn, c.before)
				readResponse(t, r)
			}
			start := time.Now()
			send(t, conn, c.text)
			if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
				t.Errorf("the connection ends with %v", err)
			}
			if took := time.Since(start); took < c.least-50*time.Millisecond {
				t.Errorf("the connection ends after %v", took)
			}
		})
	}
}

// A handler decides how field names are written.
func TestFieldNamesAreSpelled(t *testing.T) {
	p := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.(interface {
			SpellFields(spelling func(name string) string)
		}).SpellFields(strings.ToUpper)
		w.Header().Set("Etag", "x")
		fmt.Fprint(w, "hello")
	})
	got := converse(t, p.plain, []string{get})
	if !strings.Contains(got, "\r\nETAG: x\r\n") || strings.Contains(got, "Etag") {
		t.Errorf("the response is %q", got)
	}
}

// The next request does not change the lists of values of a request, which http.Transport may
// still read.
func TestListsOfValuesAreNotUsedAgain(t *testing.T) {
	var kept [][]string
	p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range 20 {
			kept = append(kept, r.Header[fmt.Sprint("X-", i)])
		}
		fmt.Fprint(w, "hello")
	})
	request := func(value string) string {
		var b strings.Builder
		for i := range 20 {
			fmt.Fprintf(&b, "X-%d: %s\r\n", i, value)
		}
		return strings.Replace(get, "\r\n\r\n", "\r\n"+b.String()+"\r\n", 1)
	}
	converse(t, p.plain, []string{request("first"), request("second")})
	for i, values := range kept {
		if want := []string{"first", "second"}[i/20]; len(values) != 1 || values[0] != want {
			t.Errorf("list %d is %q, want %q", i, values, want)
		}
	}
}

// An idle connection keeps the header of a usual request for the next one, and no large one.
func TestIdleConnectionsKeepNoLargeHeader(t *testing.T) {
	for fields, kept := range map[int]bool{1: true, http1line.MaxKeptFields: false} { // and the Host
		var b strings.Builder
		for i := range fields {
			fmt.Fprintf(&b, "X-%d: x\r\n", i)
		}
		h, found := parseHead("GET / HTTP/1.1\r\nHost: a\r\n" + b.String() + "\r\n")
		if found != http1line.Plain {
			t.Fatalf("a head of %d fields is %d", fields, found)
		}
		if h.release(); (h.header != nil) != kept || (h.values != nil) != kept {
			t.Errorf("after a head of %d fields, its header is kept: %v", fields, h.header != nil)
		}
		if found := h.parse(get); found != http1line.Plain || len(h.header) > 1 {
			t.Errorf("the next head is %d", found)
		}
	}
}

// A connection keeps the names of usual fields, and no others.
func TestConnectionsKeepFewNames(t *testing.T) {
	for name, c := range map[string]struct {
		fields, length int
		kept           bool
	}{
		"one":   {1, 20, true},
		"usual": {10, 20, true},
		"many":  {http1line.MaxKeptFields + 1, 5, false},
		"long":  {2, maxKeptNames, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := &response{conn: &conn{header: http.Header{}}}
			for i := range c.fields {
				w.conn.header[fmt.Sprintf("%0*d", c.length, i)] = []string{"x"}
			}
			w.appendFields(nil, w.keeps)
			if kept := w.conn.names != nil; kept != c.kept {
				t.Errorf("the names are kept: %v", kept)
			}
			for _, name := range w.conn.names { // an upstream's name is a part of its line, which may be long
				for own := range w.conn.header {
					if name == own && unsafe.StringData(name) == unsafe.StringData(own) {
						t.Errorf("%s is not a copy", name)
					}
				}
			}
		})
	}
}
