package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stintdev/stint/cmd/stint/internal/httpapi"
)

// charging are the endpoints of the HTTP listener that a page could misuse, each
// with a body that it accepts.
var charging = map[string]string{
	"/v1/check":    `{"attributes":{"api_key":"victim","path":"/"}}`,
	"/v1/take":     `{"key":"victim","limit":"1/h"}`,
	"/v1/peek":     `{"key":"victim","limit":"1/h"}`,
	"/v1/refund":   `{"key":"victim","limit":"1/h"}`,
	"/v1/giveback": `{"key":"victim","limit":"1/h"}`,
	"/v1/batch":    `{"items":[{"key":"victim","limit":"1/h"}]}`,
	"/json":        `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"bob"}]}]}`,
}

// fromPage sends what a browser would: a simple POST, which needs no preflight.
func fromPage(t *testing.T, s *running, path, body, host string, header ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url("http", path), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	r.Header.Set("Content-Type", "text/plain")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return send(t, &http.Client{}, r)
}

func TestPagesOfOtherSitesCannotCharge(t *testing.T) {
	s := documented(t, Config{})
	own := s.Addr("http").String()
	for path, body := range charging {
		for name, c := range map[string]struct {
			host   string
			header []string
			want   int
		}{
			"another origin":           {own, []string{"Origin", "https://evil.example"}, http.StatusForbidden},
			"an origin without a name": {own, []string{"Origin", "null"}, http.StatusForbidden},
			"a sibling, says browser":  {own, []string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
			"another site":             {own, []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
			"a name that points here":  {"evil.example", nil, http.StatusForbidden},
			"the same, of its origin":  {"evil.example:8080", []string{"Origin", "http://evil.example:8080", "Sec-Fetch-Site", "same-origin"}, http.StatusForbidden},
			"no page":                  {own, nil, http.StatusOK},
			"by the name of loopback":  {"localhost:99", nil, http.StatusOK},
			"by that name in capitals": {"LOCALHOST", nil, http.StatusOK},
			"by IPv6":                  {"[::1]", nil, http.StatusOK},
		} {
			if c.want == http.StatusOK {
				body = strings.ReplaceAll(body, "victim", "friend")
			}
			got := fromPage(t, s, path, body, c.host, c.header...)
			if got.status != c.want && (c.want == http.StatusForbidden || got.status == http.StatusForbidden) {
				t.Errorf("%s, %s: status %d, want %d: %s", path, name, got.status, c.want, got.body)
			}
		}
	}
	if got := s.post("http", "/v1/peek", `{"key":"victim","limit":"9/h"}`).decoded(t); got["remaining"] != float64(9) {
		t.Errorf("a page has charged the key: %v", got)
	}
}

// TestForwardAuthCarriesTheOriginOfOthers: a request for forward auth has the Origin and the
// Host of the proxied request, so it is not refused as a cross-origin request.
func TestForwardAuthCarriesTheOriginOfOthers(t *testing.T) {
	s := documented(t, Config{})
	got := fromPage(t, s, "/v1/auth/x", "", "shop.example", "Origin", "https://other.example", "Sec-Fetch-Site", "cross-site")
	if got.status != http.StatusOK {
		t.Errorf("status %d: %s", got.status, got.body)
	}
}

// TestHostIsCheckedOnLoopbackAlone: the Host is checked only on a loopback listener without a
// token. On other listeners operators choose the names, and a page does not know the token.
func TestHostIsCheckedOnLoopbackAlone(t *testing.T) {
	for name, c := range map[string]Config{"all interfaces": {HTTP: ":0"}, "a token": {HTTPToken: "s3cret"}} {
		s := documented(t, c)
		got := fromPage(t, s, "/v1/take", charging["/v1/take"], "stint.internal", httpapi.TokenHeader, "s3cret")
		if got.status != http.StatusOK {
			t.Errorf("%s: status %d: %s", name, got.status, got.body)
		}
		got = fromPage(t, s, "/v1/take", charging["/v1/take"], "stint.internal", httpapi.TokenHeader, "s3cret", "Origin", "https://evil.example")
		if got.status != http.StatusForbidden {
			t.Errorf("%s, from another origin: status %d: %s", name, got.status, got.body)
		}
	}
}

func TestOpenListenersAreWarnedAbout(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		want   string // the listeners, as the log names them
	}{
		"all":         {Config{HTTP: ":0", GRPC: ":0", RESP: ":0"}, "listeners=\"[http grpc resp]\""},
		"one":         {Config{HTTP: ":0", GRPC: "127.0.0.1:0"}, "listeners=[http]"},
		"loopback":    {Config{HTTP: "localhost:0", GRPC: "127.0.0.1:0"}, ""},
		"with tokens": {Config{HTTP: ":0", GRPC: ":0", HTTPToken: "s3cret"}, ""},
	} {
		log := run(t, c.config).logs.String()
		if warned := strings.Contains(log, "without a token"); warned != (c.want != "") || !strings.Contains(log, c.want) {
			t.Errorf("%s: want %q in\n%s", name, c.want, log)
		}
	}
}
