package gateway

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func TestBodyIsNotReadAfterTheHandler(t *testing.T) {
	var kept io.Reader
	g := newGateway(t, toServers(urlOf(t, "http://127.0.0.1:1")))
	g.proxy.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		kept = r.Body
		return nil, errors.New("broken")
	})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("body"))
	g.ServeHTTP(httptest.NewRecorder(), r)
	if n, err := kept.Read(make([]byte, 1)); n != 0 || !errors.Is(err, errBodyReturned) {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

// answering returns the URL of an upstream that answers every connection with fixed bytes.
func answering(t *testing.T, response string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = c.Read(make([]byte, 4<<10))
				_, _ = io.WriteString(c, response)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

func TestStatusThatIsNotFinalIsABadGateway(t *testing.T) {
	for _, status := range []string{"099 Low", "101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x"} {
		for _, method := range []string{http.MethodGet, http.MethodDelete} { // both transports
			upstream := answering(t, "HTTP/1.1 "+status+"\r\nContent-Length: 2\r\n\r\nok")
			s := serve(t, http1, newGateway(t, toServers(urlOf(t, upstream))))
			r, _ := http.NewRequestWithContext(bounded(t), method, s.URL, http.NoBody)
			if res, body := do(t, clientOf(t, http1, s), r); res.StatusCode != http.StatusBadGateway || !strings.Contains(body, "UPSTREAM_FAILED") {
				t.Errorf("%s answered by %s: got %d %s", method, status, res.StatusCode, body)
			}
		}
	}
}

// TestHeaderLeavesBeforeTheBodyArrives holds for every way to frame the body.
func TestHeaderLeavesBeforeTheBodyArrives(t *testing.T) {
	for _, length := range []string{"", "2"} {
		for _, method := range []string{http.MethodGet, http.MethodDelete} { // both transports
			seen := make(chan struct{})
			upstream := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if length != "" {
					w.Header().Set("Content-Length", length)
				}
				_ = http.NewResponseController(w).Flush()
				<-seen
				_, _ = io.WriteString(w, "ok")
			})
			s := serve(t, http1, behind(t, http1, upstream, Options{}))
			r, _ := http.NewRequestWithContext(bounded(t), method, s.URL, http.NoBody)
			res, err := clientOf(t, http1, s).Do(r)
			close(seen)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(res.Body); string(body) != "ok" || err != nil {
				t.Errorf("%s, length %q: got %q, %v", method, length, body, err)
			}
			_ = res.Body.Close()
		}
	}
}

// A client cannot have a request sent twice by a field that it may invent.
func TestAnIdempotencyKeyDoesNotRepeatARequest(t *testing.T) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		var broken atomic.Int64
		upstream := serve(t, http1, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.Header.Get(name) == "k" {
				broken.Add(1)
				panic(http.ErrAbortHandler)
			}
		}))
		s := serve(t, http1, newGateway(t, toServers(urlOf(t, upstream.URL))))
		for _, key := range []string{"", "k"} { // the second request uses the connection of the first
			r, _ := http.NewRequestWithContext(bounded(t), http.MethodPost, s.URL, http.NoBody)
			r.Header.Set(name, key)
			do(t, clientOf(t, http1, s), r)
		}
		if n := broken.Load(); n != 1 {
			t.Errorf("%s: the upstream got the request %d times", name, n)
		}
	}
}
