//go:build linux

package proxytest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// client sends requests to a proxy from an address of its own.
type client struct {
	t     *testing.T
	proxy string
	http  *http.Client
	quiet bool // the proxy adds limit fields to the request instead of the response
}

// newClient returns a client with the n-th loopback address for clients, which no
// other client or proxy uses.
func newClient(t *testing.T, proxy string, n int) *client {
	t.Helper()
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 1+byte(n>>8), byte(n))}
	dialer := &net.Dialer{LocalAddr: from, Timeout: 10 * time.Second}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, proxy)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{t: t, proxy: proxy, http: &http.Client{Transport: transport, Timeout: 20 * time.Second}}
}

// reply is the response that the client received.
type reply struct {
	proto  string
	status int
	header http.Header
	body   string
}

// get requests a path. header has names and values in turn.
func (c *client) get(path string, header ...string) reply {
	c.t.Helper()
	return c.do(http.MethodGet, path, nil, header...)
}

func (c *client) do(method, path string, body io.Reader, header ...string) reply {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, "http://app.example"+path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	answer, err := c.http.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	got := reply{answer.Proto, answer.StatusCode, answer.Header, string(text)}
	if c.quiet {
		got.addReceivedLimits()
	}
	return got
}

// addReceivedLimits adds the limit fields that the application received, if the
// request reached it.
func (r *reply) addReceivedLimits() {
	var h received
	if json.Unmarshal([]byte(r.body), &h) != nil {
		return
	}
	for name, values := range h.Header {
		if strings.HasPrefix(name, "X-Ratelimit") || strings.HasPrefix(name, "Ratelimit") {
			r.header[name] = values
		}
	}
}

// received returns the request as the application received it.
func (r *reply) received(t *testing.T) (h received) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), &h); err != nil || r.status != http.StatusOK || h.Method == "" {
		t.Fatalf("not of the application: %v, %s", err, r)
	}
	return h
}

func (r *reply) String() string {
	var text strings.Builder
	_ = r.header.Write(&text)
	return fmt.Sprintf("%d\n%s\n%s", r.status, &text, r.body)
}
