package http1client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/peek"
)

// script serves connections by a function that gets the number of the connection, from 1,
// and a function that waits for the next request. The connection ends with the function.
func script(t *testing.T, serve func(n int64, c net.Conn, next func() bool)) (url string, connections *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	connections = new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := connections.Add(1)
			go func() {
				defer c.Close()
				reader := bufio.NewReader(c)
				serve(n, c, func() bool {
					_, err := http.ReadRequest(reader)
					return err == nil
				})
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/", connections
}

const okResponse = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func newDialing(t *testing.T) *Transport {
	t.Helper()
	if !peek.Supported {
		t.Skip("idle connections cannot be checked on this system")
	}
	o := newTestTransport(new(net.Dialer).DialContext).options
	tr := New(o)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func get(ctx context.Context, t *testing.T, tr *Transport, url string) (body string, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := tr.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	return string(all), err
}

func mustGet(t *testing.T, tr *Transport, url string) string {
	t.Helper()
	body, err := get(t.Context(), t, tr, url)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestConnectionIsUsedAgain(t *testing.T) {
	url, connections := script(t, func(_ int64, c net.Conn, next func() bool) {
		for next() {
			_, _ = io.WriteString(c, okResponse)
		}
	})
	tr := newDialing(t)
	for range 5 {
		mustGet(t, tr, url)
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
	tr.CloseIdleConnections()
	mustGet(t, tr, url)
	if n := connections.Load(); n != 2 {
		t.Errorf("%d connections after the idle one was closed", n)
	}
}

// The deadline that the requests of a connection share may pass while it is idle, or in
// the middle of a response.
func TestConnectionIsUsedAfterItsSharedDeadline(t *testing.T) {
	url, connections := script(t, func(_ int64, c net.Conn, next func() bool) {
		for next() {
			_, _ = io.WriteString(c, okResponse[:len(okResponse)-1])
			time.Sleep(3 * patience)
			_, _ = io.WriteString(c, okResponse[len(okResponse)-1:])
		}
	})
	tr := newDialing(t)
	for range 3 {
		if body := mustGet(t, tr, url); body != "ok" {
			t.Errorf("got %q", body)
		}
		c := tr.idle.get(url[len("http://") : len(url)-1])
		c.next = time.Now().Add(-time.Second)
		if err := c.raw.SetReadDeadline(c.next); err != nil {
			t.Fatal(err)
		}
		tr.idle.put(c)
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestConnectionThatTheServerClosedIsNotUsed waits for the close by the test server itself,
// so that the client can know of it.
func TestConnectionThatTheServerClosedIsNotUsed(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	defer s.Close()
	tr := newDialing(t)
	for range 3 {
		mustGet(t, tr, s.URL)
		s.CloseClientConnections()
	}
}

// A request at which the server breaks off costs the server two requests, however many idle
// connections there are.
func TestRequestIsRepeatedOnce(t *testing.T) {
	const idle = 10
	var arrived sync.WaitGroup
	var broken atomic.Int64
	arrived.Add(idle)
	url, _ := script(t, func(n int64, c net.Conn, next func() bool) {
		if n <= idle && next() {
			arrived.Done()
			arrived.Wait() // all connections are in use at the same time
			_, _ = io.WriteString(c, okResponse)
		}
		if next() {
			broken.Add(1)
		}
	})
	tr := newDialing(t)
	var all sync.WaitGroup
	for range idle {
		all.Go(func() { mustGet(t, tr, url) })
	}
	all.Wait()
	if _, err := get(t.Context(), t, tr, url); err == nil || broken.Load() != 2 {
		t.Errorf("the server got the request %d times; %v", broken.Load(), err)
	}
}

func TestRequestIsRepeatedOnlyOnAConnectionThatWasIdle(t *testing.T) {
	url, connections := script(t, func(n int64, c net.Conn, next func() bool) {
		if n > 1 && next() {
			return // a new connection that dies is the server's answer
		}
		if next() {
			_, _ = io.WriteString(c, okResponse)
			next() // the second request on the first connection gets no response
		}
	})
	tr := newDialing(t)
	mustGet(t, tr, url)
	if _, err := get(t.Context(), t, tr, url); err == nil || !strings.Contains(err.Error(), "ended before a response") {
		t.Errorf("got %v", err)
	}
	if n := connections.Load(); n != 2 {
		t.Errorf("%d connections; want the dead one and one more", n)
	}
}

func TestBytesBehindAResponseAreNotTheNextResponse(t *testing.T) {
	const forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
	sent := make(chan struct{})
	for name, write := range map[string]func(c net.Conn){
		"at once": func(c net.Conn) { _, _ = io.WriteString(c, okResponse+forged) },
		"later": func(c net.Conn) {
			_, _ = io.WriteString(c, okResponse)
			<-sent
			_, _ = io.WriteString(c, forged)
			sent <- struct{}{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, connections := script(t, func(n int64, c net.Conn, next func() bool) {
				for next() {
					if n == 1 {
						write(c)
					} else {
						_, _ = io.WriteString(c, okResponse)
					}
				}
			})
			tr := newDialing(t)
			mustGet(t, tr, url)
			if name == "later" {
				sent <- struct{}{}
				<-sent
			}
			if body := mustGet(t, tr, url); body != "ok" || connections.Load() != 2 {
				t.Errorf("got %q over %d connections", body, connections.Load())
			}
		})
	}
}

func TestEndOfTheContextClosesTheConnection(t *testing.T) {
	for _, begun := range []string{"", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"} {
		ctx, cancel := context.WithCancel(t.Context())
		closed := make(chan bool)
		url, _ := script(t, func(_ int64, c net.Conn, next func() bool) {
			if next() {
				_, _ = io.WriteString(c, begun)
				cancel()
				closed <- !next()
			}
		})
		if _, err := get(ctx, t, newDialing(t), url); !errors.Is(err, context.Canceled) {
			t.Errorf("after %q: %v", begun, err)
		}
		if !<-closed {
			t.Errorf("after %q: the connection stays open", begun)
		}
	}
}

func TestBodyThatIsClosedEarlyClosesItsConnection(t *testing.T) {
	closed := make(chan bool)
	url, _ := script(t, func(_ int64, c net.Conn, next func() bool) {
		if next() {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
			closed <- !next()
		}
	})
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	res, err := newDialing(t).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if n, err := res.Body.Read(make([]byte, 1)); n > 0 || err == nil || !<-closed {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

// TestReadyBodyDoesNotWait holds for a server that stops after each byte of its response.
func TestReadyBodyDoesNotWait(t *testing.T) {
	ready := 0
	for _, response := range responses {
		for end := range len(response) {
			if end > 200 {
				break // the rest repeats
			}
			if readyBody(t, response[:end]) {
				ready++
			}
		}
	}
	if ready == 0 {
		t.Error("no body was ever ready")
	}
	if !readyBody(t, responses[0]) || !readyBody(t, responses[8]) {
		t.Error("a body that has arrived whole is not ready")
	}
}

// readyBody reports whether the body was ready at its begin or later. The server sends
// some bytes and then waits, so that reading a body that is ready must not block: in a
// bubble that would be a deadlock.
func readyBody(t *testing.T, response string) (ready bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		tr := newTestTransport(func(context.Context, string, string) (net.Conn, error) { return client, nil })
		defer tr.CloseIdleConnections()
		go func() {
			_, _ = http.ReadRequest(bufio.NewReader(server))
			_, _ = io.WriteString(server, response)
			time.Sleep(time.Hour)
			_ = server.Close()
		}()
		start := time.Now()
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server/", http.NoBody)
		res, err := tr.RoundTrip(r)
		if err != nil {
			time.Sleep(2 * time.Hour) // ends the server
			return
		}
		for buffer := make([]byte, 3); ; {
			at := time.Since(start)
			arrived, _ := res.Body.(interface{ Ready() bool })
			isReady := arrived != nil && arrived.Ready()
			ready = ready || isReady
			_, err := res.Body.Read(buffer)
			if isReady && time.Since(start) != at {
				t.Errorf("%q: a read waits though the body is ready", response)
			}
			if err != nil {
				break
			}
		}
		_ = res.Body.Close()
		time.Sleep(2 * time.Hour) // ends the server
	})
	return ready
}

func TestFailedDialIsToldApart(t *testing.T) {
	refused := errors.New("refused")
	tr := newTestTransport(func(context.Context, string, string) (net.Conn, error) { return nil, refused })
	_, err := get(t.Context(), t, tr, "http://server/")
	if d := new(DialError); !errors.As(err, &d) || !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}

func TestEndOfTheContextEndsARequestThatTheServerDoesNotRead(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	url, _ := script(t, func(int64, net.Conn, func() bool) { cancel(); <-ended })
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Large", strings.Repeat("x", 64<<20))
	_, err = newDialing(t).RoundTrip(r)
	if close(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestOnlyTheHeaderHasATimeout uses pipes, because their deadlines follow the clock of a
// bubble.
func TestOnlyTheHeaderHasATimeout(t *testing.T) {
	for first, wait := range map[string]time.Duration{"": 2 * time.Minute, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no": time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			tr := newTestTransport(func(context.Context, string, string) (net.Conn, error) {
				client, server := net.Pipe()
				go func() {
					defer server.Close()
					_, _ = http.ReadRequest(bufio.NewReader(server))
					_, _ = io.WriteString(server, first)
					time.Sleep(wait)
					_, _ = io.WriteString(server, "k")
				}()
				return client, nil
			})
			start := time.Now()
			body, err := get(t.Context(), t, tr, "http://server/")
			switch took := time.Since(start); {
			case first == "" && (!isTimeout(err) || took != time.Minute):
				t.Errorf("no header: %v after %v", err, took)
			case first != "" && (err != nil || body != "ok" || took != time.Hour):
				t.Errorf("slow body: %q, %v after %v", body, err, took)
			}
			time.Sleep(wait) // ends the server
			tr.CloseIdleConnections()
		})
	}
}

func TestPoolIsBoundedInNumberAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{most: 2, timeout: time.Minute}
		closed := 0 // guarded by the pool's mutex
		put := func() { p.put(&conn{host: "server", close: func() { closed++ }}) }
		expect := func(when string, wantClosed, wantIdle int) {
			t.Helper()
			p.mu.Lock()
			defer p.mu.Unlock()
			if idle := len(p.hosts["server"]); closed != wantClosed || idle != wantIdle || wantIdle == 0 && len(p.hosts) > 0 {
				t.Errorf("%s: %d closed and %d idle connections, %d hosts; want %d and %d", when, closed, idle, len(p.hosts), wantClosed, wantIdle)
			}
		}
		put()
		put()
		put()
		expect("above the bound", 1, 2)
		time.Sleep(59 * time.Second)
		c := p.get("server")
		if c == nil || p.get("other") != nil {
			t.Fatal("a connection is not found by its host")
		}
		p.put(c)
		time.Sleep(2 * time.Second)
		expect("one expired", 2, 1)
		time.Sleep(57 * time.Second)
		expect("the other not yet", 2, 1)
		time.Sleep(2 * time.Second)
		expect("all expired", 3, 0)
		put()
		p.closeAll()
		expect("all closed", 4, 0)
	})
}

// BenchmarkRoundTrip compares the transport with that of the standard library.
func BenchmarkRoundTrip(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	defer s.Close()
	for name, wire := range map[string]http.RoundTripper{
		"http1client": newTestTransport(new(net.Dialer).DialContext),
		"net-http":    newModel(new(net.Dialer).DialContext),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					r, _ := http.NewRequestWithContext(b.Context(), http.MethodGet, s.URL, http.NoBody)
					res, err := wire.RoundTrip(r)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			})
		})
	}
}

// A body may be closed while it is read, also at the moment at which it ends. The connection
// then serves no request any more, or the next one undisturbed.
func TestBodiesAreClosedWhileTheyAreRead(t *testing.T) {
	url, _ := script(t, func(_ int64, c net.Conn, next func() bool) {
		for next() {
			_, _ = io.WriteString(c, strings.TrimSuffix(okResponse, "k"))
			_, _ = io.WriteString(c, "k")
		}
	})
	tr := newDialing(t)
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for range 50 {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				res, err := tr.RoundTrip(r)
				if err != nil {
					t.Error(err)
					return
				}
				var closing sync.WaitGroup
				closing.Go(func() { _ = res.Body.Close() })
				if _, err := io.ReadAll(res.Body); err != nil && !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
				closing.Wait()
			}
		})
	}
	clients.Wait()
}

// What ends a request also ends it on a connection that was idle, whose response is awaited in
// another way.
func TestRequestsOnUsedConnectionsEnd(t *testing.T) {
	large := strings.Repeat("x", 64<<20)
	for name, c := range map[string]struct {
		field  string // of the second request
		within time.Duration
		want   func(error) bool
	}{
		"context ends":                           {"", time.Minute, isCanceled},
		"context ends, the server does not read": {large, time.Minute, isCanceled},
		"timeout":                                {"", 4 * patience, isTimeout},
		"timeout before the patience ends":       {"", patience / 2, isTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan struct{})
			url, connections := script(t, func(_ int64, s net.Conn, next func() bool) {
				next()
				_, _ = io.WriteString(s, okResponse)
				if c.field == "" {
					next()
				} else {
					_, _ = s.Read(make([]byte, 1)) // the request has begun
				}
				if c.within == time.Minute {
					cancel()
				}
				<-ended
			})
			tr := newDialing(t)
			mustGet(t, tr, url)
			tr.options.ResponseHeaderTimeout = c.within
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if c.field != "" {
				r.Header.Set("Large", c.field)
			}
			_, err = tr.RoundTrip(r)
			if close(ended); !c.want(err) || connections.Load() != 1 {
				t.Errorf("%v, after %d connections", err, connections.Load())
			}
		})
	}
}

func isCanceled(err error) bool { return errors.Is(err, context.Canceled) }
