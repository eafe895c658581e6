package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

func TestTLS(t *testing.T) {
	server, trusting := redistest.ServerTLS(t)
	for name, c := range map[string]struct {
		config *tls.Config
		kind   stint.Kind
	}{
		"trusted":           {trusting, ""},
		"of nobody trusted": {&tls.Config{MinVersion: tls.VersionTLS12}, "tls"},
		"of another name":   {&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusting.RootCAs, ServerName: "elsewhere"}, "tls"},
	} {
		t.Run(name, func(t *testing.T) {
			top := newTestTopology(t, Options{Addrs: []string{server.Addr()}, TLS: c.config})
			got, err := count(t, top, name)
			if c.kind != "" {
				wantError(t, err, stint.CodeUnavailable, c.kind)
				return
			}
			if err != nil || got != "1" {
				t.Error(got, err)
			}
			n := top.nodeOf(0)
			n.stop()
			if err := n.probe(t.Context()); err != nil {
				t.Error("a probe after stop:", err)
			}
		})
	}
}

// The test uses TLS 1.2, in which the refusal arrives before the end of the handshake and
// is never lost.
func TestMissingClientCertificateIsReported(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	config := &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12}
	top := newTestTopology(t, Options{Addrs: []string{server.Listener.Addr().String()}, TLS: config})
	_, err := count(t, top, "k")
	wantError(t, err, stint.CodeUnavailable, "tls")
	if !strings.Contains(err.Error(), "tls_cert") {
		t.Error("the error does not hint at a client certificate:", err)
	}
}

func TestPlainServerIsNoTLSServer(t *testing.T) {
	server := redistest.Server(t)
	top := newTestTopology(t, Options{Addrs: []string{server.Addr()}, Timeout: 200 * time.Millisecond, TLS: &tls.Config{MinVersion: tls.VersionTLS12}})
	_, err := count(t, top, "k")
	wantError(t, err, stint.CodeUnavailable, "connection") // the server waits for the end of a line
	if !strings.Contains(err.Error(), "TLS") {
		t.Error("the error does not hint at TLS:", err)
	}
}
