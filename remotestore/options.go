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

// Options are where the server is and how to speak to it. [ParseURL] makes them
// from a URL. Only Addr is required.
type Options struct {
	// Addr is host:port of the server's gRPC listener.
	Addr string
	// Token is the server's bearer token; empty sends none.
	Token string
	// TokenSource, when not nil, returns the token of each call in place of Token,
	// so that it can change while the store is open. refused says that the server
	// has refused the token of the call before. It returns at once, and is called by
	// many goroutines at once.
	TokenSource func(refused bool) string
	// TLS is nil for plain connections. Without a ServerName the server must
	// have a certificate for the host of Addr.
	TLS *tls.Config
	// files, by ParseURL, are read again for each connection that is made.
	files *secret.ClientTLS
	// Timeout is the most that one call to the server takes, and that making a
	// connection takes. 0 means 1 s.
	Timeout time.Duration
	// Logger hears of files named by the URL that were read again. Nil means
	// silence.
	Logger *slog.Logger
}

// String returns where the server is, without the token.
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

// GoString is String, so that no way of printing shows a token.
func (o Options) GoString() string { return o.String() }

// LogValue is String, for a log line.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// setDefaults puts the defaults in, and refuses what cannot work.
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
