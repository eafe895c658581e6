package quorumstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/secret"
)

// Options configures a store: the servers and the way to connect to them. [ParseURL] makes
// them from a URL. Only Servers is required.
type Options struct {
	// Servers are the host:port addresses of the servers: 3, 5 or 7, in any order. A
	// majority of them decides. All processes must name the same servers by the same text:
	// the text is the list of members that the servers know. [Replace] changes it.
	Servers []string
	// Username and Password authenticate to the servers. An empty name means the default
	// user. If both are empty, connections do not authenticate.
	Username, Password string
	// Credentials, if not nil, replaces Username and Password. The store calls it for each
	// connection, so the credentials can change while the store is open. It must be safe for
	// concurrent use. Its context ends after Timeout.
	Credentials func(ctx context.Context) (username, password string, err error)
	// Dial, if not nil, makes the network connections, such as through a proxy. It has the
	// form of [net.Dialer.DialContext]; the network is "tcp" and the address is one of
	// Servers. Its context ends after Timeout. Where TLS is set, the store encrypts the
	// connection that Dial returns.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// DB is the number of the database on each server.
	DB int
	// TLS configures encrypted connections; nil means plain connections. Without a
	// ServerName each server must have a certificate for the host in its address.
	TLS *tls.Config
	// files are the TLS files that are read again for each new connection. ParseURL sets
	// them.
	files *secret.ClientTLS

	// Prefix begins every key: at most 64 bytes of text without braces and spaces, and without
	// one of =~%^#? after a colon. Stores with different prefixes share the servers and no
	// counts. Empty means "stint".
	Prefix string
	// Clock returns the time of decisions, which the store rounds down to a microsecond.
	// It must be safe for concurrent use. Nil means the clock of the quorum: the lower
	// median of the clocks of the servers that answered.
	Clock func() time.Time
	// KeepFor is the least time for which a key is kept: a minute, if it is less. It is for a Clock that
	// is not in step with the servers', such as that of a test.
	KeepFor time.Duration
	// Timeout bounds one call to a server, and also the making of a connection. All
	// processes must have the same one: it is part of the time that a server that lost its
	// data waits. 0 means 1 s.
	Timeout time.Duration
	// Conns is the greatest number of connections to each server. 0 means 8.
	Conns int
	// Heartbeat is the interval at which the store announces itself. 0 means 1 s; below 0
	// means never.
	Heartbeat time.Duration
	// CallerBytes bounds the bytes that this process writes to each server for limits that
	// callers bring ([stint.Spec.FromCaller]). Beyond it, new keys of such limits are refused
	// with CodeExhausted. 0 means 256 MiB.
	CallerBytes int64
	// Observer sees every call for claims as a [stint.EventStoreCall] of the name
	// "quorumstore". A call carries the claims of one caller or several; its context is
	// that of a lone caller, and has none of several. Nil costs nothing.
	Observer stint.Observer
	// Logger receives messages about problems that an operator should fix. Nil means no
	// logging.
	Logger *slog.Logger
}

const (
	defaultPrefix  = "stint"
	defaultTimeout = time.Second
	defaultConns   = 8
	defaultPort    = "6379"

	leastServers = 3
	mostServers  = 7
	maxPrefix    = 64
	maxConns     = 1000
	maxTimeout   = time.Minute
)

// setDefaults fills in the defaults and returns an error if an option is invalid.
func (o *Options) setDefaults() error {
	o.Prefix = cmp.Or(o.Prefix, defaultPrefix)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.Conns = cmp.Or(o.Conns, defaultConns)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch n := len(o.Servers); {
	case n < leastServers || n > mostServers || n%2 == 0:
		return wrongOption(fmt.Sprintf("Servers has %d servers", n), "name 3, 5 or 7 of them: an even number survives no more failures than one server less")
	case len(o.Prefix) > maxPrefix || strings.ContainsAny(o.Prefix, "{} \t\r\n\x00"):
		return wrongOption("Prefix is longer than 64 bytes, or has a brace, a space or a zero byte", "use text such as stint:blue")
	case hasRow(o.Prefix):
		return wrongOption("Prefix has a colon before one of =~%^#?, as the rows of a shorter prefix have", "use text such as stint:blue")
	case o.Timeout < 0 || o.KeepFor < 0 || o.CallerBytes < 0:
		return wrongOption("Timeout, KeepFor or CallerBytes is below 0", "use 0 for the default")
	case o.Timeout > maxTimeout:
		return wrongOption("Timeout is longer than a minute", "use less: a server that lost its data waits at least as long")
	case o.Conns < 0 || o.Conns > maxConns:
		return wrongOption("Conns is not a number from 0 to 1000", "use 0 for the default")
	case o.DB < 0:
		return wrongOption("DB is below 0", "use 0")
	}
	for i, name := range o.Servers {
		if slices.Contains(o.Servers[:i], name) {
			return wrongOption("Servers names "+name+" twice", "name each server once")
		}
		if _, _, err := net.SplitHostPort(name); err != nil {
			return wrongOption(fmt.Sprintf("Servers[%d] is not host:port", i), "write it as host:6379")
		}
	}
	return nil
}

// String returns the addresses of the servers, without passwords. It also hides a user name
// without a password, which may be a password whose colon was forgotten.
func (o Options) String() string {
	s := "redis-quorum://"
	if o.TLS != nil {
		s = "rediss-quorum://"
	}
	switch {
	case o.Password != "" || o.Credentials != nil:
		s += o.Username + ":***@"
	case o.Username != "":
		s += "***@"
	}
	s += strings.Join(o.Servers, ",")
	if o.DB != 0 {
		s += fmt.Sprintf("/%d", o.DB)
	}
	return s
}

// GoString returns String, so that no way of printing shows a password.
func (o Options) GoString() string { return o.String() }

// LogValue returns String for a log line.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// login returns the credentials for a new connection.
func (o *Options) login(ctx context.Context) (username, password string, err error) {
	if o.Credentials == nil {
		return o.Username, o.Password, nil
	}
	if username, password, err = o.Credentials(ctx); err != nil {
		err = fmt.Errorf("credentials: %w", err)
	}
	return username, password, err
}

func wrongOption(problem, mend string) error {
	return &stint.Error{Code: stint.CodeInvalid, Kind: "options", Problem: "quorumstore: " + problem, Mend: mend}
}
