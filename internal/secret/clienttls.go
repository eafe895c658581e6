package secret

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync/atomic"
)

// ClientTLS is what a client reads from files for its connections: the
// authorities that it trusts and the certificate that it shows. A nil *ClientTLS
// reads nothing. The methods are safe for use by many goroutines at once.
type ClientTLS struct {
	*Files

	current atomic.Pointer[clientTLS]
}

type clientTLS struct {
	authorities  *x509.CertPool    // nil: those of the system
	certificates []tls.Certificate // none: it shows none
}

// OpenClientTLS reads the PEM files of authorities and of a certificate and its
// key. An empty ca, or an empty cert and key, leaves that out; without both the
// result is nil.
func OpenClientTLS(name, ca, cert, key string) (*ClientTLS, error) {
	var paths []string
	if ca != "" {
		paths = append(paths, ca)
	}
	if cert != "" {
		paths = append(paths, cert, key)
	}
	if paths == nil {
		return nil, nil //nolint:nilnil // there is nothing to read
	}
	t := &ClientTLS{}
	var err error
	t.Files, err = Open(name, paths, func(contents [][]byte) error { return t.use(contents, ca != "") })
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (t *ClientTLS) use(contents [][]byte, authorities bool) error {
	read := &clientTLS{}
	if authorities {
		read.authorities = x509.NewCertPool()
		if !read.authorities.AppendCertsFromPEM(contents[0]) {
			return errors.New("the file of authorities holds no PEM certificate")
		}
		contents = contents[1:]
	}
	if len(contents) > 0 {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		if err != nil {
			return err
		}
		read.certificates = []tls.Certificate{pair}
	}
	t.current.Store(read)
	return nil
}

// Apply returns the configuration for a connection that is made now: base, with
// what the files hold. They are read again if they have changed.
func (t *ClientTLS) Apply(base *tls.Config) *tls.Config {
	if t == nil || base == nil {
		return base
	}
	t.Refresh()
	now := t.current.Load()
	config := base.Clone()
	if now.authorities != nil {
		config.RootCAs = now.authorities
	}
	if now.certificates != nil {
		config.Certificates = now.certificates
	}
	return config
}
