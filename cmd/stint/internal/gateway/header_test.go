package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
)

// limited writes the headers that a limiter writes before it passes a request on.
func limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["X-RateLimit-Limit"] = []string{"10"}
		w.Header()["RateLimit"] = []string{`"demo";r=9;t=1`}
		w.Header().Set("Vary", "Origin")
		next.ServeHTTP(w, r)
	})
}

// seenBy returns the request that an upstream gets if a client with this address sends r.
func seenBy(t *testing.T, o Options, remote string, header http.Header) *http.Request {
	t.Helper()
	var seen *http.Request
	g := behind(t, http1, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r }), o)
	r := httptest.NewRequestWithContext(bounded(t), http.MethodGet, "http://shop.example/x", http.NoBody)
	r.RemoteAddr, r.Header = remote, header
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	if seen == nil {
		t.Fatalf("nothing arrived: %d %s", w.Code, w.Body)
	}
	return seen
}

func TestForwardedFieldsSayWhatTheConnectionSays(t *testing.T) {
	trusted := Options{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	forged := func() http.Header {
		return http.Header{
			"X-Forwarded-For": {"6.6.6.6", "7.7.7.7"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"evil.example"},
			"X_forwarded_for": {"6.6.6.6"}, "X-Real-Ip": {"6.6.6.6"}, "X-Forwarded-Uri": {"/admin"}, "Forwarded": {"for=6.6.6.6"},
		}
	}
	for name, c := range map[string]struct {
		remote string
		header http.Header
		want   map[string]string
	}{
		"strangersOwnValuesAreDropped": {"192.0.2.1:5", forged(), map[string]string{
			"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "shop.example",
			"X_forwarded_for": "", "X-Real-Ip": "", "X-Forwarded-Uri": "", "Forwarded": ""}},
		"trustedProxyIsContinued": {"10.1.2.3:5", forged(), map[string]string{
			"X-Forwarded-For": "6.6.6.6, 7.7.7.7, 10.1.2.3", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example",
			"X_forwarded_for": "", "X-Real-Ip": "6.6.6.6", "X-Forwarded-Uri": "/admin", "Forwarded": `for=6.6.6.6, for="10.1.2.3";proto=http`}},
		"trustedProxyThatSaysNothing": {"10.1.2.3:5", http.Header{}, map[string]string{
			"X-Forwarded-For": "10.1.2.3", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "shop.example", "Forwarded": ""}},
		"mappedAddressIsUnmapped": {"[::ffff:10.1.2.3]:5", forged(), map[string]string{
			"X-Forwarded-For": "6.6.6.6, 7.7.7.7, 10.1.2.3"}},
		"zoneIsNotTold":          {"[fe80::1%eth0]:5", http.Header{}, map[string]string{"X-Forwarded-For": "fe80::1"}},
		"socketWithoutAnAddress": {"@", forged(), map[string]string{"X-Forwarded-For": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			got := seenBy(t, trusted, c.remote, c.header)
			for field, want := range c.want {
				if values := strings.Join(got.Header[field], " + "); values != want {
					t.Errorf("%s: got %q, want %q", field, values, want)
				}
			}
		})
	}
}

func TestForwardedWritesIPv6InBrackets(t *testing.T) {
	o := Options{Trusted: []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")}}
	got := seenBy(t, o, "[2001:db8::7]:5", http.Header{"Forwarded": {"for=a"}})
	if want := `for=a, for="[2001:db8::7]";proto=http`; got.Header.Get("Forwarded") != want {
		t.Errorf("got %q, want %q", got.Header.Get("Forwarded"), want)
	}
}

func TestConnectionCannotRemoveWhatTheGatewaySets(t *testing.T) {
	got := seenBy(t, Options{}, "192.0.2.1:5", http.Header{
		"Connection":   {"close, X-Forwarded-For, X-Request-Id, Traceparent, X-Secret", "X-Forwarded-Host"},
		"X-Request-Id": {"mine"}, "X-Secret": {"hop"}, "Keep-Alive": {"5"}, "Proxy-Authorization": {"Basic x"}, "Te": {"gzip"},
	})
	for field, want := range map[string]string{
		"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Host": "shop.example", "X-Request-Id": "mine",
		"X-Secret": "", "Keep-Alive": "", "Proxy-Authorization": "", "Te": "", "Connection": "",
	} {
		if got.Header.Get(field) != want {
			t.Errorf("%s: got %q, want %q", field, got.Header.Get(field), want)
		}
	}
	if _, valid := w3ctrace.Parse(got.Header["Traceparent"]); !valid {
		t.Error("the trace context was removed")
	}
}

func TestOnlyWebSocketMayChangeTheProtocol(t *testing.T) {
	got := seenBy(t, Options{}, "192.0.2.1:5", http.Header{
		"Connection": {"Upgrade, HTTP2-Settings"}, "Upgrade": {"h2c"}, "Http2-Settings": {"AAMAAABkAARAAAAAAAIAAAAA"},
	})
	for _, field := range []string{"Upgrade", "Connection", "Http2-Settings"} {
		if got.Header.Get(field) != "" {
			t.Errorf("%s: %s reached the upstream", field, got.Header.Get(field))
		}
	}
}

func TestHostFollowsThePolicy(t *testing.T) {
	for name, c := range map[string]struct {
		back   string
		policy HostPolicy
		client bool
	}{
		"autoKeepsTheClientsForHTTP": {http1, HostAuto, true},
		"autoAsksAnHTTPSHostByName":  {http2, HostAuto, false},
		"clientForHTTPS":             {http2, HostClient, true},
		"upstreamForHTTP":            {http1, HostUpstream, false},
	} {
		t.Run(name, func(t *testing.T) {
			var host, forwarded string
			g := behind(t, c.back, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				host, forwarded = r.Host, r.Header.Get("X-Forwarded-Host")
			}), Options{Groups: []GroupOptions{{Host: c.policy}}})
			s := serve(t, http1, g)
			r, _ := http.NewRequestWithContext(bounded(t), http.MethodGet, s.URL, http.NoBody)
			r.Host = "shop.example"
			do(t, clientOf(t, http1, s), r)
			want := map[bool]string{true: "shop.example", false: g.groups[0].upstreams[0].target.Host}[c.client]
			if host != want || forwarded != "shop.example" {
				t.Errorf("got the host %q (forwarded %q), want %q", host, forwarded, want)
			}
		})
	}
}

func TestLimitersHeadersWinOverTheUpstreams(t *testing.T) {
	upstream := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Connection", "X-RateLimit-Limit, RateLimit")
		h.Set("X-RateLimit-Limit", "999")
		h.Set("X-RateLimit-Used", "1")
		h.Set("RateLimit", `"theirs";r=1`)
		h.Set("X-Request-Id", "theirs")
		h.Set("Vary", "Accept")
	})
	s := serve(t, http1, limited(behind(t, http1, upstream, Options{})))
	res, _ := get(t, clientOf(t, http1, s), s.URL, "X-Request-Id", "mine")
	for field, want := range map[string]string{
		"X-Ratelimit-Limit": "10", "Ratelimit": `"demo";r=9;t=1`, "X-Ratelimit-Used": "", "X-Request-Id": "mine", "Vary": "Origin + Accept",
	} {
		if got := strings.Join(res.Header[field], " + "); got != want {
			t.Errorf("%s: got %q, want %q", field, got, want)
		}
	}
}

func TestLimitHeadersOfTheUpstreamPassWithoutAGatewayLimit(t *testing.T) {
	g := behind(t, http1, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-RateLimit-Limit", "999")
	}), Options{})
	s := serve(t, http1, g)
	if res, _ := get(t, clientOf(t, http1, s), s.URL); res.Header.Get("X-RateLimit-Limit") != "999" {
		t.Errorf("got %v", res.Header)
	}
}

func TestRequestIDIsKeptIfSane(t *testing.T) {
	for name, c := range map[string]struct {
		ids  []string
		kept bool
	}{
		"ordinary":         {[]string{"req-1/a:b"}, true},
		"longest":          {[]string{strings.Repeat("a", 128)}, true},
		"tooLong":          {[]string{strings.Repeat("a", 129)}, false},
		"missing":          {nil, false},
		"empty":            {[]string{""}, false},
		"twice":            {[]string{"a", "b"}, false},
		"space":            {[]string{"a b"}, false},
		"notASCII":         {[]string{"é"}, false},
		"controlCharacter": {[]string{"a\x7f"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := requestID(http.Header{"X-Request-Id": c.ids})
			if c.kept != (len(c.ids) > 0 && got == c.ids[0]) || !validID(got) {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestMessagesThatSmuggleAreRefused(t *testing.T) {
	reached := 0
	g := behind(t, http1, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }), Options{})
	s := serve(t, http1, g)
	for name, c := range map[string]struct {
		message string
		status  int
	}{
		"connect":                        {"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 405},
		"pathAboveTheRoot":               {"GET /a/../../admin HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"pathAboveTheRootInHex":          {"GET /%2e%2e%2fadmin HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"pathAboveTheRootWithParameters": {"GET /..;x/admin HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"nameWithASpace":                 {"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For : 6.6.6.6\r\n\r\n", 400},
		"twoLengths":                     {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
		"strangeEncoding":                {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 501},
	} {
		t.Run(name, func(t *testing.T) {
			if got := raw(t, s.Listener.Addr().String(), c.message); got.StatusCode != c.status {
				t.Errorf("got %d, want %d", got.StatusCode, c.status)
			}
		})
	}
	if reached > 0 {
		t.Errorf("%d of them reached the upstream", reached)
	}
}

func TestWrongChunksAreTheClientsFault(t *testing.T) {
	g := behind(t, http1, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }), Options{})
	s := serve(t, http1, g)
	for _, chunks := range []string{"ZZ\r\n", "3\r\nabcdef\r\n0\r\n\r\n", "-1\r\n"} {
		res := raw(t, s.Listener.Addr().String(), "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks)
		if res.StatusCode != http.StatusBadRequest || !res.Close {
			t.Errorf("%q: got %d, closes: %v", chunks, res.StatusCode, res.Close)
		}
	}
}

// An upstream written in Go refuses such a target too, but many do not.
func TestATargetThatIsNoPathIsRefused(t *testing.T) {
	g := behind(t, http1, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Options{})
	for _, target := range []string{"http:v1/orders", "*"} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n")))
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "BAD_PATH") {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}

// net/http/httputil drops the parts of a query that it cannot parse, and sorts the
// others.
func TestQueryArrivesAsItWasSent(t *testing.T) {
	for _, query := range []string{"b=100%&a=1", "b=1;c=2&a=%zz", "%", "&&=", "b=1&a=2"} {
		var got string
		g := behind(t, http1, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.URL.RawQuery }), Options{})
		raw(t, serve(t, http1, g).Listener.Addr().String(), "GET /x?"+query+" HTTP/1.1\r\nHost: a\r\n\r\n")
		if got != query {
			t.Errorf("%q arrived as %q", query, got)
		}
	}
}

func TestRequestWithoutHostForwardsNone(t *testing.T) {
	said := http.Header{}
	g := behind(t, http1, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { said = r.Header }), Options{})
	raw(t, serve(t, http1, g).Listener.Addr().String(), "GET /x HTTP/1.0\r\n\r\n")
	if values, ok := said[forwardedHost]; ok || said.Get(forwardedFor) == "" {
		t.Errorf("%s is %q, %s %q", forwardedHost, values, forwardedFor, said.Get(forwardedFor))
	}
}

func TestAnnouncedTrailerOfNoValidNameIsHarmless(t *testing.T) {
	g := behind(t, http1, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Options{})
	s := serve(t, http1, g)
	got := raw(t, s.Listener.Addr().String(), "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: a b\r\n\r\n0\r\n\r\n")
	if got.StatusCode != http.StatusOK || !g.groups[0].upstreams[0].health.usable(g.now()) {
		t.Errorf("got %d; usable: %v", got.StatusCode, g.groups[0].upstreams[0].health.usable(g.now()))
	}
}

func raw(t *testing.T, addr, message string) *http.Response {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(bounded(t), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, message)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}
