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
	changed func() // guarded by Files.mu; may be nil
}

// ClientFiles names the PEM files of a [ClientTLS]. An empty CA, or an empty Cert and
// Key, omits that part.
type ClientFiles struct {
	CA, Cert, Key string
	// Prefix comes before ca, cert and key in the names of the settings, which errors and
	// log lines begin with: "tls_" for parameters of a URL.
	Prefix string
}

type clientTLS struct {
	authorities  *x509.CertPool    // nil: those of the system
	certificates []tls.Certificate // empty: no client certificate
}

// OpenClientTLS reads the files. Without any the result is nil. Errors name the setting.
func OpenClientTLS(f ClientFiles) (*ClientTLS, error) {
	var names, paths []string
	if f.CA != "" {
		names, paths = append(names, f.Prefix+"ca"), append(paths, f.CA)
	}
	pair := f.Prefix + "cert and " + f.Prefix + "key"
	if f.Cert != "" || f.Key != "" {
		names, paths = append(names, pair), append(paths, f.Cert, f.Key)
	}
	switch {
	case paths == nil:
		return nil, nil //nolint:nilnil // there is nothing to read
	case (f.Cert == "") != (f.Key == ""):
		return nil, errors.New(pair + ": only one of them is given (give both, or neither)")
	}
	t := &ClientTLS{}
	var err error
	t.Files, err = Open(strings.Join(names, ", "), paths, func(contents [][]byte) error { return t.use(contents, f.CA != "") })
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
	if t.changed != nil {
		t.changed()
	}
	return nil
}

// OnChange sets the function to call after new contents are in force, for a client that
// keeps connections with the old ones. The function may call [ClientTLS.Config], and must
// not read the files again. A nil *ClientTLS never changes.
func (t *ClientTLS) OnChange(changed func()) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = changed
}

// Apply returns the configuration for a new connection, as Config does. It first reads the
// files again if they have changed.
func (t *ClientTLS) Apply(base *tls.Config) *tls.Config {
	if t == nil || base == nil {
		return base
	}
	t.Refresh()
	return t.Config(base)
}

// Config returns base with the contents of the files that are in force.
func (t *ClientTLS) Config(base *tls.Config) *tls.Config {
	if t == nil || base == nil {
		return base
	}
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
