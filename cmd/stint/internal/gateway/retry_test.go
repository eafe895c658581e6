package gateway

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stintdev/stint/internal/testserver"
	"github.com/stintdev/stint/resilience/retry"
)

func send(t *testing.T, g http.Handler, method string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequestWithContext(bounded(t), method, "/", http.NoBody))
	return w
}

// flaky is an upstream that first fails with a status and from then on echoes bodies.
func flaky(t *testing.T, status int, header ...string) *fickle {
	t.Helper()
	f := &fickle{}
	f.Server = serve(t, http1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if f.asked.Add(1) == 1 {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			return
		}
		_, _ = w.Write(body)
	}))
	return f
}

func TestFailedRequestsAreSentAgain(t *testing.T) {
	large := strings.Repeat("x", maxReplay+1)
	for _, c := range []struct {
		name, method, body string
		status             int
		on                 []string
		header             []string
		want               int
		asked              int64
	}{
		{name: "aGET", method: http.MethodGet, status: 503, want: 200, asked: 2},
		{name: "aHEAD", method: http.MethodHead, status: 502, want: 200, asked: 2},
		{name: "aPUTWithItsBody", method: http.MethodPut, body: "body", status: 504, want: 200, asked: 2},
		{name: "aDELETE", method: http.MethodDelete, status: 503, want: 200, asked: 2},
		{name: "notALargeBody", method: http.MethodPut, body: large, status: 503, want: 503, asked: 1},
		{name: "notAPOST", method: http.MethodPost, body: "body", status: 503, want: 503, asked: 1},
		{name: "notAPATCH", method: http.MethodPatch, status: 503, want: 503, asked: 1},
		{name: "notA500", method: http.MethodGet, status: 500, want: 500, asked: 1},
		{name: "notA429", method: http.MethodGet, status: 429, want: 429, asked: 1},
		{name: "onlyWhatIsListed", method: http.MethodGet, status: 503, on: []string{"502", "reset"}, want: 503, asked: 1},
		{name: "afterAShortRetryAfter", method: http.MethodGet, status: 503, header: []string{"Retry-After", "0"}, want: 200, asked: 2},
		{name: "notAfterALongRetryAfter", method: http.MethodGet, status: 503, header: []string{"Retry-After", "5"}, want: 503, asked: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := flaky(t, c.status, c.header...)
			g := newGuarded(t, GroupOptions{Servers: servers(urlOf(t, u.URL)), Retry: &RetryOptions{On: c.on}})
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(bounded(t), c.method, "/", strings.NewReader(c.body))
			r.Header.Set("Idempotency-Key", "the client's claim")
			g.ServeHTTP(w, r)
			if w.Code != c.want || u.asked.Load() != c.asked {
				t.Errorf("got %d after %d attempts, want %d after %d", w.Code, u.asked.Load(), c.want, c.asked)
			}
			if w.Code == http.StatusOK && c.method != http.MethodHead && w.Body.String() != c.body {
				t.Errorf("the body became %q", w.Body)
			}
			if got := g.counts["retries"].Load(); got != c.asked-1 {
				t.Errorf("%d retries are counted, want %d", got, c.asked-1)
			}
		})
	}
}

func TestRetryPrefersAnotherUpstream(t *testing.T) {
	upstreams, all := fickles(t, 3)
	upstreams[0].status.Store(http.StatusServiceUnavailable)
	upstreams[1].status.Store(http.StatusServiceUnavailable)
	g := newGuarded(t, GroupOptions{Servers: all, Retry: &RetryOptions{Attempts: 3, Budget: 1}})
	for range 9 {
		before := [2]int64{upstreams[0].asked.Load(), upstreams[1].asked.Load()}
		if w := send(t, g, http.MethodGet); w.Code != http.StatusOK {
			t.Fatalf("got %d", w.Code)
		}
		for i, u := range upstreams[:2] {
			if n := u.asked.Load() - before[i]; n > 1 {
				t.Errorf("one request reached upstream %d %d times", i, n)
			}
		}
	}
}

func TestBrokenConnectionsAreRetried(t *testing.T) {
	for method, want := range map[string]int{http.MethodGet: 2, http.MethodPost: 1} {
		broken, asked := rude(t, "")
		good := serve(t, http1, echo)
		g := newGuarded(t, GroupOptions{Servers: servers(broken, urlOf(t, good.URL)), Retry: &RetryOptions{}})
		codes := map[int]int{}
		for range 2 {
			codes[send(t, g, method).Code]++
		}
		if codes[http.StatusOK] != want || asked.Load() == 0 {
			t.Errorf("%s: got %v, want %d good answers of 2, after %d connections to the broken upstream", method, codes, want, asked.Load())
		}
	}
}

// A request that may have reached an upstream is not answered as if nothing was sent.
func TestRetryThatFindsNoUpstreamDoesNotSayThatNothingWasSent(t *testing.T) {
	broken, asked := rude(t, "")
	g := newGuarded(t, GroupOptions{Servers: servers(broken), Retry: &RetryOptions{}})
	u := g.groups[0].upstreams[0]
	u.trials.Store(maxTrials) // no second attempt of an upstream that is down
	retries, _ := g.groups[0].retries.(*retry.Transport)
	retries.Base = roundTripper(func(r *http.Request) (*http.Response, error) {
		res, err := g.sendOnce(r)
		u.health.checked(false)
		return res, err
	})
	if w := send(t, g, http.MethodGet); w.Code != http.StatusBadGateway || errorCode(t, w.Body.String()) != "UPSTREAM_FAILED" || asked.Load() != 1 {
		t.Errorf("got %d %s after %d connections", w.Code, w.Body, asked.Load())
	}
}

func TestUpstreamsThatCannotBeReachedAreTriedAgain(t *testing.T) {
	g := newGuarded(t, GroupOptions{Servers: servers(urlOf(t, "http://"+testserver.FreeAddr(t))), Retry: &RetryOptions{Attempts: 3}})
	w := send(t, g, http.MethodGet)
	if w.Code != http.StatusServiceUnavailable || errorCode(t, w.Body.String()) != "UPSTREAM_UNAVAILABLE" || g.counts["retries"].Load() != 2 {
		t.Errorf("got %d %s after %d retries", w.Code, w.Body, g.counts["retries"].Load())
	}
}

func TestBudgetBoundsTheRetries(t *testing.T) {
	upstreams, all := fickles(t, 1)
	upstreams[0].status.Store(http.StatusServiceUnavailable)
	g := newGuarded(t, GroupOptions{Servers: all, Retry: &RetryOptions{Budget: 0.1}})
	const requests, share, perWindow = 100, 10, 10
	for range requests {
		if w := send(t, g, http.MethodGet); w.Code != http.StatusServiceUnavailable {
			t.Fatalf("got %d", w.Code)
		}
	}
	if n := upstreams[0].asked.Load(); n != requests+share+perWindow || g.counts["refused"].Load() != requests-share-perWindow {
		t.Errorf("the upstream got %d requests; the budget refused %d retries", n, g.counts["refused"].Load())
	}
}

// A response that has begun is not begun again.
func TestResponseThatBreaksIsNotRetried(t *testing.T) {
	broken, asked := rude(t, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nthe first part")
	g := newGuarded(t, GroupOptions{Servers: servers(broken), Retry: &RetryOptions{}})
	front := serve(t, http1, g)
	r, _ := http.NewRequestWithContext(bounded(t), http.MethodGet, front.URL, http.NoBody)
	res, err := clientOf(t, http1, front).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); !errors.Is(err, io.ErrUnexpectedEOF) || string(body) != "the first part" || asked.Load() != 1 {
		t.Errorf("got %q, %v after %d connections", body, err, asked.Load())
	}
}

// A body that the client does not finish is the client's fault, as without retries.
func TestBodyThatEndsEarlyIsNotSent(t *testing.T) {
	u := flaky(t, http.StatusOK)
	g := newGuarded(t, GroupOptions{Servers: servers(urlOf(t, u.URL)), Retry: &RetryOptions{}})
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(bounded(t), http.MethodPut, "/", io.MultiReader(strings.NewReader("part"), slowBody{}))
	r.ContentLength = 100
	g.ServeHTTP(w, r)
	if w.Code != http.StatusRequestTimeout || u.asked.Load() != 0 {
		t.Errorf("got %d %s; sent %d times", w.Code, w.Body, u.asked.Load())
	}
}

type slowBody struct{}

func (slowBody) Read([]byte) (int, error) { return 0, ErrSlowClient }
