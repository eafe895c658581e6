package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// The protocols of connections in these tests.
const (
	http1 = "HTTP/1.1"
	http2 = "HTTP/2 over TLS"
	h2c   = "HTTP/2 without TLS"
)

// patience is the timeout of tests that would otherwise hang; no passing test waits for
// it.
const patience = 20 * time.Second

func serve(t testing.TB, protocol string, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = protocol == http2
	if protocol == http2 {
		s.StartTLS()
	} else {
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetHTTP1(true)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// clientOf returns a client that speaks only one protocol.
func clientOf(t *testing.T, protocol string, s *httptest.Server) *http.Client {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	switch protocol {
	case http1:
		tr.Protocols.SetHTTP1(true)
	case http2:
		tr.Protocols.SetHTTP2(true)
		tr.TLSClientConfig = trusting(s)
	case h2c:
		tr.Protocols.SetUnencryptedHTTP2(true)
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func trusting(s *httptest.Server) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: tls.VersionTLS12}
}

func urlOf(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// behind returns a gateway in front of an upstream that speaks the protocol.
func behind(t *testing.T, protocol string, h http.Handler, o Options) *Gateway {
	t.Helper()
	s := serve(t, protocol, h)
	target := urlOf(t, s.URL)
	if len(o.Groups) == 0 {
		o.Groups = []GroupOptions{{}}
	}
	gr := &o.Groups[0]
	switch protocol {
	case http2:
		gr.TLS = trusting(s)
	case h2c:
		target.Scheme = "h2c"
	}
	gr.Servers = servers(target)
	return newGateway(t, o)
}

// toServers returns the options of a gateway with one group.
func toServers(targets ...*url.URL) Options {
	return Options{Groups: []GroupOptions{{Servers: servers(targets...)}}}
}

func servers(targets ...*url.URL) (all []ServerOptions) {
	for _, target := range targets {
		all = append(all, ServerOptions{URL: target})
	}
	return all
}

func newGateway(t testing.TB, o Options) *Gateway {
	t.Helper()
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.CloseIdleConnections)
	return g
}

func get(t *testing.T, c *http.Client, target string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(bounded(t), http.MethodGet, target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return do(t, c, r)
}

func do(t *testing.T, c *http.Client, r *http.Request) (*http.Response, string) {
	t.Helper()
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func errorCode(t *testing.T, body string) string {
	t.Helper()
	var e struct {
		Error struct {
			Code, Message string
			Details       struct {
				RequestID string `json:"request_id"`
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	if e.Error.Message == "" || e.Error.Details.RequestID == "" {
		t.Errorf("no message or request id in %q", body)
	}
	return e.Error.Code
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"noUpstream":         {Options{}, "no upstream"},
		"unknownScheme":      {toServers(urlOf(t, "ftp://a")), `scheme "ftp"`},
		"hostIsMissing":      {toServers(urlOf(t, "http://:80")), "host is missing"},
		"credentials":        {toServers(urlOf(t, "http://u:secret@a")), "credentials"},
		"query":              {toServers(urlOf(t, "http://a?token=secret")), "query"},
		"healthPathRelative": {Options{Groups: []GroupOptions{{HealthPath: "healthz"}}}, "health path"},
		"healthPathAHost":    {Options{Groups: []GroupOptions{{HealthPath: "http://a/b"}}}, "health path"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want %q and no secret", err, c.want)
			}
		})
	}
}
