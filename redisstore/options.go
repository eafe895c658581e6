package redisstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/secret"
)

// Topology is how a store's servers are deployed.
type Topology uint8

// The topologies.
const (
	// Single is one server.
	Single Topology = iota
	// Cluster is several masters with the keys spread over them. One master has
	// all limits of an identity, so a group on one identity is atomic. A group on
	// several identities is charged at each master and refunded if one of them
	// denies it. For up to one round trip other callers may see those charges, and
	// a charged bucket loses what it would have refilled in that time. A charge
	// whose outcome is unknown stays. While a slot migrates, a script call with
	// keys on both masters waits, for at most Options.Timeout.
	Cluster
	// Sentinel is one master at a time, named by sentinels. Replication is
	// asynchronous: a failover loses the writes that the old master had not
	// replicated (see Policy.Replicas).
	Sentinel
)

// String returns the topology in lower case, such as "cluster".
func (t Topology) String() string {
	if t > Sentinel {
		return fmt.Sprintf("topology(%d)", uint8(t))
	}
	return [...]string{"single", "cluster", "sentinel"}[t]
}

// Options configures a store: the servers and the way to connect to them. [ParseURL]
// makes them from a URL. Only Addrs is required, or Client in place of it.
type Options struct {
	Topology Topology
	// Addrs are the host:port addresses of the server, of some nodes of the
	// Cluster, or of the sentinels. The address of a single server can be the path of
	// its Unix socket, which begins with a slash.
	Addrs []string
	// Master is the name by which the sentinels know the master.
	Master string
	// Username and Password authenticate to the servers. An empty name means the
	// default user. If both are empty, connections do not authenticate.
	Username, Password string
	// Credentials, if not nil, replaces Username and Password. The store calls it
	// before it makes a connection, so the credentials can change while the store is
	// open: a rotated password, or a token of a cloud's IAM. If it returns an error,
	// the connection is not made. Its context ends after Timeout. One call at a time
	// is in progress, and serves all connections that are wanted then. A check that
	// needs a connection waits for it, so the function should keep a token that takes
	// long to get until it expires.
	//
	// Connections that are open stay as they are: a server that disconnects them when
	// a token expires costs the calls in flight.
	Credentials func(ctx context.Context) (username, password string, err error)
	// SentinelUsername and SentinelPassword authenticate to the sentinels.
	SentinelUsername, SentinelPassword string
	// SentinelCredentials, if not nil, replaces SentinelUsername and SentinelPassword
	// as Credentials replaces those of the servers. Its context ends after half of
	// Timeout.
	SentinelCredentials func(ctx context.Context) (username, password string, err error)
	// Dial, if not nil, makes the network connections to servers and sentinels, such as
	// through a proxy. It has the form of [net.Dialer.DialContext]: the network is "tcp",
	// or "unix" for a path, and the address is one of Addrs or one that a Cluster or a
	// sentinel named. Its context ends after Timeout, and [Store.Close] waits for
	// calls in progress. Where TLS is set, the store encrypts the connection that Dial
	// returns.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// DB is the number of the database; 0 on a Cluster.
	DB int
	// TLS configures encrypted connections; nil means plain connections. Without a
	// ServerName each server must have a certificate for the host in its address.
	TLS *tls.Config
	// Client, if not nil, is a client that the program has made. The store then makes no
	// connections of its own, and no option of connections may be set with it: neither
	// Addrs nor any of the options above. The client's mode tells the topology. The program
	// closes the client, after the store.
	//
	// All features work with any client of package rueidis: a single server, sentinels and
	// a Cluster, claims that wait for replicas, and clients that a hook wraps. Scripts must
	// go to masters: SendToReplicas must not select EVALSHA and EVAL. Three things are
	// weaker than with the store's own connections:
	//
	//   - A guard stops a server that fails: the store sends it nothing more, but leaves
	//     the client's connections open. Calls in flight end by themselves, and calls that
	//     wait in the client's queue are still sent.
	//   - Checks share the client's connections with the rest of the program, and wait for
	//     its calls. The client's timeouts apply beside Timeout.
	//   - The client learns of a failover by its own means. Set
	//     Sentinel.TopologyRefreshInterval or ClusterOption.ShardsRefreshInterval, or it may
	//     keep an old master for long.
	Client rueidis.Client
	// sentinel is the file with the sentinels' password. ParseURL sets it.
	sentinel *secret.Text
	// files are the TLS files that are read again for each new connection. ParseURL
	// sets them.
	files *secret.ClientTLS

	// Prefix begins every key: at most 64 bytes of text without braces and
	// spaces. Empty means "stint".
	Prefix string
	// Clock returns the time of decisions, which the store rounds down to a
	// microsecond. It must be safe for concurrent use. Nil means the server's own
	// clock.
	Clock func() time.Time
	// KeepFor is how long a key outlives its state, rounded up to a millisecond.
	KeepFor time.Duration
	// Timeout bounds one call to a server, and also the making of a connection. 0
	// means 1 s.
	Timeout time.Duration
	// ReplicaTimeout bounds how long a call waits for the replicas that its claims'
	// policy asks for. 0 means 25 ms.
	ReplicaTimeout time.Duration
	// Heartbeat is the interval at which the store announces itself and compares
	// clocks. 0 means 1 s; below 0 means never.
	Heartbeat time.Duration
	// CallerBytes bounds the bytes that this store keeps in the servers for limits
	// that callers bring (stint.Spec.FromCaller). Beyond it the store refuses new
	// keys of such limits with CodeExhausted. Existing keys and all other limits
	// are not affected. Each of four lifetime classes (up to 3 minutes, up to 3
	// hours, up to 3 days, longer) has a quarter of the budget. Every node has its
	// own budget, which starts afresh with the process. 0 means 256 MiB.
	CallerBytes int64
	// OnceBytes bounds the bytes that this store keeps in the servers for groups that
	// may be repeated (stint.Once): about 350 for a group of one claim, for a minute.
	// Beyond it the store refuses new groups with a Once, with CodeExhausted. Every node
	// has its own budget, which starts afresh with the process. 0 means 128 MiB.
	OnceBytes int64
	// Observer sees every round trip for claims as a [stint.EventStoreCall] of the name
	// "redisstore". A round trip carries the claims of one caller or several; its
	// context is that of a lone caller, and has none of several. Nil costs nothing.
	Observer stint.Observer
	// Logger receives messages about connections to servers and about problems
	// that an operator should fix. Nil means no logging.
	Logger *slog.Logger
}

// String returns the addresses of the servers, without passwords. It also hides a
// user name without a password, which may be a password whose colon was forgotten.
func (o Options) String() string {
	s := o.scheme() + "://"
	switch {
	case o.Password != "" || o.Credentials != nil:
		s += o.Username + ":***@"
	case o.Username != "":
		s += "***@"
	}
	if o.onUnixSocket() {
		s += (&url.URL{Path: o.Addrs[0]}).EscapedPath()
		if o.DB != 0 {
			s += fmt.Sprintf("?db=%d", o.DB)
		}
		return s
	}
	s += strings.Join(o.Addrs, ",")
	if o.Master != "" {
		s += "/" + o.Master
	}
	if o.DB != 0 {
		s += fmt.Sprintf("/%d", o.DB)
	}
	return s
}

// GoString returns String, so that no way of printing shows a password.
func (o Options) GoString() string { return o.String() }

// LogValue returns String for a log line.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// setDefaults fills in the defaults and returns an error if an option is invalid.
func (o *Options) setDefaults() error {
	o.Prefix = cmp.Or(o.Prefix, defaultPrefix)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.ReplicaTimeout = cmp.Or(o.ReplicaTimeout, 25*time.Millisecond)
	o.Heartbeat = cmp.Or(o.Heartbeat, time.Second)
	o.CallerBytes = cmp.Or(o.CallerBytes, DefaultCallerBytes)
	o.OnceBytes = cmp.Or(o.OnceBytes, DefaultOnceBytes)
	if o.Client != nil {
		if err := o.adoptClient(); err != nil {
			return err
		}
	}
	switch {
	case len(o.Addrs) == 0:
		return wrongOption("Addrs is empty", "name at least one server")
	case o.Topology > Sentinel:
		return wrongOption("Topology is unknown", "use Single, Cluster or Sentinel")
	case o.Topology == Sentinel && o.Master == "" && o.Client == nil:
		return wrongOption("Master is empty", "give the name that the sentinels know the master by")
	case o.Topology == Single && len(o.Addrs) > 1:
		return wrongOption("several Addrs for a single server", "set Topology")
	case o.DB < 0 || o.Topology == Cluster && o.DB != 0:
		return wrongOption("DB is below 0, or not 0 on a Cluster", "use 0")
	case o.Timeout < 0 || o.ReplicaTimeout < 0 || o.KeepFor < 0:
		return wrongOption("Timeout, ReplicaTimeout or KeepFor is below 0", "use 0 for the default")
	case o.CallerBytes < 0 || o.OnceBytes < 0:
		return wrongOption("CallerBytes or OnceBytes is below 0", "use 0 for the default")
	}
	if o.onUnixSocket() {
		if o.TLS != nil {
			return wrongOption("TLS with a Unix socket", "leave TLS out: connections by a Unix socket have none")
		}
		return nil
	}
	for i, addr := range o.Addrs {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return wrongOption(fmt.Sprintf("Addrs[%d] is not host:port", i), "write it as host:6379")
		}
	}
	return nil
}

// onUnixSocket reports whether the store is a single server at a Unix socket.
func (o *Options) onUnixSocket() bool {
	return o.Topology == Single && len(o.Addrs) == 1 && unixSocket(o.Addrs[0])
}

func wrongOption(problem, mend string) error {
	return &stint.Error{Code: stint.CodeInvalid, Kind: "options", Problem: "redisstore: " + problem, Mend: mend}
}

func (o Options) scheme() string {
	s := "redis"
	if o.onUnixSocket() {
		return unixScheme
	}
	if o.TLS != nil {
		s = "rediss"
	}
	switch o.Topology {
	case Cluster:
		s += "-cluster"
	case Sentinel:
		s += "-sentinel"
	}
	return s
}
