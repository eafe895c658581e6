package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"golang.org/x/net/http2"
)

// reading is a rule set that reads headers in every way that rules can.
const reading = `rules:
  - {id: keys, by: [api_key], limit: 1, window: 3600}
  - {id: tenants, by: ["header:X-Tenant"], match: {path: /tenant}, limit: 1, window: 3600}
  - {id: plans, by: [ip], match: {path: /plan, headers: {X-Plan: "fr*"}}, limit: 1, window: 3600}
  - {id: costs, by: [ip], match: {path: /cost}, cost: "header:X-Cost", limit: 5, window: 3600}
`

func TestConnectionCannotHideWhatIsCounted(t *testing.T) {
	reached := make(chan http.Header, 100)
	s := run(t, Config{Rules: rulesFile(t, reading), Gateway: "127.0.0.1:0",
		Upstreams: upstreamOf(t, func(_ http.ResponseWriter, r *http.Request) { reached <- r.Header })})
	for name, lines := range map[string]string{
		"bearer":                 "Connection: close, Authorization\r\nAuthorization: Bearer decoy\r\nX-API-Key: real\r\n",
		"in lower case":          "connection: authorization\r\nauthorization: Bearer decoy\r\n",
		"in upper case":          "CONNECTION: AUTHORIZATION\r\n",
		"with tabs":              "Connection:\tclose\t,\t Authorization \t,\r\n",
		"among empty elements":   "Connection: ,, ,Authorization,,\r\n",
		"in the second line":     "Connection: keep-alive\r\nX-A: b\r\nConnection: X-API-Key\r\n",
		"beside WebSocket":       "Connection: Upgrade, X-API-Key\r\nUpgrade: websocket\r\n",
		"a field that is absent": "Connection: X-API-Key\r\n",
		"a cookie":               "Connection: Cookie\r\n",
		"the host":               "Connection: Host\r\n",
		"the length":             "Connection: Content-Length\r\n",
		"the client":             "Connection: X-Forwarded-For\r\n",
		"the client, otherwise":  "Connection: Forwarded\r\n",
		"the real client":        "Connection: X-Real-IP\r\n",
		"with underscores":       "Connection: X_Forwarded_For\r\n",
		"the original path":      "Connection: X-Original-URI\r\n",
		"what a rule counts by":  "Connection: X-Tenant\r\nX-Tenant: decoy\r\n",
		"what a rule matches":    "Connection: x-plan\r\nX-Plan: free\r\n",
		"what a rule costs":      "Connection: x-cost\r\nX-Cost: 0\r\n",
	} {
		got := sendRaw(t, s.Addr("gateway"), "GET /tenant HTTP/1.1\r\nHost: x\r\n"+lines+"\r\n")
		if got.status != http.StatusBadRequest || !strings.Contains(got.body, "BAD_CONNECTION") || got.header.Get("X-Request-Id") == "" {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if len(reached) > 0 {
		t.Errorf("%v reached the upstream", <-reached)
	}
}

func TestHopByHopFieldsAreDroppedBeforeTheDecision(t *testing.T) {
	const rules = "rules:\n  - {id: proxies, by: [\"header:Proxy-Authorization\"], missing: skip, deny_all: true, limit: 1/s}\n" +
		"  - {id: te, match: {headers: {TE: \"*gzip*\"}}, by: [ip], deny_all: true, limit: 1/s}\n" +
		"  - {id: upgrades, match: {headers: {Upgrade: h2c}}, by: [ip], deny_all: true, limit: 1/s}\n"
	reached := make(chan http.Header, 1)
	s := run(t, Config{Rules: rulesFile(t, rules), Gateway: "127.0.0.1:0",
		Upstreams: upstreamOf(t, func(_ http.ResponseWriter, r *http.Request) { reached <- r.Header })})
	for name, c := range map[string]struct {
		lines string
		left  []string
	}{
		"named":              {"Connection: close, X-Other\r\nX-Other: a\r\nX-Left: b\r\n", []string{"X-Left"}},
		"named in odd ways":  {"Connection: x-oTHER ,,\tX-More\r\nX-Other: a\r\nX-More: b\r\nX-Left: b\r\n", []string{"X-Left"}},
		"not a name":         {"Connection: X-Left;q=1, \"X-Left\"\r\nX-Left: b\r\n", []string{"X-Left"}},
		"by themselves":      {"Keep-Alive: 5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic x\r\nProxy-Authenticate: a\r\nX-Left: a\r\n", []string{"X-Left"}},
		"trailers":           {"Connection: TE\r\nTE: gzip, trailers\r\n", []string{"Te"}},
		"TE without it":      {"Connection: TE\r\nTE: gzip\r\n", nil},
		"another protocol":   {"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n", nil},
		"upgrade, not named": {"Upgrade: websocket\r\n", nil},
	} {
		got := sendRaw(t, s.Addr("gateway"), "GET /x HTTP/1.1\r\nHost: x\r\n"+c.lines+"\r\n")
		if got.status != http.StatusOK {
			t.Errorf("%s: %d %s", name, got.status, got.body)
			continue
		}
		header := <-reached
		for _, own := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Request-Id", "Traceparent", "Accept-Encoding", "User-Agent"} {
			delete(header, own)
		}
		if names := slices.Sorted(maps.Keys(header)); !slices.Equal(names, c.left) {
			t.Errorf("%s: the upstream got %q, want %q", name, names, c.left)
		}
	}
}

func TestWebSocketPassesTheWholeGateway(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, "rules:\n  - {id: ws, by: [ip], match: {headers: {Upgrade: websocket}}, limit: 1, window: 3600}\n"), Gateway: "127.0.0.1:0",
		Upstreams: upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			kind, word, err := c.Read(r.Context())
			_ = errors.Join(err, c.Write(r.Context(), kind, word), c.Close(websocket.StatusNormalClosure, "done"))
		})})
	c, _, err := websocket.Dial(patient(t), s.url("gateway", "/"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	err = c.Write(patient(t), websocket.MessageText, []byte("word"))
	if _, got, readErr := c.Read(patient(t)); string(got) != "word" || err != nil {
		t.Errorf("%q, %v, %v", got, err, readErr)
	}
	if _, response, err := websocket.Dial(patient(t), s.url("gateway", "/"), nil); err == nil || response.StatusCode != http.StatusTooManyRequests {
		t.Errorf("the second one is not counted: %v", err)
	}
}

// HTTP/2 has no such fields: net/http refuses the request.
func TestConnectionIsIllegalInHTTP2(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, reading), Gateway: "127.0.0.1:0", Upstreams: echo(t)})
	for _, field := range [][2]string{{"connection", "authorization"}, {"proxy-connection", "close"}, {"upgrade", "websocket"}, {"keep-alive", "1"}, {"transfer-encoding", "chunked"}} {
		conn := dial(t, s.Addr("gateway"))
		block := headerBlock(t, [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "x"}, {":path", "/"}, {"authorization", "Bearer decoy"}, field})
		sent := http2.ClientPreface + framed(func(f *http2.Framer) error {
			return errors.Join(f.WriteSettings(), f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true, EndStream: true}))
		})
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		if status := http2Status(t, conn); status != "400" && status != "reset" {
			t.Errorf("%s: %s", field[0], status)
		}
	}
}

// The fields that the proxy writes must not be removed by a Connection field that it passes on.
func TestForwardAuthIgnoresConnection(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, reading), TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	for i, want := range []int{200, 429} {
		message := fmt.Sprintf("GET /v1/auth HTTP/1.1\r\nHost: x\r\nConnection: close, X-Forwarded-For, Authorization, X-Original-URI\r\n"+
			"X-Original-URI: /x\r\nX-Forwarded-For: 203.0.113.%d\r\nAuthorization: Bearer real\r\n\r\n", i)
		if got := sendRaw(t, s.Addr("http"), message); got.status != want {
			t.Errorf("%d: %d %s", i, got.status, got.body)
		}
	}
}

// TestIdentitiesAreReadAlike sends keys that servers read in different ways to
// the gateway and to forward auth.
func TestIdentitiesAreReadAlike(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, reading), Gateway: "127.0.0.1:0", Upstreams: echo(t)})
	for name, c := range map[string]struct {
		lines  string
		status int
	}{
		"counted":             {"Authorization: Bearer real\r\n", 429},
		"by a tab":            {"Authorization: Bearer\treal\r\n", 429},
		"in another case":     {"authorization: BEARER  real \t\r\n", 429},
		"in a folded line":    {"Authorization: Bearer\r\n real\r\n", 429},
		"as X-API-Key":        {"X-API-Key: real\r\n", 429},
		"two Authorization":   {"Authorization: Bearer decoy\r\nAuthorization: Bearer real\r\n", 400},
		"two X-API-Key":       {"X-API-Key: decoy\r\nX-API-Key: real\r\n", 400},
		"underscores":         {"X-API-Key: decoy\r\nX_API_Key: real\r\n", 400},
		"two tokens":          {"Authorization: Bearer real decoy\r\n", 400},
		"two tokens, a comma": {"Authorization: Bearer real, Bearer decoy\r\n", 400},
		"a space of Latin-1":  {"Authorization: Bearer\xa0real\r\n", 400},
		"the scheme alone":    {"Authorization: Bearer\r\nX-API-Key: real\r\n", 429},
		"two tenants":         {"X-Tenant: a\r\nX-Tenant: b\r\n", 400},
		"two plans":           {"X-Plan: gold\r\nX-Plan: free\r\n", 400},
	} {
		path := map[string]string{"two tenants": "/tenant", "two plans": "/plan"}[name]
		for i, surface := range []string{"gateway", "http"} {
			key := fmt.Sprint(strings.ReplaceAll(name, " ", "-"), i)
			target := []string{path + "/", "/v1/auth" + path + "/"}[i]
			lines := strings.ReplaceAll(c.lines, "real", key)
			if c.status == http.StatusTooManyRequests {
				if got := s.get(surface, target, "X-API-Key", key); got.status != http.StatusOK {
					t.Fatalf("%s, by %s: the first one: %d", name, surface, got.status)
				}
			}
			if got := sendRaw(t, s.Addr(surface), "GET "+target+" HTTP/1.1\r\nHost: x\r\n"+lines+"\r\n"); got.status != c.status {
				t.Errorf("%s, by %s: %d %s, want %d", name, surface, got.status, got.body, c.status)
			}
		}
	}
}

// http2Status reads until a response begins. It returns "reset" if its stream ends first, and
// "closed" if the connection ends first.
func http2Status(t *testing.T, conn io.ReadWriter) string {
	t.Helper()
	framer := http2.NewFramer(conn, bufio.NewReader(conn))
	framer.ReadMetaHeaders = newDecoder()
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return "closed"
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			return f.PseudoValue("status")
		case *http2.RSTStreamFrame:
			return "reset"
		case *http2.GoAwayFrame:
			return "closed"
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = framer.WriteSettingsAck()
			}
		}
	}
}
