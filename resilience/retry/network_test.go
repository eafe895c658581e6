package retry

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"syscall"
	"testing"
)

// Handshakes that TLS refuses and invalid addresses are not retried, with the errors that
// net/http really returns.
func TestRefusedHandshakesAreNotRepeated(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	defer server.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	trusted := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	for name, c := range map[string]struct {
		url    string
		config *tls.Config
	}{
		"serverRefusesTheVersion": {server.URL, &tls.Config{RootCAs: trusted, MaxVersion: tls.VersionTLS12}},
		"serverWantsACertificate": {server.URL, &tls.Config{RootCAs: trusted}},
		"clientTrustsNobody":      {server.URL, nil},
		"clientKnowsAnotherName":  {server.URL, &tls.Config{RootCAs: trusted, ServerName: "other.example"}},
		"serverSpeaksNoTLS":       {"https" + plain.URL[len("http"):], nil},
		"thePortIsNone":           {"http://127.0.0.1:99999", nil},
		"theSchemeIsNone":         {"gopher://127.0.0.1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			sent := 0
			base := &http.Transport{TLSClientConfig: c.config}
			defer base.CloseIdleConnections()
			tr := &Transport{Policy: quick(t, Options{}), Base: trip(func(req *http.Request) (*http.Response, error) {
				sent++
				return base.RoundTrip(req)
			})}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp, err := tr.RoundTrip(req); err == nil || sent != 1 {
				t.Errorf("%v, %T %v: %d attempts", resp, err, err, sent)
			}
		})
	}
}

// An error of http.Client always has the methods of a network error, whatever it wraps;
// the wrapped error decides.
func TestErrorsOfClients(t *testing.T) {
	for err, want := range map[error]bool{
		errors.New("unsupported protocol scheme"): false,
		context.Canceled:                                                false,
		context.DeadlineExceeded:                                        true,
		errors.New("http2: client connection lost"):                     true,
		&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}: true,
	} {
		if got := NetworkError(&url.Error{Op: "Get", URL: "http://example.com/", Err: err}); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}
