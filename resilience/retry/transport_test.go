package retry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// trip makes an http.RoundTripper of a function.
type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func answer(status int, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader("an answer"))}
}

func request(ctx context.Context, tb testing.TB, method string, body io.Reader) *http.Request {
	tb.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://example.com/", body)
	if err != nil {
		tb.Fatal(err)
	}
	return req
}

// quick returns a policy that does not really sleep.
func quick(tb testing.TB, o Options) *Policy {
	tb.Helper()
	clock := &instant{now: noon}
	o.Clock, o.Sleep = clock.Now, clock.Sleep
	return mustNew(tb, o)
}

// attempts returns how often a request is sent if every attempt ends this way.
func attempts(t *testing.T, req *http.Request, resp *http.Response, err error) (n int) {
	t.Helper()
	tr := &Transport{Policy: quick(t, Options{}), Base: trip(func(*http.Request) (*http.Response, error) {
		n++
		return resp, err
	})}
	if gotResp, gotErr := tr.RoundTrip(req); gotResp != resp || !errors.Is(gotErr, err) {
		t.Errorf("returned %v, %v", gotResp, gotErr)
	}
	return n
}

func TestStatuses(t *testing.T) {
	retried := []int{408, 429, 500, 502, 503, 504}
	for status := 200; status < 600; status++ {
		want := 1
		if slices.Contains(retried, status) {
			want = 3
		}
		if n := attempts(t, request(t.Context(), t, "GET", nil), answer(status), nil); n != want {
			t.Errorf("%d: %d attempts, want %d", status, n, want)
		}
	}
}

func TestErrors(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, c := range []struct {
		err  error
		want int
	}{
		{dial(syscall.ECONNREFUSED), 3},
		{syscall.ECONNRESET, 3},
		{io.EOF, 3},
		{fmt.Errorf("read: %w", io.ErrUnexpectedEOF), 3},
		{net.ErrClosed, 3},
		{context.DeadlineExceeded, 3}, // of the attempt: the request's context goes on
		{errors.New("http2: client connection lost"), 3},
		{dial(&net.DNSError{Err: "no answer", IsTimeout: true}), 3},
		{dial(&net.DNSError{Err: "no such host", IsNotFound: true}), 1},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, 1},
		{context.Canceled, 1},
		{errors.New("a breaker is open"), 1},
	} {
		if n := attempts(t, request(t.Context(), t, "GET", nil), nil, c.err); n != c.want {
			t.Errorf("%v: %d attempts, want %d", c.err, n, c.want)
		}
	}
}

func TestMethods(t *testing.T) {
	for _, c := range []struct {
		method, header, value string
		want                  int
	}{
		{"GET", "", "", 3}, {"HEAD", "", "", 3}, {"OPTIONS", "", "", 3}, {"TRACE", "", "", 3}, {"PUT", "", "", 3}, {"DELETE", "", "", 3},
		{"POST", "", "", 1}, {"PATCH", "", "", 1}, {"CONNECT", "", "", 1}, {"get", "", "", 1},
		{"POST", "Idempotency-Key", "a", 3}, {"PATCH", "X-Idempotency-Key", "a", 3}, {"POST", "Idempotency-Key", "", 1},
	} {
		req := request(t.Context(), t, c.method, nil)
		if c.header != "" {
			req.Header.Set(c.header, c.value)
		}
		if n := attempts(t, req, answer(503), nil); n != c.want {
			t.Errorf("%s %s: %d attempts, want %d", c.method, c.header, n, c.want)
		}
	}
}

func TestKeyThatIsNotSentCounts(t *testing.T) {
	req := request(t.Context(), t, "POST", nil)
	req.Header["Idempotency-Key"] = nil
	if n := attempts(t, req, answer(503), nil); n != 3 {
		t.Errorf("%d attempts", n)
	}
}

func TestCallerMaySayWhatIsRepeatable(t *testing.T) {
	n := 0
	tr := &Transport{
		Policy:     quick(t, Options{}),
		Repeatable: func(*http.Request) bool { return true },
		Classify: func(resp *http.Response, _ error, _ time.Time) Classification {
			return Classification{Retry: resp.StatusCode == 409}
		},
		Base: trip(func(*http.Request) (*http.Response, error) { n++; return answer(409), nil }),
	}
	if resp, err := tr.RoundTrip(request(t.Context(), t, "POST", nil)); err != nil || resp.StatusCode != 409 || n != 3 {
		t.Errorf("%v, %v after %d attempts", resp, err, n)
	}
}

// Every attempt carries the whole body, over a real connection.
func TestBodiesAreSentWhole(t *testing.T) {
	body := strings.Repeat("a body ", 10_000)
	var got atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		read, err := io.ReadAll(r.Body)
		if err != nil || string(read) != body {
			t.Errorf("attempt %d: %d bytes, %v", got.Load(), len(read), err)
		}
		if got.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	client := &http.Client{Transport: &Transport{Policy: quick(t, Options{})}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil || resp.StatusCode != 200 || got.Load() != 3 {
		t.Fatalf("%v, %v after %d attempts", resp, err, got.Load())
	}
	resp.Body.Close()
}

func TestBodyThatCannotBeRewoundIsSentOnce(t *testing.T) {
	req := request(t.Context(), t, "PUT", io.MultiReader(strings.NewReader("once")))
	if n := attempts(t, req, answer(503), nil); n != 1 {
		t.Errorf("%d attempts", n)
	}
	budget := &purse{left: 1}
	req.GetBody = func() (io.ReadCloser, error) { return nil, errDown }
	clock := &instant{now: noon}
	tr := &Transport{Policy: mustNew(t, Options{Budget: budget, Clock: clock.Now, Sleep: clock.Sleep}), Base: trip(func(*http.Request) (*http.Response, error) { return answer(503), nil })}
	resp, err := tr.RoundTrip(req)
	if err != nil || text(resp) != "an answer" || budget.left != 1 || len(clock.slept) != 0 {
		t.Errorf("%v, %v, %+v after %v", resp, err, budget, clock.slept)
	}
}

func text(resp *http.Response) string {
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// The result is the last response with its body unread, and a caller does not wait for a
// retry that will not be made.
func TestAnswerIsKept(t *testing.T) {
	for _, c := range []struct {
		name    string
		o       Options
		header  []string
		timeout time.Duration
		sent    int
		took    time.Duration
	}{
		{"whenTheBudgetIsEmpty", Options{Budget: &purse{}}, nil, time.Hour, 1, 0},
		{"whenTheServerAsksForMoreThanThereIs", Options{}, []string{"Retry-After", "36"}, 30 * time.Second, 1, 0},
		{"whenItAsksForTooLong", Options{}, []string{"Retry-After", "86400"}, 100 * time.Hour, 1, 0},
		{"whenItForbids", Options{}, []string{"Grpc-Retry-Pushback-Ms", "-1"}, time.Hour, 1, 0},
		{"afterTheLastAttempt", Options{}, []string{"Retry-After", "2"}, time.Hour, 3, 4*time.Second + 300*time.Millisecond},
		{"afterRateLimit", Options{Attempts: 2}, []string{"RateLimit", `"orders";r=0;t=36`}, time.Hour, 2, 36*time.Second + 100*time.Millisecond},
		{"afterADate", Options{Attempts: 2}, []string{"Retry-After", "Sat, 01 Jan 2000 00:00:05 GMT"}, time.Hour, 2, 5*time.Second + 100*time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // time begins at 2000-01-01
				c.o.Jitter = None
				start, sent := time.Now(), 0
				tr := &Transport{Policy: mustNew(t, c.o), Base: trip(func(*http.Request) (*http.Response, error) {
					sent++
					return answer(503, c.header...), nil
				})}
				ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
				defer cancel()
				resp, err := tr.RoundTrip(request(ctx, t, "GET", nil))
				if err != nil || text(resp) != "an answer" {
					t.Errorf("%v, %v", resp, err)
				}
				if took := time.Since(start); took != c.took || sent != c.sent {
					t.Errorf("%d sent in %v, want %d in %v", sent, took, c.sent, c.took)
				}
			})
		})
	}
}

// The timeout of a client is a deadline like any other.
func TestClientTimeoutIsADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		client := &http.Client{Timeout: 10 * time.Second, Transport: &Transport{Base: trip(func(*http.Request) (*http.Response, error) {
			return answer(429, "Retry-After", "20"), nil
		})}}
		resp, err := client.Get("http://example.com/")
		if err != nil || resp.StatusCode != 429 || time.Since(start) != 0 {
			t.Fatalf("%v, %v after %v", resp, err, time.Since(start))
		}
		resp.Body.Close()
	})
}

// The body of a discarded response that never ends delays no retry: reading it is part of
// the wait.
func TestHungBodyIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		defer w.Close()
		sent := 0
		tr := &Transport{Policy: mustNew(t, Options{Jitter: None}), Base: trip(func(*http.Request) (*http.Response, error) {
			if sent++; sent == 1 {
				resp := answer(503)
				resp.Body = r
				return resp, nil
			}
			return answer(200), nil
		})}
		start := time.Now()
		resp, err := tr.RoundTrip(request(t.Context(), t, "GET", nil))
		if err != nil || resp.StatusCode != 200 || time.Since(start) != 100*time.Millisecond {
			t.Errorf("%v, %v after %v", resp, err, time.Since(start))
		}
		if _, err := w.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the body is still open: %v", err)
		}
	})
}

// Streams that break off are network errors, over HTTP/1.1 and HTTP/2.
func TestBrokenConnectionsAreRetried(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		var calls atomic.Int64
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if calls.Add(1) < 3 {
				panic(http.ErrAbortHandler)
			}
		}))
		server.EnableHTTP2 = http2
		server.StartTLS()
		var steps []Step
		client := server.Client()
		client.Transport = &Transport{Base: client.Transport, Policy: quick(t, Options{Observe: func(s Step) { steps = append(steps, s) }})}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil || resp.StatusCode != 200 || http2 != (resp.ProtoMajor == 2) || len(steps) != 2 {
			t.Errorf("HTTP/2 %v: %v, %v after %+v", http2, resp, err, steps)
		}
		server.Close()
	}
}

// Observe is called for a failure that is not retried, but not for a success.
func TestFailuresThatAreNotRepeatedAreObserved(t *testing.T) {
	for status, want := range map[int]int{503: 1, 200: 0, 404: 0} {
		var steps []Step
		tr := &Transport{
			Policy: quick(t, Options{Observe: func(s Step) { steps = append(steps, s) }}),
			Base:   trip(func(*http.Request) (*http.Response, error) { return answer(status), nil }),
		}
		if resp, err := tr.RoundTrip(request(t.Context(), t, "POST", nil)); err != nil || len(steps) != want {
			t.Errorf("%v, %v: %+v", resp, err, steps)
		} else if want > 0 && (steps[0].Stop != StopNotRetryable || steps[0].Status != status) {
			t.Errorf("%+v", steps)
		}
	}
}

// A Base that returns neither a response nor an error causes no panic; net/http reports
// the mistake.
func TestNoAnswerAndNoErrorIsPassedOn(t *testing.T) {
	n := 0
	tr := &Transport{Policy: quick(t, Options{}), Base: trip(func(*http.Request) (*http.Response, error) { n++; return nil, nil })} //nolint:nilnil // Base breaks its contract here
	if resp, err := tr.RoundTrip(request(t.Context(), t, "GET", nil)); resp != nil || err != nil || n != 1 {
		t.Errorf("%v, %v after %d attempts", resp, err, n)
	}
}

// CloseIdleConnections reaches the Base, as http.Client requires.
func TestIdleConnectionsAreClosed(t *testing.T) {
	closed := 0
	for _, base := range []http.RoundTripper{idle{closed: &closed}, trip(nil)} {
		(&http.Client{Transport: &Transport{Base: base}}).CloseIdleConnections()
	}
	if closed != 1 {
		t.Errorf("closed %d times", closed)
	}
}

type idle struct {
	http.RoundTripper

	closed *int
}

func (i idle) CloseIdleConnections() { *i.closed++ }

// The request belongs to the caller and is not modified.
func TestRequestIsNotChanged(t *testing.T) {
	req := request(t.Context(), t, "PUT", strings.NewReader("a body"))
	body, url := req.Body, *req.URL
	attempts(t, req, answer(503), nil)
	if req.Body != body || *req.URL != url || len(req.Header) != 0 {
		t.Errorf("%+v", req)
	}
}
