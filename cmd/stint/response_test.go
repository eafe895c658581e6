package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const unixReset = "rules:\n  - {id: one, match: {path_prefix: /}, by: [api_key], limit: 1, window: 60, headers: unix-reset}\n"

// limited sends a request to a listener of the server, and returns the answer and its body.
func (p *process) limited(listener, path string, fields ...string) (*http.Response, string) {
	p.t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://"+p.addr(listener)+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("X-API-Key", "k")
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer, string(body)
}

func TestAnswersHaveTheDialectAndTheEndpoint(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	rules := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), unixReset)
	p := startServer(t, nil, "--rules", rules, "--trusted-proxies", "127.0.0.1/32", "--gateway", "127.0.0.1:0", "--upstream", upstream.URL)
	first, _ := p.limited("gateway", "/v1/orders%20new?page=2")
	reset, err := strconv.ParseInt(first.Header.Get("RateLimit-Reset"), 10, 64)
	if in := time.Until(time.Unix(reset, 0)); err != nil || in < 50*time.Second || in > 62*time.Second {
		t.Errorf("RateLimit-Reset %q, %v from now", first.Header.Get("RateLimit-Reset"), in)
	}
	if h := first.Header; h.Get("RateLimit-Limit") != "1" || h.Get("RateLimit-Remaining") != "0" || h.Get("X-RateLimit-Limit") != "" || h.Get("RateLimit-Policy") != "" {
		t.Errorf("%v", first.Header)
	}
	const endpoint = `"endpoint":"/v1/orders%20new"}}}`
	if denied, body := p.limited("gateway", "/v1/orders%20new?page=2"); denied.StatusCode != http.StatusTooManyRequests || !strings.HasSuffix(body, endpoint) {
		t.Errorf("%d %s", denied.StatusCode, body)
	}
	// Forward auth names the path of the original request, in the header for nginx too.
	denied, body := p.limited("http", "/v1/auth?deny_status=403", "X-Original-URI", "/v1/orders%20new?page=2")
	if denied.StatusCode != http.StatusForbidden || !strings.HasSuffix(body, endpoint) || denied.Header.Get("X-RateLimit-Body") != strings.Replace(body, "403", "429", 1) {
		t.Errorf("%d %s\n%v", denied.StatusCode, body, denied.Header)
	}
	if _, body := p.limited("gateway", "/"+strings.Repeat("a", 3000)); !strings.HasSuffix(body, strings.Repeat("a", 255)+`"}}}`) || len(body) > 600 {
		t.Errorf("%d bytes: %s", len(body), body)
	}
}
