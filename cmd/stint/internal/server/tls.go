package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/internal/secret"
)

// TLSFiles names PEM files. The zero value means no TLS.
type TLSFiles struct {
	Cert, Key string
	// ClientCA, if not empty, makes every listener require a client certificate signed by
	// one of these authorities.
	ClientCA string
	// ClientName, if not empty, is a host name for which every client certificate must be
	// valid, in addition to being signed by ClientCA.
	ClientName string
}

func (f TLSFiles) check() error {
	switch {
	case (f.Cert == "") != (f.Key == ""):
		return errors.New("tls-cert: goes with tls-key (give both or neither)")
	case f.ClientCA != "" && f.Cert == "":
		return errors.New("client-ca: needs TLS (give --tls-cert and --tls-key)")
	case f.ClientName != "" && f.ClientCA == "":
		return errors.New("client-ca: is missing, so no authority can certify the name that clients must have (give --client-ca)")
	}
	return nil
}

// certificates hold the TLS configuration in force. New files can replace it while
// connections stay open.
type certificates struct {
	named   TLSFiles
	files   *secret.Files
	current atomic.Pointer[tls.Config]
}

// loadCertificates returns nil when no certificate is named.
func loadCertificates(files TLSFiles) (*certificates, error) {
	if err := files.check(); err != nil || files.Cert == "" {
		return nil, err
	}
	c := &certificates{named: files}
	paths := []string{files.Cert, files.Key}
	if files.ClientCA != "" {
		paths = append(paths, files.ClientCA)
	}
	var err error
	if c.files, err = secret.Open("tls-cert", paths, c.use); err != nil {
		return nil, err
	}
	return c, nil
}

// secret returns the files to watch, or nil without TLS.
func (c *certificates) secret() *secret.Files {
	if c == nil {
		return nil
	}
	return c.files
}

// asksClients reports whether clients need a certificate.
func (c *certificates) asksClients() bool { return c != nil && c.named.ClientCA != "" }

// use puts the contents of the files in force for later handshakes.
func (c *certificates) use(contents [][]byte) error {
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: protocols()}
	if len(contents) > 2 {
		if config.ClientCAs = x509.NewCertPool(); !config.ClientCAs.AppendCertsFromPEM(contents[2]) {
			return fmt.Errorf("client-ca: %s holds no PEM certificate", c.named.ClientCA)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if name := c.named.ClientName; name != "" {
		config.VerifyConnection = func(s tls.ConnectionState) error { return s.PeerCertificates[0].VerifyHostname(name) }
	}
	c.current.Store(config)
	return nil
}

// protocols returns the ALPN protocols in order of preference. HTTP/1.0 is listed because a
// client that offers only HTTP/1.0 would be refused without it.
func protocols() []string { return []string{"h2", "http/1.1", "http/1.0"} }

// expires returns when the certificate in force expires.
func (c *certificates) expires() time.Time { return c.current.Load().Certificates[0].Leaf.NotAfter }

// config returns the configuration of one listener, which looks up the certificates in
// force at every handshake.
func (c *certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         protocols(),
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
	}
}
