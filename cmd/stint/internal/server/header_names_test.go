package server

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// wireNames returns the names of the header fields of a response as they are on the wire.
func wireNames(t *testing.T, s *running, listener, request, body string) (names []string) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr(listener).String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, request+" HTTP/1.1\r\nHost: localhost\r\nX-API-Key: k\r\nConnection: close\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body); err != nil {
		t.Fatal(err)
	}
	response, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(response), "\r\n\r\n")
	for _, line := range strings.Split(head, "\r\n")[1:] {
		name, _, _ := strings.Cut(line, ":")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func TestHeadersHaveTheDocumentedLetterCase(t *testing.T) {
	rules := `
rules:
  - {id: all, by: [api_key], limit: 2, window: 1h}
`
	s := run(t, Config{Rules: rulesFile(t, rules), Gateway: "127.0.0.1:0", Upstreams: echo(t)})
	limits := []string{"RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}
	bodies := map[string]string{
		"PUT /rules/all":    `{"limit":5,"window":"1h"}`,
		"PUT /v1/emergency": `{"limit":"10/s","by":"ip","for":"10m"}`,
	}
	for _, c := range []struct {
		listener, request string
		want              []string
	}{
		{"gateway", "GET /", append([]string{"X-Request-Id"}, limits...)},
		{"http", "GET /v1/auth/", append([]string{"X-RateLimit-Status"}, limits...)},
		{"gateway", "GET /", append([]string{"Retry-After", "Cache-Control", "X-Request-Id"}, limits...)},
		{"http", "GET /v1/auth?deny_status=403", append([]string{"X-RateLimit-Status", "X-RateLimit-Body", "Retry-After"}, limits...)},
		{"admin", "GET /rules", []string{"ETag"}},
		{"admin", "PUT /rules/all", []string{"ETag"}},
		{"admin", "PUT /v1/emergency", []string{"ETag"}},
	} {
		got := wireNames(t, s, c.listener, c.request, bodies[c.request])
		for _, name := range c.want {
			if !slices.Contains(got, name) {
				t.Errorf("%s on %s: %s is not in %q", c.request, c.listener, name, got)
			}
		}
		for _, name := range got {
			if strings.Contains(name, "Ratelimit") {
				t.Errorf("%s on %s: %s", c.request, c.listener, name)
			}
		}
	}
}

// An application's own fields keep their letter case, too.
func TestFieldsOfTheApplicationAreSpelled(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, "rules: [{id: one, match: {path: /one}, limit: 1, window: 1h}]\n"), Gateway: "127.0.0.1:0",
		Upstreams: upstreamOf(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-RateLimit-Limit", "7") })})
	if got := wireNames(t, s, "gateway", "GET /", ""); !slices.Contains(got, "X-RateLimit-Limit") {
		t.Errorf("%q", got)
	}
}
