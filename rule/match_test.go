package rule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		fact, match string
		attributes  Map
		want        bool
	}{
		{"no condition", "", Map{}, true},
		{"a path in another spelling", "path: /v1/orders/", Map{"path": "//v1/./%6Frders?x=1"}, true},
		{"an encoded slash", "path: /v1/orders", Map{"path": "/v1%2forders"}, true},
		{"path parameters", "path: /v1/orders", Map{"path": "/v1;a=1/orders;b"}, true},
		{"encoded dots behind an encoded slash", "path: /v1/orders", Map{"path": "/v1/x%2F%2e%2e/orders"}, true},
		{"a slash that is encoded twice", "path: /v1/orders", Map{"path": "/v1%252Forders"}, false},
		{"a rule with an encoded slash", "path: /v1%2Forders", Map{"path": "/v1/orders"}, true},
		{"a prefix before an encoded slash", "path_prefix: /v1/", Map{"path": "/v1%2Forders"}, true},
		{"a regex sees the path decoded", `endpoint_regex: "^/v1/orders$"`, Map{"path": "/v1%2Forders;x"}, true},
		{"another path", "path: /v1/orders", Map{"path": "/v1/orders/1"}, false},
		{"case of a path", "path: /v1/orders", Map{"path": "/v1/Orders"}, false},
		{"no path", "path: /v1/orders", Map{}, false},
		{"a prefix", "path_prefix: /v1", Map{"path": "/v1/orders"}, true},
		{"a prefix is plain text", "path_prefix: /v1", Map{"path": "/v12"}, true},
		{"a prefix with a slash is a segment", "path_prefix: /v1/", Map{"path": "/v12"}, false},
		{"a prefix with a slash is also the path without", "path_prefix: /v1/", Map{"path": "/v1"}, true},
		{"the prefix of all", "path_prefix: /", Map{"path": "/"}, true},
		{"a prefix longer than the path", "path_prefix: /v1/x", Map{"path": "/v1"}, false},
		{"a regex", `endpoint_regex: "^/v1/orders.*"`, Map{"path": "/v1/orders/7"}, true},
		{"a regex that is not anchored", `endpoint_regex: "orders/[0-9]+$"`, Map{"path": "/v1/orders/7"}, true},
		{"a regex that does not match", `endpoint_regex: "^/v1/orders/[0-9]+$"`, Map{"path": "/v1/orders/x"}, false},
		{"a regex without regard to case", `endpoint_regex: "(?i)^/V1/"`, Map{"path": "/v1/orders"}, true},
		{"a regex of alternatives", `endpoint_regex: "^/v1/(a|b)$|^/v2"`, Map{"path": "/v2/x"}, true},
		{"a method in any case", "methods: [get, POST]", Map{"method": "Get"}, true},
		{"another method", "methods: [GET, POST]", Map{"method": "PUT"}, false},
		{"a host with a port", "host: API.example.com", Map{"host": "api.EXAMPLE.com:8443"}, true},
		{"a host with a final dot", "host: api.example.com", Map{"host": "api.example.com."}, true},
		{"another host", "host: api.example.com", Map{"host": "api.example.org"}, false},
		{"a name below", `host: "*.example.com"`, Map{"host": "a.b.example.com"}, true},
		{"not the name itself", `host: "*.example.com"`, Map{"host": "example.com"}, false},
		{"not a name that ends alike", `host: "*.example.com"`, Map{"host": "badexample.com"}, false},
		{"an IPv6 host", `host: "[2001:db8::1]"`, Map{"host": "[2001:DB8::1]:80"}, true},
		{"a key", `api_key_pattern: "sk_*"`, Map{"api_key": "sk_1"}, true},
		{"another key", `api_key_pattern: "sk_*"`, Map{"api_key": "pk_1"}, false},
		{"no key", `api_key_pattern: "*"`, Map{}, false},
		{"a header", "headers: {X-Plan: gold}", Map{"header:x-plan": "gold"}, true},
		{"another header", "headers: {X-Plan: gold}", Map{"header:x-plan": "golden"}, false},
		{"all headers", `headers: {x-a: "1*", x-b: "*"}`, Map{"header:x-a": "12", "header:x-b": "?"}, true},
		{"one of the headers", `headers: {x-a: "1*", x-b: "*"}`, Map{"header:x-a": "12"}, false},
		{"a network", "cidr: [10.0.0.0/8, 2001:db8::/32]", Map{"ip": "2001:db8:1::1"}, true},
		{"IPv4 in IPv6", "cidr: 10.0.0.0/8", Map{"ip": "::ffff:10.1.2.3"}, true},
		{"a network in IPv6's clothes", "cidr: ['::ffff:10.0.0.0/104']", Map{"ip": "10.1.2.3"}, true},
		{"a network with bits too many", "cidr: [10.1.2.3/8]", Map{"ip": "10.9.9.9"}, true},
		{"an address", "cidr: [10.1.2.3]", Map{"ip": "10.1.2.3"}, true},
		{"another network", "cidr: [10.0.0.0/8]", Map{"ip": "11.1.2.3"}, false},
		{"all that is given", `path_prefix: /v1, methods: [GET], api_key_pattern: "a*"`, Map{"path": "/v1", "method": "GET", "api_key": "ab"}, true},
		{"all but one", `path_prefix: /v1, methods: [GET], api_key_pattern: "a*"`, Map{"path": "/v1", "method": "PUT", "api_key": "ab"}, false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			s := mustParse(t, "rules: [{id: r, limit: 10/s, match: {"+c.match+"}}]")
			if got := len(matching(s, c.attributes)) == 1; got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
}

// matching returns the rules that the index finds and that match.
func matching(s *Set, a Attributes) (found []int32) {
	q := s.borrow(a, 1)
	defer s.release(q)
	for _, i := range s.index.collect(q, nil) {
		if s.rules[i].match.match(q) {
			found = append(found, i)
		}
	}
	return found
}

// scanned returns the result that matching must have, by testing every rule.
func scanned(s *Set, a Attributes) (found []int32) {
	q := s.borrow(a, 1)
	defer s.release(q)
	for i, r := range s.rules {
		if r.Mode != Off && r.match.match(q) {
			found = append(found, int32(i))
		}
	}
	return found
}

// pick returns one of the texts at random. An empty text means no value.
func pick(r *rand.Rand, texts ...string) string { return texts[r.IntN(len(texts))] }

func randomRule(r *rand.Rand, id int) string {
	var conditions []string
	for _, c := range []string{
		pick(r, "", "", "path: /a", "path: /a/b", "path: /a/c"),
		pick(r, "", "", "path_prefix: /", "path_prefix: /a", "path_prefix: /a/", "path_prefix: /a/b/", "path_prefix: /b"),
		pick(r, "", "", "", `endpoint_regex: "^/a"`, `endpoint_regex: "^/a/[bc]"`, `endpoint_regex: "b$"`, `endpoint_regex: "^/b.*|c"`),
		pick(r, "", "", "methods: [GET]", "methods: [GET, PUT]", "methods: [PUT]"),
		pick(r, "", "", "host: h.x", `host: "*.x"`, `host: "*.h.x"`, "host: y"),
		pick(r, "", "", `api_key_pattern: "k*"`, `api_key_pattern: "k1*"`, `api_key_pattern: "*1"`, "api_key_pattern: k1"),
		pick(r, "", "", "", "headers: {h: v}", `headers: {h: "v*"}`, "headers: {h: v, i: w}"),
		pick(r, "", "", "", "cidr: [10.0.0.0/8]", "cidr: [10.1.0.0/16, 10.0.0.0/8]", "cidr: ['2001:db8::/32']"),
	} {
		if c != "" {
			conditions = append(conditions, c)
		}
	}
	return fmt.Sprintf("  - {id: r%d, limit: 1/s, %s match: {%s}}\n", id, pick(r, "", "", "tier: t,", "tier: u,", "mode: off,"), strings.Join(conditions, ", "))
}

func randomRequest(r *rand.Rand) Map {
	m := Map{}
	for name, values := range map[string][]string{
		"path":     {"", "/", "/a", "/a/b", "/a/b/c", "/a/c", "/b", "/ab", "/c/b"},
		"method":   {"", "GET", "PUT", "POST"},
		"host":     {"", "h.x", "g.h.x", "x", "y", "z.y"},
		"api_key":  {"", "k", "k1", "k11", "l1"},
		"header:h": {"", "v", "v1"}, "header:i": {"", "w"},
		"ip":   {"", "10.1.2.3", "10.2.2.3", "11.1.1.1", "2001:db8::1"},
		"tier": {"", "t", "u", "other"},
	} {
		if v := pick(r, values...); v != "" {
			m[name] = v
		}
	}
	return m
}

func TestTheIndexFindsWhatAScanFinds(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 60 {
		var rules strings.Builder
		for i := range 1 + r.IntN(60) {
			rules.WriteString(randomRule(r, i))
		}
		text := "tiers: {t: {api_key_pattern: \"k1*\", limit: 1/s}, u: {limit: 1/s}}\nrules:\n" + rules.String()
		s := mustParse(t, text)
		for range 100 {
			a := randomRequest(r)
			if got, want := matching(s, a), scanned(s, a); !slices.Equal(got, want) {
				t.Fatalf("seed %d: %v finds rules %v, want %v, of\n%s", seed, a, got, want, text)
			}
		}
	}
}

func TestThousandsOfRulesLeaveFewCandidates(t *testing.T) {
	s, err := Parse(manyRules(10_000))
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range manyRequests {
		q := s.borrow(a, 1)
		if found := s.index.collect(q, nil); len(found) > 3 {
			t.Errorf("%s has %d candidates", name, len(found))
		}
		s.release(q)
	}
}

func TestAnchoredLiteralIsWhatMatchesBeginWith(t *testing.T) {
	for regex, want := range map[string]string{
		"^/v1/orders.*": "/v1/orders", "^/v1/(a|b)": "/v1/", "^/v1$": "/v1", "/v1": "", "^(?i)/v1": "",
		"^/a|^/b": "", "^/a|b": "", "(?m)^/a": "", `\A/a`: "/a", "^/v1?": "/v", "^": "", "^/é": "/é", "^[/]v": "/v",
	} {
		s := mustParse(t, fmt.Sprintf("rules: [{id: r, limit: 1/s, match: {endpoint_regex: %q}}]", regex))
		if got := s.rules[0].match.regexPrefix(); got != want {
			t.Errorf("%s: got %q, want %q", regex, got, want)
		}
	}
}
