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

// spoofs are the ways in which clients claim another address; %d makes each address unique.
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

// TestAddressesInHeadersAreNotBelieved sends requests to each surface that counts by
// address, all from one address: without a trusted proxy, and with one that is another machine.
func TestAddressesInHeadersAreNotBelieved(t *testing.T) {
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

// TestMetadataIsNoIdentity: a caller of Envoy's service puts a proxy's headers into the metadata
// of its call. Only descriptors count.
func TestMetadataIsNoIdentity(t *testing.T) {
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

// TestOneHostIsCountedAndSent has clients that name two hosts, or one in an unusual form. A rule
// by host counts the host that the upstream sees, or the request is refused.
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
			limited := answer.Header.Get("X-RateLimit-Limit") != ""
			if answer.StatusCode != http.StatusOK || limited != (strings.TrimSuffix(heard, ".") == "shop.example") {
				t.Errorf("%s with %q: status %d, the upstream heard %q, counted is %v", target, lines, answer.StatusCode, heard, limited)
			}
			if limited {
				counted++
			}
		}
	}
	if counted < 20 {
		t.Errorf("%d were counted: the others test nothing", counted)
	}
}

const byAddress = "rules:\n  - {id: addresses, by: [ip], limit: 1, window: 3600}\n"

// TestClientsCannotChooseTheirAddress checks for each pair of headers whether it counts as one
// client or as two, at the gateway and at forward auth.
func TestClientsCannotChooseTheirAddress(t *testing.T) {
	for name, c := range map[string]struct {
		trusted       bool // the peer is a proxy
		first, second string
		one           bool
	}{
		"a stranger's X-Forwarded-For":     {false, "X-Forwarded-For: 203.0.113.1", "X-Forwarded-For: 203.0.113.2", true},
		"a stranger's Forwarded":           {false, "Forwarded: for=203.0.113.1", "Forwarded: for=203.0.113.2", true},
		"a stranger's X-Real-IP":           {false, "X-Real-IP: 203.0.113.1", "X-Real-IP: 203.0.113.2", true},
		"a stranger's True-Client-IP":      {false, "True-Client-IP: 203.0.113.1", "CF-Connecting-IP: 203.0.113.2", true},
		"two clients of a proxy":           {true, "X-Forwarded-For: 203.0.113.1", "X-Forwarded-For: 203.0.113.2", false},
		"hearsay on the left":              {true, "X-Forwarded-For: 6.6.6.6, 203.0.113.1", "X-Forwarded-For: 7.7.7.7, 203.0.113.1", true},
		"hearsay in an earlier line":       {true, "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 203.0.113.1", "X-Forwarded-For: 203.0.113.1", true},
		"a proxy behind a proxy":           {true, "X-Forwarded-For: 203.0.113.1, 127.0.0.2", "X-Forwarded-For: 203.0.113.1", true},
		"Forwarded beside the other":       {true, "X-Forwarded-For: 203.0.113.1\r\nForwarded: for=6.6.6.6", "X-Forwarded-For: 203.0.113.1\r\nForwarded: for=7.7.7.7", true},
		"Forwarded alone":                  {true, "Forwarded: for=203.0.113.1", "Forwarded: for=203.0.113.2", false},
		"an open quote in Forwarded":       {true, "Forwarded: for=\"6.6.6.6, for=203.0.113.1", "Forwarded: for=203.0.113.1", true},
		"garbage ends the reading":         {true, "X-Forwarded-For: 203.0.113.1, what, 127.0.0.2", "X-Forwarded-For: 203.0.113.2, what, 127.0.0.2", true},
		"a port":                           {true, "X-Forwarded-For: 203.0.113.1:1", "X-Forwarded-For: 203.0.113.1:2", true},
		"IPv4 mapped into IPv6":            {true, "X-Forwarded-For: ::ffff:203.0.113.1", "X-Forwarded-For: 203.0.113.1", true},
		"IPv4 mapped, in hex":              {true, "X-Forwarded-For: ::ffff:cb00:7101", "X-Forwarded-For: [::ffff:203.0.113.1]:80", true},
		"IPv6 in one /64":                  {true, "X-Forwarded-For: 2001:db8::1", "X-Forwarded-For: 2001:db8:0:0:ffff::2", true},
		"IPv6 in two /64":                  {true, "X-Forwarded-For: 2001:db8::1", "X-Forwarded-For: 2001:db8:0:1::1", false},
		"IPv6 spelled in two ways":         {true, "X-Forwarded-For: 2001:DB8:0::0:1", "X-Forwarded-For: 2001:db8::1", true},
		"IPv6 with a zone":                 {true, "X-Forwarded-For: fe80::1%eth0", "X-Forwarded-For: fe80::1%eth1", true},
		"an address with a leading zero":   {true, "X-Forwarded-For: 203.0.113.01", "X-Forwarded-For: 203.0.113.001", true},
		"a name in underscores, a proxy's": {true, "X_Forwarded_For: 6.6.6.6\r\nX-Forwarded-For: 203.0.113.1", "X-Forwarded-For: 203.0.113.1", true},
	} {
		for _, surface := range []string{"gateway", "http"} {
			t.Run(name+", "+surface, func(t *testing.T) {
				config := Config{Rules: rulesFile(t, byAddress), Gateway: "127.0.0.1:0", Upstreams: echo(t)}
				if c.trusted {
					config.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
				}
				s := run(t, config)
				want := map[bool]int{true: http.StatusTooManyRequests, false: http.StatusOK}[c.one]
				for i, lines := range []string{c.first, c.second} {
					got := sendRaw(t, s.Addr(surface), "GET "+map[string]string{"gateway": "/x", "http": "/v1/auth/x"}[surface]+" HTTP/1.1\r\nHost: x\r\n"+lines+"\r\n\r\n")
					if expected := []int{http.StatusOK, want}[i]; got.status != expected {
						t.Errorf("request %d: %d %s, want %d", i+1, got.status, got.body, expected)
					}
				}
			})
		}
	}
}

// TestTrickyKeysAreDistinct uses keys that look like parts of other keys, like keys of the
// store, or like the substitute of a missing key.
func TestTrickyKeysAreDistinct(t *testing.T) {
	const rules = "rules:\n  - {id: keys, by: [api_key], limit: 1, window: 3600}\n" +
		"  - {id: pairs, by: [api_key, \"header:X-Tenant\"], limit: 1, window: 3600}\n"
	s := run(t, Config{Rules: rulesFile(t, rules), Gateway: "127.0.0.1:0", Upstreams: echo(t)})
	if got := s.get("gateway", "/"); got.status != http.StatusOK { // counted by its address
		t.Fatal(got.status)
	}
	for i, key := range []string{
		"127.0.0.1", "ip:127.0.0.1", "::1", "shared", "a", "A", "a|b", "a:b", "{a}", "a}b{", "*", "sk_*", "[a-z]", "a?", "\\a", "../a", "a/b", "a%20b",
		"a b", "a  b", "a,b", "0", "-1", "1e3", "null", "true", "undefined", "keys", "keys:a", "stint:keys:a", "KEYS", "'", "\"", "$(id)", "${a}", "{{a}}",
		"é", "e\u0301", "日本語", "\u202ea", "\u200ba", "ａ", "%00", "&a=b", "#a", ";", "=", strings.Repeat("a", 500), strings.Repeat("a", 501),
	} {
		lines := fmt.Sprintf("X-API-Key: %s\r\nX-Tenant: %s\r\n", key, key)
		for n, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
			if got := sendRaw(t, s.Addr("gateway"), "GET / HTTP/1.1\r\nHost: x\r\n"+lines+"\r\n"); got.status != want {
				t.Errorf("key %d, %q, request %d: %d %s, want %d", i, key, n+1, got.status, got.body, want)
			}
		}
	}
	for _, key := range []string{"\xff", "a\xc0\xafb", "\xed\xa0\x80", "a\tb", strings.Repeat("a", 5000)} {
		if got := sendRaw(t, s.Addr("gateway"), "GET / HTTP/1.1\r\nHost: x\r\nX-API-Key: "+key+"\r\n\r\n"); got.status != http.StatusBadRequest {
			t.Errorf("key %.10q: %d %s, want 400", key, got.status, got.body)
		}
	}
}
