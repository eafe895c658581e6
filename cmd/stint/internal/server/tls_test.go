package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // PEM
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, file: filepath.Join(t.TempDir(), "ca.pem")}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = newKey(t)
	a.cert = a.sign(template, template, a.key, a.file)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) sign(template, parent *x509.Certificate, key *ecdsa.PrivateKey, file string) *x509.Certificate {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	writeFile(a.t, file, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return cert
}

// issue writes a certificate for this machine and its key into two files.
func (a *authority) issue(serial int64, files TLSFiles) {
	a.t.Helper()
	key := newKey(a.t)
	a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "stint"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, key, files.Cert)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	writeFile(a.t, files.Key, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
}

func (a *authority) files() TLSFiles {
	folder := a.t.TempDir()
	return TLSFiles{Cert: filepath.Join(folder, "cert.pem"), Key: filepath.Join(folder, "key.pem")}
}

// client trusts the authority and shows the certificate of files, if any.
func (a *authority) client(files TLSFiles) *tls.Config {
	a.t.Helper()
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	config.RootCAs.AddCert(a.cert)
	if files.Cert != "" {
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			a.t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

// shake connects by TLS, asks for / and returns the state of the connection.
func shake(addr net.Addr, config *tls.Config) (tls.ConnectionState, error) {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", addr.String(), config)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write([]byte("GET /healthz HTTP/1.0\r\n\r\n")); err != nil {
		return tls.ConnectionState{}, err
	}
	// With TLS 1.3 a client learns only from the first read that its certificate is refused.
	_, err = conn.Read(make([]byte, 1))
	return conn.ConnectionState(), err
}

func TestEveryListenerAsksForAClientCertificate(t *testing.T) {
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	server, friend, stranger := ours.files(), ours.files(), theirs.files()
	ours.issue(1, server)
	ours.issue(2, friend)
	theirs.issue(3, stranger)
	server.ClientCA = ours.file
	s := run(t, Config{GRPC: "127.0.0.1:0", RESP: "127.0.0.1:0", Gateway: "127.0.0.1:0", Upstreams: echo(t), TLS: server})
	withStranger := ours.client(stranger)
	for _, name := range []string{"http", "admin", "gateway", "grpc", "resp"} {
		known, nobody, strange := ours.client(friend), ours.client(TLSFiles{}), withStranger.Clone()
		if name == "grpc" { // speaks first, but only HTTP/2
			known.NextProtos, nobody.NextProtos, strange.NextProtos = []string{"h2"}, []string{"h2"}, []string{"h2"}
		}
		if _, err := shake(s.Addr(name), known); err != nil {
			t.Errorf("%s: a client with a certificate: %v", name, err)
		}
		if _, err := shake(s.Addr(name), nobody); err == nil {
			t.Errorf("%s: a client without a certificate is let in", name)
		}
		if _, err := shake(s.Addr(name), strange); err == nil {
			t.Errorf("%s: a client of another authority is let in", name)
		}
	}
}

func TestTLSOffersHTTP2AndNothingOld(t *testing.T) {
	ours := newAuthority(t, "ours")
	server := ours.files()
	ours.issue(1, server)
	s := run(t, Config{TLS: server})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: ours.client(TLSFiles{}), ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	response, err := client.Get("https://" + s.Addr("http").String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.ProtoMajor != 2 {
		t.Errorf("%s", response.Proto)
	}
	one := ours.client(TLSFiles{})
	one.NextProtos = []string{"http/1.0"}
	if state, err := shake(s.Addr("http"), one); err != nil || state.NegotiatedProtocol != "http/1.0" {
		t.Errorf("HTTP/1.0: %v, %q", err, state.NegotiatedProtocol)
	}
	old := ours.client(TLSFiles{})
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if _, err := shake(s.Addr("http"), old); err == nil {
		t.Error("TLS 1.1 is let in")
	}
	if got := s.get("http", "/healthz"); got.status != http.StatusBadRequest {
		t.Errorf("plain HTTP on a TLS port: status %d", got.status)
	}
}

func TestReloadReplacesCertificatesOrKeepsThem(t *testing.T) {
	ours := newAuthority(t, "ours")
	server := ours.files()
	ours.issue(1, server)
	s := run(t, Config{TLS: server})
	wantSerial := func(when string, want int64) {
		t.Helper()
		state, err := shake(s.Addr("http"), ours.client(TLSFiles{}))
		if err != nil || state.PeerCertificates[0].SerialNumber.Int64() != want {
			t.Errorf("%s: %v, want certificate %d", when, err, want)
		}
	}
	wantSerial("at first", 1)
	ours.issue(2, server)
	s.Reload()
	wantSerial("after a reload", 2)
	writeFile(t, server.Key, "no key")
	s.Reload()
	wantSerial("after a reload of nonsense", 2)
	if !strings.Contains(s.logs.String(), "secret file rejected") {
		t.Error(s.logs.String())
	}
}
