package secret

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"sync/atomic"
)

// ClientTLS holds what a client reads from files for its connections: the trusted
// authorities and its own certificate. A nil *ClientTLS reads nothing. The methods are
// safe for concurrent use.
type ClientTLS struct {
	*Files

	current atomic.Pointer[clientTLS]
}

type clientTLS struct {
	authorities  *x509.CertPool    // nil: those of the system
	certificates []tls.Certificate // empty: no client certificate
}

// OpenClientTLS reads the PEM files of a URL's parameters tls_ca, tls_cert and tls_key.
// An empty ca, or an empty cert and key, omits that part; without both the result is nil.
// Errors name the parameter.
func OpenClientTLS(ca, cert, key string) (*ClientTLS, error) {
	var names, paths []string
	if ca != "" {
		names, paths = append(names, "tls_ca"), append(paths, ca)
	}
	if cert != "" || key != "" {
		names, paths = append(names, "tls_cert and tls_key"), append(paths, cert, key)
	}
	switch {
	case paths == nil:
		return nil, nil //nolint:nilnil // there is nothing to read
	case (cert == "") != (key == ""):
		return nil, errors.New("tls_cert and tls_key: only one of them is given (give both, or neither)")
	}
	t := &ClientTLS{}
	var err error
	t.Files, err = Open(strings.Join(names, ", "), paths, func(contents [][]byte) error { return t.use(contents, ca != "") })
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
			return errors.New("the file of authorities has no PEM certificate")
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

// Apply returns the configuration for a new connection: base, with the contents of the
// files. It reads the files again if they have changed.
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
