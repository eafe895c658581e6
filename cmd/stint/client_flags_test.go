package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// selfSigned writes a self-signed certificate for 127.0.0.1 and its key.
func selfSigned(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "stint"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, kind string, der []byte) string {
		return writeFile(t, filepath.Join(t.TempDir(), name), string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
	}
	return file("cert.pem", "CERTIFICATE", signed), file("key.pem", "PRIVATE KEY", secret)
}

func TestCheckReachesAServerThatRequiresCertificates(t *testing.T) {
	certificate, key := selfSigned(t)
	token := writeFile(t, filepath.Join(t.TempDir(), "token"), "s3cret\n")
	p := startServer(t, nil, "--tls-cert", certificate, "--tls-key", key, "--client-ca", certificate, "--http-token-file", token)
	check := []string{"check", "--server", "https://" + p.addr("http"), "path=/"}
	trusting := slices.Concat(check, []string{"--token-file", token, "--tls-ca", certificate})
	if got := command(t, nil, slices.Concat(trusting, []string{"--tls-cert", certificate, "--tls-key", key})...); got.status != exitDone || !strings.HasPrefix(got.out, "allowed\n") {
		t.Errorf("status %d\n%s%s", got.status, got.out, got.errors)
	}
	for name, c := range map[string]struct {
		args   []string
		status int
		want   string
	}{
		"unknown authority":     {check, exitFailed, "unknown authority"},
		"no certificate":        {trusting, exitFailed, "certificate required"},
		"certificate alone":     {slices.Concat(trusting, []string{"--tls-cert", certificate}), exitUsage, "give --tls-cert and --tls-key"},
		"no authority in it":    {slices.Concat(check, []string{"--tls-ca", key}), exitUsage, "holds no certificate"},
		"a file that was unset": {slices.Concat(check, []string{"--tls-ca", ""}), exitUsage, "tls-ca: is given, and empty"},
		"no token in it":        {slices.Concat(check, []string{"--token-file", filepath.Join(t.TempDir(), "none")}), exitUsage, "token-file: "},
	} {
		if got := command(t, nil, c.args...); got.status != c.status || !strings.Contains(got.errors, c.want) {
			t.Errorf("%s: status %d, %q, want %d with %q", name, got.status, got.errors, c.status, c.want)
		}
	}
}
