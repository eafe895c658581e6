package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
)

// TLSFiles names PEM files. The zero value is no TLS.
type TLSFiles struct {
	Cert, Key string
	// ClientCA, when not empty, makes every listener ask for a client
	// certificate that one of these authorities has signed.
	ClientCA string
	// ClientName, when not empty, is a host name that the certificate of every
	// client must be for, beside being signed by ClientCA.
	ClientName string
}

func (f TLSFiles) check() error {
	switch {
	case (f.Cert == "") != (f.Key == ""):
		return errors.New("tls-cert: goes with tls-key (give both or neither)")
	case f.ClientCA != "" && f.Cert == "":
		return errors.New("client-ca: needs TLS (give --tls-cert and --tls-key)")
	case f.ClientName != "" && f.ClientCA == "":
		return errors.New("client-ca: is missing, so that nobody vouches for the name that clients must have")
	}
	return nil
}

// certificates hold the TLS configuration in force, which the files can
// replace while connections stay open.
type certificates struct {
	files   TLSFiles
	current atomic.Pointer[tls.Config]
}

// loadCertificates returns nil when no certificate is named.
func loadCertificates(files TLSFiles) (*certificates, error) {
	if err := files.check(); err != nil || files.Cert == "" {
		return nil, err
	}
	c := &certificates{files: files}
	return c, c.reload()
}

// asksClients reports whether clients need a certificate.
func (c *certificates) asksClients() bool { return c != nil && c.files.ClientCA != "" }

// reload reads the files again. On an error what was in force stays.
func (c *certificates) reload() error {
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return fmt.Errorf("tls-cert: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: protocols()}
	if c.files.ClientCA != "" {
		if config.ClientCAs, err = readAuthorities(c.files.ClientCA); err != nil {
			return err
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if name := c.files.ClientName; name != "" {
		config.VerifyConnection = func(s tls.ConnectionState) error { return s.PeerCertificates[0].VerifyHostname(name) }
	}
	c.current.Store(config)
	return nil
}

// protocols are what a handshake may settle on, the best first. HTTP/1.0 is
// spoken without TLS too, and a client that names nothing else would be refused.
func protocols() []string { return []string{"h2", "http/1.1", "http/1.0"} }

func readAuthorities(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("client-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("client-ca: %s holds no PEM certificate", path)
	}
	return pool, nil
}

// reloadCertificates reads those of all listeners again.
func (s *Server) reloadCertificates() {
	all := []*certificates{s.certs, s.grpcTLS}
	if s.grpcTLS == s.certs {
		all = all[:1]
	}
	for _, c := range all {
		if c == nil {
			continue
		}
		if err := c.reload(); err != nil {
			s.log.Error("certificates kept", errorAttr(err))
		} else {
			s.log.Info("certificates reloaded")
		}
	}
}

// config is the configuration of one listener: it asks for the one in force
// at every handshake.
func (c *certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         protocols(),
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
	}
}
