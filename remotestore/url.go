package remotestore

import (
	"crypto/tls"
	"net"
	"net/url"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/secret"
)

// defaultPort is the port of the gRPC listener of stint serve.
const defaultPort = "8081"

// ParseURL reads the URL of a server:
//
//	stint://[:token@]host[:8081]
//
// The scheme stints in place of stint encrypts the connection. In the token, write URL
// characters (@ : / ? # %) percent-encoded, such as %40. The query may have these
// parameters:
//
//	tls_ca=FILE            trust these authorities instead of the system's
//	tls_cert, tls_key=FILE the certificate that this client shows
//	tls_server_name=NAME   the name that the certificate must be for
//	timeout=1s
//
// Errors are an [*stint.Error] of CodeInvalid and never contain the token.
func ParseURL(text string) (Options, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Options{}, wrongURL("it cannot be read", "write % @ and the like in a token as %25 and %40")
	}
	var o Options
	switch u.Scheme {
	case "stint":
	case "stints":
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	default:
		return Options{}, wrongURL("it does not begin with stint:// or stints://", "")
	}
	if err := o.readHost(u); err != nil {
		return Options{}, err
	}
	if err := o.readQuery(u.RawQuery); err != nil {
		return Options{}, err
	}
	return o, nil
}

func wrongURL(problem, mend string) error {
	return &stint.Error{Code: stint.CodeInvalid, Kind: "url", Problem: "store URL: " + problem, Mend: mend}
}

func (o *Options) readHost(u *url.URL) error {
	host, port := u.Hostname(), u.Port()
	switch {
	case host == "":
		return wrongURL("it names no host", "write it as stint://host:8081")
	case u.Path != "" && u.Path != "/" || u.Fragment != "":
		return wrongURL("nothing may follow the host", "write it as stint://host:8081")
	case u.User.Username() != "":
		return wrongURL("a server has no users", "write a token as :TOKEN@host")
	}
	if port == "" {
		port = defaultPort
	}
	o.Token, _ = u.User.Password()
	o.Addr = net.JoinHostPort(host, port)
	return nil
}

func (o *Options) readQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return wrongURL("the query cannot be read", "")
	}
	for name := range values {
		switch name {
		case "timeout":
			if o.Timeout, err = time.ParseDuration(values.Get(name)); err != nil || o.Timeout <= 0 {
				return wrongURL("timeout is not a duration above 0", "write it as timeout=1s")
			}
		case "tls_ca", "tls_cert", "tls_key", "tls_server_name":
			if o.TLS == nil {
				return wrongURL(name+" is for encrypted connections", "begin the URL with stints://")
			}
		default:
			return wrongURL("the query has an unknown parameter", "use timeout, tls_ca, tls_cert, tls_key or tls_server_name")
		}
	}
	if o.TLS == nil {
		return nil
	}
	o.TLS.ServerName = values.Get("tls_server_name")
	if o.files, err = secret.OpenClientTLS(values.Get("tls_ca"), values.Get("tls_cert"), values.Get("tls_key")); err != nil {
		return wrongURL(err.Error(), "name files in PEM form, a certificate together with its key")
	}
	o.TLS = o.files.Apply(o.TLS)
	return nil
}
