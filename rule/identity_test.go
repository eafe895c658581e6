package rule

import (
	"fmt"
	"testing"
)

func TestIdentity(t *testing.T) {
	for _, c := range []struct {
		fact, rule string
		attributes Map
		want       string
	}{
		{"the key unless said", "", Map{"api_key": "k", "ip": "10.0.0.1"}, `"k"`},
		{"else the address, marked", "", Map{"ip": "10.0.0.1"}, `"\x0110.0.0.1"`},
		{"a key that looks like an address is not one", "", Map{"api_key": "10.0.0.1"}, `"10.0.0.1"`},
		{"an empty key is none", "", Map{"api_key": "", "ip": "10.0.0.1"}, `"\x0110.0.0.1"`},
		{"without an address all share one", "", Map{}, `"\x02shared"`},
		{"by address", "by: [ip]", Map{"ip": "10.0.0.1"}, `"10.0.0.1"`},
		{"IPv4 in IPv6 is IPv4", "by: [ip]", Map{"ip": "::ffff:10.0.0.1"}, `"10.0.0.1"`},
		{"IPv6 is its network", "by: [ip]", Map{"ip": "2001:DB8::1:2:3:4"}, `"2001:db8::/64"`},
		{"a zone is dropped", "by: [ip]", Map{"ip": "fe80::1%eth0"}, `"fe80::/64"`},
		{"several parts", "by: [api_key, path, method, host]", Map{"api_key": "k", "path": "/a//b/", "method": "get", "host": "API.example.com:8080"}, `"k\x00/a/b\x00GET\x00api.example.com"`},
		{"a header of any case", "by: [header:X-Tenant]", Map{"header:x-tenant": "acme"}, `"acme"`},
		{"a missing part of several", "by: [api_key, path]", Map{"path": "/x", "ip": "10.0.0.1"}, `"\x0110.0.0.1\x00/x"`},
		{"missing: skip", "by: [user], missing: skip", Map{"ip": "10.0.0.1"}, ``},
		{"missing: shared", "by: [user], missing: shared", Map{"ip": "10.0.0.1"}, `"\x02shared"`},
		{"missing: deny", "by: [user], missing: deny", Map{"ip": "10.0.0.1"}, `"" denied`},
		{"missing: deny with one", "by: [user], missing: deny", Map{"user": "u"}, `"u"`},
	} {
		t.Run(c.fact, func(t *testing.T) {
			s := mustParse(t, "rules: [{id: r, limit: 10/s, "+c.rule+"}]")
			now := int64(0)
			o, err := s.Decide(t.Context(), newStore(t, &now), c.attributes, 1)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if len(o.Hits) == 1 {
				got = fmt.Sprintf("%q", o.Hits[0].Key)
			}
			if !o.Allowed() {
				got += " denied"
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestIPv6PrefixIsSettable(t *testing.T) {
	for bits, want := range map[int]string{128: "2001:db8:1:2:3::4", 48: "2001:db8:1::/48", 64: "2001:db8:1:2::/64"} {
		s := mustParse(t, fmt.Sprintf("ipv6_prefix: %d\nrules: [{id: r, by: [ip], limit: 1/s}]", bits))
		now := int64(0)
		o, err := s.Decide(t.Context(), newStore(t, &now), Map{"ip": "2001:db8:1:2:3::4"}, 1)
		if err != nil || o.Hits[0].Key != want {
			t.Errorf("/%d: %q, %v, want %q", bits, o.Hits[0].Key, err, want)
		}
	}
}

func TestKeyTextIsForPeople(t *testing.T) {
	for key, want := range map[string]string{
		"a": "a", "a\x00b": "a|b", markIP + "10.0.0.1\x00/x": "10.0.0.1|/x", markShared: "shared", "": "",
	} {
		if got := KeyText(key); got != want {
			t.Errorf("KeyText(%q) = %q, want %q", key, got, want)
		}
	}
}

func TestKeyTextCopiesNoPlainKey(t *testing.T) {
	key := "sk_live_0123456789"
	if n := testing.AllocsPerRun(100, func() { key = KeyText(key) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
