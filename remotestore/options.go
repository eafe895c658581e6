package remotestore

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/secret"
)

// Options say where the server is and how to connect to it. [ParseURL] makes them from
// a URL. Only Addr is required.
type Options struct {
	// Addr is host:port of the server's gRPC listener.
	Addr string
	// Token is the server's bearer token; empty sends none.
	Token string
	// TokenSource, if not nil, returns the token of each call in place of Token, so
	// that the token can change while the store is open. refused reports whether the
	// server refused the token of the previous call. It must not block, and must be
	// safe for concurrent use.
	TokenSource func(refused bool) string
	// TLS configures encryption; nil means a plain connection. Without a ServerName,
	// the server's certificate must be valid for the host of Addr.
	TLS *tls.Config
	// files are the certificate files that ParseURL found. They are read again for
	// each new connection.
	files *secret.ClientTLS
	// Timeout bounds each call to the server, and each attempt to connect. 0 means 1
	// s.
	Timeout time.Duration
	// Observer sees every call to the server as a [stint.EventStoreCall] of the name
	// "remotestore". A call carries the claims of one caller or several; its context is
	// that of a lone caller, and has none of several. Nil costs nothing.
	Observer stint.Observer
	// Logger logs when files named by the URL are read again. Nil means no log.
	Logger *slog.Logger
}

// String returns the URL of the server, without the token.
func (o Options) String() string {
	s := "stint://"
	if o.TLS != nil {
		s = "stints://"
	}
	if o.Token != "" || o.TokenSource != nil {
		s += ":***@"
	}
	return s + o.Addr
}

// GoString is String: no way of printing shows the token.
func (o Options) GoString() string { return o.String() }

// LogValue is String, for a log line.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// setDefaults fills in the defaults, and returns an error for options that cannot
// work.
func (o *Options) setDefaults() error {
	o.Timeout = cmp.Or(o.Timeout, time.Second)
	host, port, err := net.SplitHostPort(o.Addr)
	if err != nil || host == "" {
		return wrongOption("Addr is not host:port", "write it as host:8081")
	}
	switch number, err := strconv.ParseUint(port, 10, 16); {
	case err != nil || number == 0:
		return wrongOption(fmt.Sprintf("Addr has the port %.20q", port), "use 1 to 65535, such as host:8081")
	case o.Timeout < 0:
		return wrongOption("Timeout is below 0", "use 0 for the default")
	}
	return nil
}

func wrongOption(problem, mend string) error {
	return &stint.Error{Code: stint.CodeInvalid, Kind: "options", Problem: "remotestore: " + problem, Mend: mend}
}

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
	files := secret.ClientFiles{Prefix: "tls_", CA: values.Get("tls_ca"), Cert: values.Get("tls_cert"), Key: values.Get("tls_key")}
	if o.files, err = secret.OpenClientTLS(files); err != nil {
		return wrongURL(err.Error(), "name files in PEM form, a certificate together with its key")
	}
	o.TLS = o.files.Apply(o.TLS)
	return nil
}
