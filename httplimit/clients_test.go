package httplimit

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// proxies trusts 10.0.0.0/8 and 2001:db8:aaaa::/48.
func proxies(t testing.TB, header ForwardedBy) *Clients {
	t.Helper()
	trusted, err := ParsePrefixes("10.0.0.0/8", "2001:db8:aaaa::/48")
	if err != nil {
		t.Fatal(err)
	}
	return &Clients{Trusted: trusted, Header: header}
}

func from(peer string, headers ...string) *http.Request {
	r := &http.Request{RemoteAddr: peer, Header: http.Header{}}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func TestClientIsThePeerUnlessTrusted(t *testing.T) {
	for name, c := range map[string]struct{ peer, want string }{
		"IPv4":                         {"203.0.113.9:1234", "203.0.113.9"},
		"IPv6":                         {"[2001:db8::1]:1234", "2001:db8::1"},
		"IPv4-mapped":                  {"[::ffff:203.0.113.9]:1234", "203.0.113.9"},
		"with a zone":                  {"[fe80::1%eth0]:1234", "fe80::1"},
		"without a port":               {"203.0.113.9", "203.0.113.9"},
		"a Unix socket has no address": {"@", "invalid IP"},
		"a trusted one alone":          {"10.0.0.1:1234", "10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := proxies(t, EitherHeader).Addr(from(c.peer)).String(); got != c.want {
				t.Errorf("client %s; want %s", got, c.want)
			}
		})
	}
}

func TestUntrustedPeerIsNotBelieved(t *testing.T) {
	r := from("203.0.113.9:1", "X-Forwarded-For: 198.51.100.1", "Forwarded: for=198.51.100.1")
	for header := EitherHeader; header <= Forwarded; header++ {
		if got := proxies(t, header).Addr(r).String(); got != "203.0.113.9" {
			t.Errorf("header %d: client %s; want the peer", header, got)
		}
	}
	if got := (&Clients{}).Addr(r).String(); got != "203.0.113.9" {
		t.Errorf("the zero Clients: %s; want the peer", got)
	}
}

func TestHopsAreReadFromTheRight(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"one hop":                               {[]string{"X-Forwarded-For: 203.0.113.9"}, "203.0.113.9"},
		"what a client says of itself is left":  {[]string{"X-Forwarded-For: 1.1.1.1, 203.0.113.9"}, "203.0.113.9"},
		"trusted hops are passed":               {[]string{"X-Forwarded-For: 1.1.1.1, 203.0.113.9, 10.9.9.9,10.8.8.8"}, "203.0.113.9"},
		"all trusted: the leftmost":             {[]string{"X-Forwarded-For: 10.1.1.1, 10.2.2.2"}, "10.1.1.1"},
		"lines are one list":                    {[]string{"X-Forwarded-For: 1.1.1.1", "X-Forwarded-For: 203.0.113.9, 10.2.2.2", "X-Forwarded-For: 10.3.3.3"}, "203.0.113.9"},
		"a trusted IPv6 hop":                    {[]string{"X-Forwarded-For: 2001:db8::9, 2001:db8:aaaa::1"}, "2001:db8::9"},
		"a mapped hop is IPv4":                  {[]string{"X-Forwarded-For: 203.0.113.9, ::ffff:10.1.1.1"}, "203.0.113.9"},
		"a port":                                {[]string{"X-Forwarded-For: 203.0.113.9:4711"}, "203.0.113.9"},
		"brackets":                              {[]string{"X-Forwarded-For: [2001:db8::9]"}, "2001:db8::9"},
		"brackets and a port":                   {[]string{"X-Forwarded-For: [2001:db8::9]:4711"}, "2001:db8::9"},
		"a zone":                                {[]string{"X-Forwarded-For: fe80::9%eth0"}, "fe80::9"},
		"empty elements are none":               {[]string{"X-Forwarded-For: 203.0.113.9, , 10.1.1.1,,"}, "203.0.113.9"},
		"garbage ends it at the last good hop":  {[]string{"X-Forwarded-For: 203.0.113.9, nonsense, 10.1.1.1"}, "10.1.1.1"},
		"garbage alone leaves the peer":         {[]string{"X-Forwarded-For: unknown"}, "10.0.0.1"},
		"garbage left of the client is nothing": {[]string{"X-Forwarded-For: \", 203.0.113.9"}, "203.0.113.9"},
		"a blank line is none":                  {[]string{"X-Forwarded-For: "}, "10.0.0.1"},

		"Forwarded":                                 {[]string{"Forwarded: for=203.0.113.9"}, "203.0.113.9"},
		"Forwarded: other parameters":               {[]string{"Forwarded: by=10.0.0.1;FOR=203.0.113.9; proto=https;host=\"a;for=1.1.1.1,b\""}, "203.0.113.9"},
		"Forwarded: quoted IPv6 and port":           {[]string{`Forwarded: for="[2001:db8::9]:4711"`}, "2001:db8::9"},
		"Forwarded: quoted pairs":                   {[]string{`Forwarded: for="20\3.0.113.9"`}, "203.0.113.9"},
		"Forwarded: a port may be obfuscated":       {[]string{`Forwarded: for="203.0.113.9:_http", for=10.1.1.1`}, "203.0.113.9"},
		"Forwarded: hops from the right":            {[]string{"Forwarded: for=1.1.1.1, for=203.0.113.9", "Forwarded: for=10.1.1.1,for=\"10.2.2.2:80\""}, "203.0.113.9"},
		"Forwarded: empty elements are none":        {[]string{"Forwarded: for=203.0.113.9, , for=10.1.1.1,"}, "203.0.113.9"},
		"Forwarded: unknown ends it":                {[]string{"Forwarded: for=203.0.113.9, for=unknown, for=10.1.1.1"}, "10.1.1.1"},
		"Forwarded: an obfuscated hop ends it":      {[]string{"Forwarded: for=203.0.113.9, for=_gazonk, for=10.1.1.1"}, "10.1.1.1"},
		"Forwarded: no for ends it":                 {[]string{"Forwarded: for=203.0.113.9, proto=https, for=10.1.1.1"}, "10.1.1.1"},
		"Forwarded: two fors end it":                {[]string{"Forwarded: for=203.0.113.9;for=1.1.1.1, for=10.1.1.1"}, "10.1.1.1"},
		"Forwarded: an empty for ends it":           {[]string{"Forwarded: for=203.0.113.9, for=, for=10.1.1.1"}, "10.1.1.1"},
		"Forwarded: an open quote hides nothing":    {[]string{`Forwarded: for="1.1.1.1, for=203.0.113.9`}, "203.0.113.9"},
		"Forwarded: nor does one before a quote":    {[]string{`Forwarded: for="1.1.1.1\, for="[2001:db8::9]"`}, "2001:db8::9"},
		"Forwarded: an escaped quote ends no text":  {[]string{`Forwarded: for=203.0.113.9;x="a\",for=1.1.1.1", for=10.1.1.1`}, "203.0.113.9"},
		"Forwarded: a quote without end is garbage": {[]string{`Forwarded: for="203.0.113.9`}, "10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := proxies(t, EitherHeader).Addr(from("10.0.0.1:1", c.lines...)).String(); got != c.want {
				t.Errorf("client %s; want %s", got, c.want)
			}
		})
	}
}

func TestOfTwoHeadersOneIsRead(t *testing.T) {
	both := from("10.0.0.1:1", "X-Forwarded-For: 203.0.113.9", "Forwarded: for=198.51.100.1")
	blankX := from("10.0.0.1:1", "X-Forwarded-For: , ", "Forwarded: for=198.51.100.1")
	for name, c := range map[string]struct {
		header ForwardedBy
		r      *http.Request
		want   string
	}{
		"unless said, X-Forwarded-For":    {EitherHeader, both, "203.0.113.9"},
		"a blank X-Forwarded-For is none": {EitherHeader, blankX, "198.51.100.1"},
		"X-Forwarded-For when said":       {XForwardedFor, both, "203.0.113.9"},
		"nothing else then":               {XForwardedFor, blankX, "10.0.0.1"},
		"Forwarded when said":             {Forwarded, both, "198.51.100.1"},
		"and nothing else then":           {Forwarded, from("10.0.0.1:1", "X-Forwarded-For: 203.0.113.9"), "10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := proxies(t, c.header).Addr(c.r).String(); got != c.want {
				t.Errorf("client %s; want %s", got, c.want)
			}
		})
	}
}

func TestPrefixes(t *testing.T) {
	got, err := ParsePrefixes(" 10.1.2.3/8", "192.0.2.1", "2001:db8::1", "::ffff:10.0.0.0/104", "::ffff:192.0.2.1", "fe80::1%eth0")
	want := "10.0.0.0/8 192.0.2.1/32 2001:db8::1/128 10.0.0.0/8 192.0.2.1/32 fe80::1/128"
	if texts := strings.Fields(strings.Trim(join(got), "[]")); err != nil || strings.Join(texts, " ") != want {
		t.Errorf("%v, %v; want %s", texts, err, want)
	}
	for _, bad := range []string{"", "10.0.0.0/33", "10.0.0/8", "localhost", "fe80::1%eth0/64"} {
		if _, err := ParsePrefixes(bad); err == nil || !strings.Contains(err.Error(), `"`+bad+`"`) {
			t.Errorf("%q: error %v; want one that quotes it", bad, err)
		}
	}
}

func join(prefixes []netip.Prefix) string {
	var texts []string
	for _, p := range prefixes {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, " ")
}

func FuzzXForwardedFor(f *testing.F) {
	for _, seed := range []string{"", "1.1.1.1", "10.1.1.1, [2001:db8::1]:80", "\", ,", "::ffff:10.1.1.1", "a,b\x00"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, client, also string) {
		checkForwarded(t, "X-Forwarded-For", client, also, "203.0.113.9, 10.1.1.1")
	})
}

func FuzzForwarded(f *testing.F) {
	for _, seed := range []string{"", "for=1.1.1.1", `for="`, `for="\`, `for="[2001:db8::1]:80";by=a`, "for=_x, for=unknown", "for=10.1.1.1;for=1.1.1.1", `";,="\"`} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, client, also string) {
		checkForwarded(t, "Forwarded", client, also, `for="203.0.113.9:80";proto=https, for=10.1.1.1`)
	})
}

// checkForwarded checks that any header a client sends gives a valid address or none.
// To the left of what trusted proxies appended, in one line or two, it changes
// nothing.
func checkForwarded(t *testing.T, header, client, also, appended string) {
	t.Helper()
	c := proxies(t, EitherHeader)
	alone := c.Addr(&http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{header: {client, also}}})
	if !alone.IsValid() || alone.Zone() != "" || alone.Is4In6() {
		t.Errorf("%s %q %q: client %v", header, client, also, alone)
	}
	for _, lines := range [][]string{{client + ", " + appended}, {client, appended}, {client, also + "," + appended}} {
		got := c.Addr(&http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{header: lines}})
		if got.String() != "203.0.113.9" {
			t.Errorf("%s %q: client %v; want 203.0.113.9", header, lines, got)
		}
	}
}
