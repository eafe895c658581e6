package server

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// slowStore takes a while for each decision, and none if its caller hurries it.
type slowStore struct {
	stint.Store
	takes   time.Duration
	hurried atomic.Bool
}

func (s *slowStore) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	select {
	case <-time.After(s.takes):
		return s.Store.TakeGroups(ctx, groups, out)
	case <-ctx.Done():
		s.hurried.Store(true)
		return &stint.Error{Code: stint.CodeUnavailable, Err: ctx.Err()}
	}
}

// A client cannot use a deadline that is too short for a decision to get past its limit.
func TestGatewayDecidesWhateverTheDeadline(t *testing.T) {
	store := &slowStore{Store: stint.NewMemory(stint.MemoryOptions{MaxKeys: 100}), takes: 20 * time.Millisecond}
	var served atomic.Int64
	s := run(t, Config{Store: store, Rules: rulesFile(t, orders), Gateway: "127.0.0.1:0",
		Upstreams: upstreamOf(t, func(http.ResponseWriter, *http.Request) { served.Add(1) })})
	for i, want := range []int{http.StatusGatewayTimeout, http.StatusGatewayTimeout, http.StatusTooManyRequests} {
		got := s.get("gateway", "/v1/orders", "X-API-Key", "k", "X-Deadline-Ms", "1")
		if got.status != want {
			t.Errorf("request %d: got %d %s, want %d", i, got.status, got.body, want)
		}
		if want == http.StatusGatewayTimeout && (!strings.Contains(got.body, "DEADLINE_EXCEEDED") || got.header.Get("X-RateLimit-Limit") != "2") {
			t.Errorf("got %v %s, want the code of a deadline and the limit", got.header, got.body)
		}
	}
	if store.hurried.Load() || served.Load() != 0 {
		t.Errorf("a decision was cut short: %v; %d requests were served without time left", store.hurried.Load(), served.Load())
	}
	if got := s.get("gateway", "/v1/orders", "X-API-Key", "other", "X-Deadline-Ms", "20000"); got.status != http.StatusOK {
		t.Errorf("with enough time: got %d %s", got.status, got.body)
	}
}

// A leaky bucket does not delay a request past the deadline of its client: it denies the
// request at once, and charges nothing.
func TestGatewayDelaysNothingPastTheDeadline(t *testing.T) {
	s := run(t, Config{
		Rules:   rulesFile(t, "rules:\n  - {id: a, by: [api_key], algorithm: leaky_bucket, limit: 1, window: 1h, params: {queue: 5}}\n"),
		Gateway: "127.0.0.1:0", Upstreams: echo(t),
	})
	for i, c := range []struct {
		field, value string
		want         int
	}{
		{"X-Deadline-Ms", "20000", http.StatusOK}, // without a delay
		{"X-Deadline-Ms", "300", http.StatusTooManyRequests},
		{"X-Deadline-Ms", "0", http.StatusTooManyRequests},
		{"Grpc-Timeout", "300m", http.StatusTooManyRequests},
	} {
		got := s.get("gateway", "/", "X-API-Key", "k", c.field, c.value)
		if got.status != c.want || c.want != http.StatusOK && got.header.Get("Retry-After") == "" {
			t.Errorf("request %d: got %d %v %s, want %d", i, got.status, got.header, got.body, c.want)
		}
	}
	if got := s.post("http", "/v1/peek", `{"attributes":{"api_key":"k"}}`); !strings.Contains(got.body, `"remaining":5`) {
		t.Errorf("the denied requests were charged: %s", got.body)
	}
}

// The bounds on slow clients around the gateway do not outlast the client's own deadline.
func TestGatewayObeysTheDeadlineOfASlowClient(t *testing.T) {
	silent := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	s := run(t, Config{Gateway: "127.0.0.1:0", Upstreams: upstreamOf(t, silent)})
	for name, request := range map[string]string{
		"withoutABody":   "GET / HTTP/1.1\r\nHost: a\r\nX-Deadline-Ms: 100\r\n\r\n",
		"inTheBody":      "POST / HTTP/1.1\r\nHost: a\r\nX-Deadline-Ms: 100\r\nContent-Length: 100\r\n\r\nfour",
		"inAChunkedBody": "POST / HTTP/1.1\r\nHost: a\r\nGrpc-Timeout: 100m\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Addr("gateway").String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(patience / 6))
			began := time.Now()
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			if took := time.Since(began); res.StatusCode != http.StatusGatewayTimeout || !strings.Contains(string(body), "DEADLINE_EXCEEDED") || took > patience/4 {
				t.Errorf("got %d %s after %v", res.StatusCode, body, took)
			}
		})
	}
}
