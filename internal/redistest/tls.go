package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// ServerTLS is [Server] with TLS only. It also returns the configuration of a client that
// trusts it. It skips the test if the server was built without TLS.
func ServerTLS(t testing.TB, options ...string) (*Process, *tls.Config) {
	t.Helper()
	p := newProcess(t, Binary(t))
	certificate, key, trusted := selfSigned(t, p.dir)
	p.tls = &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
	p.options = append([]string{"--port", "0", "--save", "", "--appendonly", "no",
		"--tls-cert-file", certificate, "--tls-key-file", key, "--tls-auth-clients", "no"}, options...)
	p.launch()
	return p, p.tls.Clone()
}

// selfSigned writes a certificate of 127.0.0.1 and its key into a folder. It returns their
// paths and a pool with only this certificate.
func selfSigned(t testing.TB, dir string) (certificate, key string, trusted *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(signed)
	if err != nil {
		t.Fatal(err)
	}
	trusted = x509.NewCertPool()
	trusted.AddCert(parsed)
	return writePEM(t, dir, "CERTIFICATE", signed), writePEM(t, dir, "EC PRIVATE KEY", secret), trusted
}

func writePEM(t testing.TB, dir, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(dir, kind+".pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
