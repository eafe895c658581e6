package retry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A caller that waits for a retry holds no connection: another caller uses the only one.
func TestConnectionIsFreeDuringTheWait(t *testing.T) {
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, strings.Repeat("x", drainBytes))
		}
	}))
	defer server.Close()
	base := &http.Transport{MaxConnsPerHost: 1}
	defer base.CloseIdleConnections()
	between := func(context.Context) error {
		req := request(t.Context(), t, "GET", nil)
		req.URL.Host = server.Listener.Addr().String()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		resp, err := base.RoundTrip(req.WithContext(ctx))
		if err != nil {
			t.Errorf("another request fails: %v", err)
			return err
		}
		return resp.Body.Close()
	}
	clock := during{instant{now: noon}, between}
	tr := &Transport{Base: base, Policy: mustNew(t, Options{Clock: clock.Now, Sleep: clock.Sleep})}
	req := request(t.Context(), t, "GET", nil)
	req.URL.Host = server.Listener.Addr().String()
	resp, err := tr.RoundTrip(req)
	if err != nil || resp.StatusCode != 200 || calls.Load() != 3 {
		t.Fatalf("%v, %v after %d calls", resp, err, calls.Load())
	}
	resp.Body.Close()
}

// during is a clock that calls a function instead of sleeping.
type during struct {
	instant

	f func(context.Context) error
}

func (d during) Now() time.Time                                   { return d.now }
func (d during) Sleep(ctx context.Context, _ time.Duration) error { return d.f(ctx) }

// A caller that gives up during a wait gets the response as far as it was read before.
func TestAnswerOutlivesItsContext(t *testing.T) {
	stuck, w := io.Pipe()
	defer w.Close()
	for _, c := range []struct {
		name string
		body io.Reader
		read int
		end  error
	}{
		{"none", strings.NewReader(""), 0, nil},
		{"whole", strings.NewReader(strings.Repeat("x", drainBytes)), drainBytes, nil},
		{"tooLong", strings.NewReader(strings.Repeat("x", drainBytes+1)), drainBytes + 1, errCut},
		{"stuck", io.MultiReader(strings.NewReader("abc"), stuck), 3, errCut},
		{"broken", io.MultiReader(strings.NewReader("abc"), broken{}), 3, io.ErrUnexpectedEOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			closed := make(chan struct{})
			body := &ofContext{Reader: c.body, ctx: ctx, closed: closed}
			clock := during{instant{now: noon}, func(ctx context.Context) error { cancel(); return ctx.Err() }}
			tr := &Transport{Policy: mustNew(t, Options{Clock: clock.Now, Sleep: clock.Sleep}), Base: trip(func(*http.Request) (*http.Response, error) {
				resp := answer(503)
				resp.Body = body
				return resp, nil
			})}
			resp, err := tr.RoundTrip(request(ctx, t, "GET", nil))
			if err != nil || resp.StatusCode != 503 {
				t.Fatal(resp, err)
			}
			read, err := io.ReadAll(resp.Body)
			if len(read) != c.read || !errors.Is(err, c.end) {
				t.Errorf("read %d bytes, then %v; want %d, then %v", len(read), err, c.read, c.end)
			}
			<-closed
		})
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// ofContext is a body like those of net/http: it ends with its context, and Close ends a
// blocked Read.
type ofContext struct {
	io.Reader

	ctx    context.Context //nolint:containedctx // a request has a context too
	closed chan struct{}
	once   atomic.Bool
}

func (b *ofContext) Read(p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := b.Reader.Read(p)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return r.n, r.err
	case <-b.closed:
		return 0, http.ErrBodyReadAfterClose
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

func (b *ofContext) Close() error {
	if !b.once.Swap(true) {
		close(b.closed)
	}
	return nil
}

// The new body of a retry that is not sent is closed.
func TestUnsentBodyIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		req := request(ctx, t, "PUT", strings.NewReader("a body"))
		next := &ofContext{ctx: ctx, closed: make(chan struct{})}
		req.GetBody = func() (io.ReadCloser, error) { return next, nil }
		time.AfterFunc(time.Second, cancel)
		tr := &Transport{Policy: mustNew(t, Options{Base: time.Hour, Jitter: None}), Base: trip(func(*http.Request) (*http.Response, error) { return answer(503), nil })}
		resp, err := tr.RoundTrip(req)
		if err != nil || text(resp) != "an answer" || !next.once.Load() {
			t.Errorf("%v, %v; closed: %v", resp, err, next.once.Load())
		}
	})
}
