package remotetest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/remotestore"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/server"
)

func TestURLsAreRead(t *testing.T) {
	for text, want := range map[string]remotestore.Options{
		"stint://localhost":            {Addr: "localhost:8081"},
		"stint://localhost:9/":         {Addr: "localhost:9"},
		"stint://[::1]":                {Addr: "[::1]:8081"},
		"stint://:to%40ken@h:1":        {Addr: "h:1", Token: "to@ken"},
		"stint://h?timeout=250ms":      {Addr: "h:8081", Timeout: 250 * time.Millisecond},
		"stints://h":                   {Addr: "h:8081", TLS: new(tls.Config)},
		"stints://h?tls_server_name=n": {Addr: "h:8081", TLS: &tls.Config{ServerName: "n"}},
	} {
		got, err := remotestore.ParseURL(text)
		if err != nil || got.Addr != want.Addr || got.Token != want.Token || got.Timeout != want.Timeout || (got.TLS == nil) != (want.TLS == nil) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
		if want.TLS != nil && (got.TLS.ServerName != want.TLS.ServerName || got.TLS.MinVersion != tls.VersionTLS12) {
			t.Errorf("%s: TLS for %q", text, got.TLS.ServerName)
		}
	}
}

func TestWrongURLsSayWhatIsWrong(t *testing.T) {
	for text, says := range map[string]string{
		"redis://h":                     "it does not begin with stint://",
		"stint://":                      "it names no host",
		"stint://:hidden@":              "it names no host",
		"stint://:hid%zzden@h":          "it cannot be read",
		"stint://h:port":                "it cannot be read",
		"stint://me:hidden@h":           "a server has no users",
		"stint://:hidden@h/3":           "nothing may follow the host",
		"stint://h?timeout=soon":        "timeout is not a duration above 0",
		"stint://h?timeout=-1s":         "timeout is not a duration above 0",
		"stint://h?hidden=1":            "an unknown parameter",
		"stint://h?a=%zz":               "the query cannot be read",
		"stint://h?tls_cert=f":          "begin the URL with stints://",
		"stints://h?tls_cert=/no/where": "tls_cert and tls_key",
		"stints://h?tls_ca=/no/where":   "tls_ca: open /no/where",
		"stints://h?tls_ca=/dev/null":   "tls_ca: the file of authorities has no PEM certificate",
	} {
		_, err := remotestore.ParseURL(text)
		wantError(t, text, err, stint.CodeInvalid, says)
		if strings.Contains(fmt.Sprint(err), "hidden") || strings.Contains(fmt.Sprint(err), "hid%zzden") {
			t.Errorf("%v shows a token", err)
		}
	}
	for _, o := range []remotestore.Options{{}, {Addr: "h"}, {Addr: ":8081"}, {Addr: "h:"}, {Addr: "h:0"}, {Addr: "h:99999"}, {Addr: "h:-1"}, {Addr: "h:1", Timeout: -1}} {
		_, err := remotestore.New(o)
		wantError(t, o.Addr, err, stint.CodeInvalid, "remotestore: ")
	}
}

func TestTokenIsNotShown(t *testing.T) {
	o := remotestore.Options{Addr: "h:1", Token: "hidden"}
	s := open(t, o)
	for _, text := range []string{
		fmt.Sprint(o), fmt.Sprintf("%+v %#v %s", o, o, o), slog.AnyValue(o).Resolve().String(),
		fmt.Sprint(s), fmt.Sprintf("%+v %#v %s", s, s, s), slog.AnyValue(s).String(),
	} {
		if strings.Contains(text, "hidden") || !strings.Contains(text, "stint://:***@h:1") {
			t.Error(text)
		}
	}
}

func TestTokenOpensTheServer(t *testing.T) {
	memory := stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000})
	addr := serve(t, server.Config{Store: memory, HTTPToken: "s3cret"})
	claim := stint.Claim{Key: "k", Limit: mustLimit(t, "5/h"), Cost: 1}
	for token, works := range map[string]bool{"s3cret": true, "other": false, "": false} {
		s := open(t, remotestore.Options{Addr: addr, Token: token, Timeout: patience})
		_, err := s.Take(t.Context(), claim)
		if works {
			if err != nil {
				t.Error(err)
			}
			await(t, "the state", s.Up) // the client uses a connection a moment before it says so
			continue
		}
		if s.Up() {
			t.Errorf("token %q: the server is up", token)
		}
		wantError(t, "token "+token, err, stint.CodeUnavailable, "--http-token-file")
	}
}

// certificate writes a self-signed certificate for 127.0.0.1 and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// With mutual TLS no token is needed to name rules.
func TestCertificatesOfBothSides(t *testing.T) {
	cert, key := certificate(t)
	memory := stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000})
	addr := serve(t, server.Config{Store: memory, TLS: server.TLSFiles{Cert: cert, Key: key, ClientCA: cert}})
	limit, err := stint.Spec{Rule: "orders", Limit: 5, Window: time.Hour}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	for query, works := range map[string]bool{
		"?tls_ca=" + cert + "&tls_cert=" + cert + "&tls_key=" + key: true,
		"?tls_ca=" + cert: false,
		"":                false,
	} {
		o, err := remotestore.ParseURL("stints://" + addr + query)
		if err != nil {
			t.Fatal(err)
		}
		o.Timeout = patience
		_, err = open(t, o).Take(t.Context(), stint.Claim{Key: "k", Limit: limit, Cost: stint.Forget})
		if works && err != nil {
			t.Error(err)
		}
		if !works {
			wantError(t, query, err, stint.CodeUnavailable, "")
		}
	}
	_, err = open(t, remotestore.Options{Addr: addr, Timeout: patience}).Take(t.Context(), stint.Claim{Key: "k", Limit: limit})
	wantError(t, "plain", err, stint.CodeUnavailable, addr)
}

// TestAuthoritiesAreReadAgain adds the authority of the server's certificate to the
// file named by the URL after the store was opened, as a rotation of certificates
// does.
func TestAuthoritiesAreReadAgain(t *testing.T) {
	cert, key := certificate(t)
	other, _ := certificate(t)
	memory := stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000})
	addr := serve(t, server.Config{Store: memory, TLS: server.TLSFiles{Cert: cert, Key: key}})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	follow := func(path string) {
		t.Helper()
		pem, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(ca, pem, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	follow(other)
	o, err := remotestore.ParseURL("stints://" + addr + "?tls_ca=" + ca)
	if err != nil {
		t.Fatal(err)
	}
	o.Timeout = patience
	s := open(t, o)
	take := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := s.Take(ctx, stint.Claim{Key: "k", Limit: mustLimit(t, "9/h"), Cost: 1})
		return err
	}
	if take() == nil {
		t.Fatal("another authority's certificate is trusted")
	}
	follow(cert)
	for end := time.Now().Add(patience); take() != nil; {
		if time.Now().After(end) {
			t.Fatal("the authority is not read again")
		}
	}
}
