package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/metadata"
)

// spoofs are the ways in which clients say that they are somebody else; %d is
// another address each time.
var spoofs = [][]string{
	{"X-Forwarded-For", "203.0.113.%d"},
	{"X-Forwarded-For", "203.0.113.%d, 127.0.0.1"},
	{"X-Forwarded-For", "203.0.113.%d", "X-Forwarded-For", "127.0.0.1"},
	{"X-Forwarded-For", "203.0.113.%d", "X-Forwarded-For", ""},
	{"x-forwarded-for", "::ffff:203.0.113.%d"},
	{"X_Forwarded_For", "203.0.113.%d"},
	{"Forwarded", "for=203.0.113.%d"},
	{"Forwarded", `for="[2001:db8::%d]:80";proto=https`},
	{"Forwarded", "for=203.0.113.%d, for=127.0.0.1"},
	{"X-Real-IP", "203.0.113.%d"},
	{"X-Client-IP", "203.0.113.%d"},
	{"True-Client-IP", "203.0.113.%d"},
	{"CF-Connecting-IP", "203.0.113.%d"},
	{"X-Envoy-External-Address", "203.0.113.%d"},
	{"X-Original-Forwarded-For", "203.0.113.%d"},
	{"X-Stint-Client", "203.0.113.%d"},
	{"Via", "1.1 203.0.113.%d"},
}

// TestNobodyIsWhoTheySay asks each surface that counts by address from one
// address: without a trusted proxy, and with one that is another machine.
func TestNobodyIsWhoTheySay(t *testing.T) {
	elsewhere := []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	for name, trusted := range map[string][]netip.Prefix{"no proxy": nil, "another proxy": elsewhere} {
		s := run(t, Config{
			Rules:   rulesFile(t, "rules:\n  - {id: every, by: [ip], limit: 1, window: 3600}\n"),
			Gateway: "127.0.0.1:0", Upstreams: echo(t), TrustedProxies: trusted,
		})
		s.get("gateway", "/")
		for i, spoof := range spoofs {
			header := make([]string, len(spoof))
			for j, text := range spoof {
				if header[j] = text; strings.Contains(text, "%d") {
					header[j] = fmt.Sprintf(text, i)
				}
			}
			for surface, path := range map[string]string{"gateway": "/", "http": "/v1/auth"} {
				if got := s.get(surface, path, header...); got.status != http.StatusTooManyRequests {
					t.Errorf("%s, %s: %q: status %d", name, surface, header, got.status)
				}
			}
		}
	}
}

// TestMetadataNamesNobody has a caller of Envoy's service say in the metadata
// of its call what a proxy would say in a header: descriptors alone count.
func TestMetadataNamesNobody(t *testing.T) {
	_, client := runEnvoy(t, Config{TrustedProxies: thisMachine})
	for i := range 5 {
		ctx := metadata.AppendToOutgoingContext(patient(t), "x-forwarded-for", fmt.Sprintf("203.0.113.%d", i), "x-api-key", fmt.Sprint(i), "forwarded", fmt.Sprintf("for=203.0.113.%d", i))
		answer, err := client.ShouldRateLimit(ctx, ofUser("ann", 1))
		want := ratelimitpb.RateLimitResponse_OK
		if i >= 3 {
			want = ratelimitpb.RateLimitResponse_OVER_LIMIT
		}
		if err != nil || answer.GetOverallCode() != want {
			t.Errorf("request %d: %v, %v", i, answer, err)
		}
	}
}

// TestOneHostIsCountedAndSent has clients name two hosts, or one in odd ways. A
// rule by host counts the host that the upstream sees, or the request is
// refused.
func TestOneHostIsCountedAndSent(t *testing.T) {
	s := run(t, Config{
		Rules:   rulesFile(t, "rules:\n  - {id: shop, match: {host: shop.example}, by: [ip], limit: 1000, window: 3600}\n"),
		Gateway: "127.0.0.1:0",
		Upstreams: upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Heard-Host", r.Host)
		}),
	})
	counted := 0
	for _, target := range []string{"/", "http://shop.example/", "http://SHOP.example/", "http://other.example/", "http://shop.example:80/", "http://shop.example@other.example/", "http://other.example@shop.example/", "//shop.example/"} {
		for _, lines := range []string{
			"Host: shop.example", "Host: Shop.Example", "Host: other.example", "Host: shop.example:80", "Host: shop.example.", "Host:\tshop.example", "Host:",
			"Host: shop.example\r\nHost: other.example", "Host: other.example\r\nX-Forwarded-Host: shop.example", "Host: shop.example\r\nX-Forwarded-Host: other.example",
			"Host: shop.example\r\nForwarded: host=other.example", "Host: shop.example\r\nX-Original-Host: other.example", "Host: a b", "Host: shop.example/", "Host: shop.example, other.example",
		} {
			conn := dial(t, s.Addr("gateway"))
			if _, err := io.WriteString(conn, "GET "+target+" HTTP/1.1\r\n"+lines+"\r\nConnection: close\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusBadRequest {
				continue
			}
			heard, _, _ := strings.Cut(strings.ToLower(answer.Header.Get("X-Heard-Host")), ":")
			told := answer.Header.Get("X-RateLimit-Limit") != ""
			if answer.StatusCode != http.StatusOK || told != (strings.TrimSuffix(heard, ".") == "shop.example") {
				t.Errorf("%s with %q: status %d, the upstream heard %q, counted is %v", target, lines, answer.StatusCode, heard, told)
			}
			if told {
				counted++
			}
		}
	}
	if counted < 20 {
		t.Errorf("%d were counted: the others test nothing", counted)
	}
}
