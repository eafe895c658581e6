package remotestore

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
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
