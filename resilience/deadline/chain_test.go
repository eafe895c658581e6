package deadline

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// chain is a row of four services and the client of the first. The last service hangs.
type chain struct {
	client  *http.Client
	servers []*http.Server
	urls    []string

	spends time.Duration // how long each service works before it calls the next

	mu       sync.Mutex
	received []string    // guarded by mu: the time left that each service received
	stopped  []time.Time // guarded by mu: when each service's work ended
}

// network connects the services.
type network struct {
	listen func(i int) (net.Listener, string)
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

func newChain(tb testing.TB, n network) *chain {
	tb.Helper()
	const services = 4
	c := &chain{stopped: make([]time.Time, services)}
	c.client = &http.Client{Transport: &Transport{Base: &http.Transport{DialContext: n.dial}}}
	listeners := make([]net.Listener, services)
	for i := range services {
		l, url := n.listen(i)
		listeners[i], c.urls = l, append(c.urls, url)
	}
	for i, l := range listeners {
		s := &http.Server{Handler: Middleware{}.Wrap(c.service(tb, i))}
		c.servers = append(c.servers, s)
		go func() { _ = s.Serve(l) }()
	}
	return c
}

// service calls the next one, or hangs for a minute.
func (c *chain) service(tb testing.TB, i int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.received = append(c.received, r.Header.Get(DefaultHeader))
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.stopped[i] = time.Now()
		}()
		hang(r.Context(), c.spends)
		if i == len(c.stopped)-1 {
			hang(r.Context(), time.Minute)
			return
		}
		resp, err := c.get(r.Context(), i+1)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		tb.Logf("service %d was answered %d", i+1, resp.StatusCode)
		w.WriteHeader(resp.StatusCode)
	})
}

func hang(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (c *chain) get(ctx context.Context, i int) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.urls[i], nil)
	if err != nil {
		return nil, err
	}
	return c.client.Do(req)
}

// run makes one request with one second, and returns how long after its deadline each of
// the services, and the client, stopped.
func (c *chain) run(ctx context.Context, timeout time.Duration) (off []time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	end, _ := ctx.Deadline()
	if resp, err := c.get(ctx, 0); err == nil {
		resp.Body.Close()
	}
	off = append(off, time.Since(end))
	c.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.stopped {
		off = append(off, at.Sub(end))
	}
	return off
}

// close returns when no handler is running.
func (c *chain) close() {
	for _, s := range c.servers {
		_ = s.Shutdown(context.Background())
	}
	c.client.CloseIdleConnections()
}

const tolerance = 50 * time.Millisecond

func within(off []time.Duration) bool {
	for _, d := range off {
		if d.Abs() > tolerance {
			return false
		}
	}
	return true
}

// Over real connections, all four services stop with the client, and nothing keeps
// running. A busy machine may be late, so the best of a few runs counts.
func TestChainStopsAtTheDeadline(t *testing.T) {
	before := runtime.NumGoroutine()
	n := network{
		listen: func(int) (net.Listener, string) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			return l, "http://" + l.Addr().String()
		},
		dial: new(net.Dialer).DialContext,
	}
	off := newChain(t, n).run(t.Context(), time.Second)
	for range 4 {
		if within(off) {
			break
		}
		t.Logf("stopped %v after the deadline; trying again", off)
		off = newChain(t, n).run(t.Context(), time.Second)
	}
	t.Logf("client and services stopped %v after the deadline", off)
	if !within(off) {
		t.Errorf("want all within %v of it", tolerance)
	}
	if left := leftOver(before); left != "" {
		t.Errorf("still running:\n%s", left)
	}
}

// leftOver waits up to ten seconds until no more goroutines run than before.
func leftOver(before int) string {
	for patience := time.After(10 * time.Second); runtime.NumGoroutine() > before; {
		select {
		case <-patience:
			stacks := make([]byte, 1<<20)
			return string(stacks[:runtime.Stack(stacks, true)])
		case <-time.After(time.Millisecond):
		}
	}
	return ""
}

// In virtual time the same is exact, and nothing may be left when the test ends: each
// service receives the time that the one before has left, to the millisecond.
func TestChainStopsExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChain(t, pipes())
		c.spends = 100*time.Millisecond + time.Microsecond
		for i, d := range c.run(t.Context(), time.Second) {
			if d > 0 || d < -3*time.Millisecond {
				t.Errorf("%d stopped %v after the deadline", i, d)
			}
		}
		if want := []string{"1000", "899", "798", "697"}; !slices.Equal(c.received, want) {
			t.Errorf("services received %v ms, want %v", c.received, want)
		}
	})
}

// A client that leaves ends the work of all services, long before the deadline.
func TestChainStopsWhenTheClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		for i, d := range newChain(t, pipes()).run(ctx, 10*time.Second) {
			if d != -9900*time.Millisecond {
				t.Errorf("%d stopped %v after the deadline", i, d)
			}
		}
	})
}

// pipes is an in-memory network.
func pipes() network {
	listeners := map[string]*pipeListener{}
	return network{
		listen: func(i int) (net.Listener, string) {
			name := "service-" + string(rune('1'+i))
			listeners[name] = &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
			return listeners[name], "http://" + name
		},
		dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			return listeners[strings.TrimSuffix(address, ":80")].dial(ctx)
		},
	}
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return mine, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }
