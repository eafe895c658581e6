package server

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// recordedRules counts the proxied requests by address.
const recordedRules = `
rules:
  - {id: orders, match: {path: /orders, methods: [POST], host: shop.example}, by: [ip], limit: 1, window: 60}
`

// ask sends the bytes of a request unchanged, and returns the answer.
func (r *running) ask(request string) answer {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.Addr("http").String())
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, request); err != nil {
		r.t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer{status: response.StatusCode, header: response.Header, body: string(body)}
}

// TestRecordedRequests replays, from testdata, the requests of Traefik's forwardAuth, Envoy's
// ext_authz and Caddy's forward_auth. The client of each is 203.0.113.9.
func TestRecordedRequests(t *testing.T) {
	trusted := append(slices.Clone(thisMachine), netip.MustParsePrefix("172.18.0.4/32")) // the address that Envoy adds itself
	for _, name := range []string{"traefik", "envoy", "envoy-spoofed", "caddy"} {
		t.Run(name, func(t *testing.T) {
			s := run(t, Config{Rules: rulesFile(t, recordedRules), TrustedProxies: trusted})
			request := recorded(t, name)
			first := s.ask(request)
			if first.status != http.StatusOK || first.body != "" || first.header.Get("X-RateLimit-Remaining") != "0" {
				t.Errorf("the first: %d, %v, %s", first.status, first.header, first.body)
			}
			wantDenial(t, s.ask(request))
			wantDenial(t, s.ask(strings.Replace(request, "orders", "%6Frders/.", 1)))
			for from, to := range map[string]string{"203.0.113.9": "203.0.113.10", "shop.example": "cdn.example", "POST": "GET", "/orders": "/carts"} {
				if other := s.ask(strings.ReplaceAll(request, from, to)); other.status != http.StatusOK {
					t.Errorf("%s instead of %s: %d, %s", to, from, other.status, other.body)
				}
			}
		})
	}
}

func wantDenial(t *testing.T, got answer) {
	t.Helper()
	var body struct{ Error struct{ Code string } }
	err := json.Unmarshal([]byte(got.body), &body)
	if err != nil || got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") != "60" || body.Error.Code != "RATE_LIMIT_EXCEEDED" {
		t.Errorf("denied: %d, %v, %s", got.status, got.header, got.body)
	}
}

// A client of Traefik can send the fields that Traefik passes on. Without the middleware of
// deploy/traefik such a request gets 400, and its fields choose no rule.
func TestRecordedSpoofingIsRefused(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, recordedRules), TrustedProxies: thisMachine})
	spoofed := recorded(t, "traefik-spoofed")
	if got := s.ask(spoofed); got.status != http.StatusBadRequest {
		t.Errorf("%d, %s", got.status, got.body)
	}
	honest := strings.Replace(spoofed, "X-Original-Uri: /free\r\n", "", 1)
	s.ask(honest)
	wantDenial(t, s.ask(strings.Replace(honest, "for=198.51.100.1", "for=198.51.100.2", 1)))
}

// A peer that is not trusted speaks only for itself, whatever its recorded request contains.
func TestRecordedRequestsOfAnybody(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, recordedRules)})
	request := recorded(t, "envoy")
	s.ask(request)
	wantDenial(t, s.ask(strings.ReplaceAll(request, "203.0.113.9", "203.0.113.10")))
	if got := s.ask(recorded(t, "traefik")); got.status != http.StatusOK || got.header.Get("X-RateLimit-Limit") != "" {
		t.Errorf("%d, %v", got.status, got.header)
	}
}

func recorded(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "recorded", name+".http"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\n", "\r\n")
}
