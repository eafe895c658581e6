package postgresstore

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stintdev/stint"
)

// Options configures a store: the database and the way to connect to it. [ParseURL] makes
// them from a URL. Only Pool is required.
type Options struct {
	// Pool says how to connect: the addresses, the user, TLS, and the greatest number of
	// connections. pgxpool.ParseConfig makes it; ParseURL does so with defaults that suit
	// a store. The store works with a copy, and leaves the connections to servers that
	// accept no writes.
	Pool *pgxpool.Config
	// Credentials, if not nil, replaces the user and the password of Pool. The store calls
	// it before it makes a connection, so the credentials can change while the store is
	// open: a rotated password, or a token of a cloud's IAM. If it returns an error, the
	// connection is not made.
	Credentials func(ctx context.Context) (username, password string, err error)
	// Schema is the schema of the tables stint_items and stint_nodes. Empty means the
	// first one of the user's search_path.
	Schema string
	// Durable makes tables that survive a crash of the server, and that standbys have. A
	// charge is then as safe as any commit of the server. Without it the tables are
	// UNLOGGED: several times faster, but the server empties them after a crash, and a
	// standby that is promoted begins with empty ones. It is for tables that the store
	// makes; [Migrate] changes existing ones.
	Durable bool

	// Prefix begins every key: at most 64 bytes of text without braces and spaces. Stores
	// with different prefixes share the tables and no counts. Empty means "stint".
	Prefix string
	// Clock returns the time of decisions, which the store rounds down to a microsecond.
	// It must be safe for concurrent use. Nil means the server's own clock.
	Clock func() time.Time
	// KeepFor is the least time for which a row is kept. It is for a Clock that is not in
	// step with the server's, such as that of a test.
	KeepFor time.Duration
	// Timeout bounds one call to the server, and also the making of a connection. 0 means
	// 1 s.
	Timeout time.Duration
	// Heartbeat is the interval at which the store announces itself and compares clocks. 0
	// means 1 s; below 0 means never.
	Heartbeat time.Duration
	// CallerBytes bounds the bytes that this store writes for limits that callers bring
	// (stint.Spec.FromCaller). Beyond it the store refuses new keys of such limits with
	// CodeExhausted. Existing keys and all other limits are not affected. Each of four
	// lifetime classes (up to 3 minutes, up to 3 hours, up to 3 days, longer) has a quarter
	// of the budget. Every node has its own budget, which starts afresh with the process. 0
	// means 256 MiB.
	CallerBytes int64
	// Sweep is the interval at which one of the nodes deletes expired rows. 0 means 1 min;
	// below 0 means never by this node.
	Sweep time.Duration
	// Observer sees every call to the server for claims as a [stint.EventStoreCall] of the
	// name "postgresstore". A call carries the claims of one caller or several; its context
	// is that of a lone caller, and has none of several. Nil costs nothing.
	Observer stint.Observer
	// Logger receives messages about problems that an operator should fix. Nil means no
	// logging.
	Logger *slog.Logger

	url string // that ParseURL read; the files that it names are read again for each connection
}

const (
	defaultPrefix  = "stint"
	defaultTimeout = time.Second
	// defaultConns is the number of connections of a node. Two reads and two writes of
	// batches keep four busy; more are useful only while some wait for locks.
	defaultConns = 8
)

// setDefaults fills in the defaults and returns an error if an option is invalid.
func (o *Options) setDefaults() error {
	o.Prefix = cmp.Or(o.Prefix, defaultPrefix)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.Sweep = cmp.Or(o.Sweep, time.Minute)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.Pool == nil || o.Pool.ConnConfig == nil:
		return wrongOption("Pool is nil", "make it by pgxpool.ParseConfig, or make the options by ParseURL")
	case len(o.Prefix) > 64 || !utf8.ValidString(o.Prefix) || strings.ContainsAny(o.Prefix, "{} \t\r\n\x00"):
		return wrongOption("Prefix is longer than 64 bytes, or is not UTF-8, or has a brace, a space or a zero byte", "use text such as stint:blue")
	case o.Timeout < 0 || o.KeepFor < 0 || o.CallerBytes < 0:
		return wrongOption("Timeout, KeepFor or CallerBytes is below 0", "use 0 for the default")
	case len(o.Schema) > 63 || strings.ContainsRune(o.Schema, 0):
		return wrongOption("Schema is longer than 63 bytes, or has a zero byte", "use the name of a schema")
	}
	return nil
}

// poolConfig returns the configuration of the connections.
func (o *Options) poolConfig() *pgxpool.Config {
	config := o.Pool.Copy()
	c := config.ConnConfig
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, o.Timeout)
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "stint"
	}
	c.DefaultQueryExecMode = pgx.QueryExecModeExec // without names
	if c.ValidateConnect == nil {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	before := config.BeforeConnect
	config.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) (err error) {
		o.readFilesAgain(c)
		if o.Credentials != nil {
			if c.User, c.Password, err = o.Credentials(ctx); err != nil {
				return err
			}
		}
		if before != nil {
			return before(ctx, c)
		}
		return nil
	}
	return config
}

// readFilesAgain updates the configuration of a new connection from the current content of
// the files that the URL names: certificates, authorities, a .pgpass. The URL was valid
// before, so reading it can fail only because of such a file. The previous content is used
// then.
func (o *Options) readFilesAgain(c *pgx.ConnConfig) {
	if o.url == "" {
		return
	}
	now, err := pgx.ParseConfig(o.url)
	if err != nil {
		o.Logger.Error("secret file rejected; its previous content stays in force", "setting", "store", "error", "a file that the URL of the store names cannot be used")
		return
	}
	c.Password, c.TLSConfig, c.Fallbacks = now.Password, now.TLSConfig, now.Fallbacks
}

// address returns the addresses of the servers, for messages.
func (o *Options) address() string {
	c := o.Pool.ConnConfig
	list := []string{hostPort(c.Host, c.Port)}
	for _, f := range c.Fallbacks { // a server occurs twice if TLS is optional
		if a := hostPort(f.Host, f.Port); !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return strings.Join(list, ",")
}

func hostPort(host string, port uint16) string {
	if strings.HasPrefix(host, "/") {
		return host // the folder of a Unix socket
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// String returns the addresses of the servers and the database, without passwords.
func (o Options) String() string {
	if o.Pool == nil || o.Pool.ConnConfig == nil {
		return "postgres://"
	}
	c := o.Pool.ConnConfig
	user := url.PathEscape(c.User)
	if c.Password != "" || o.Credentials != nil {
		user += ":***"
	}
	text := fmt.Sprintf("postgres://%s@%s/%s", user, o.address(), url.PathEscape(c.Database))
	if o.Durable {
		text += "?durable=true"
	}
	return text
}

// GoString returns String, so that no way of printing shows a password.
func (o Options) GoString() string { return o.String() }

// LogValue returns String for a log line.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }
