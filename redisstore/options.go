package redisstore

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/secret"
)

// Topology is how the servers of a store belong together.
type Topology uint8

// The topologies.
const (
	// Single is one server.
	Single Topology = iota
	// Cluster is keys spread over several masters. All limits of one identity
	// are on one of them, so that a group of them is atomic. A group of several
	// identities is charged at each and given back where another one denies:
	// for up to one round trip others may see those charges, and what a bucket
	// would have refilled meanwhile is lost to it; a charge whose outcome is
	// unknown stays. While a slot is on its way to another master, a script
	// call with keys on both sides waits, for at most Options.Timeout.
	Cluster
	// Sentinel is one master at a time, which sentinels name. Replication is
	// asynchronous: what the old master had not passed on when it failed is
	// forgotten (see Policy.Replicas).
	Sentinel
)

// Options are where the servers are and how to speak to them. [ParseURL] makes
// them from a URL. Only Addrs is required.
type Options struct {
	Topology Topology
	// Addrs are host:port of the server, of some nodes of the Cluster, or of
	// the sentinels.
	Addrs []string
	// Master is the name of the master that the sentinels watch.
	Master string
	// Username and Password are those of the servers. An empty name means the
	// default user; an empty password with it means no authentication.
	Username, Password string
	// Credentials, when not nil, returns the user name and password of each
	// connection that is made, in place of Username and Password, so that they can
	// change while the store is open. It returns at once, and is called by many
	// goroutines at once. With an error the connection is not made.
	Credentials func() (username, password string, err error)
	// SentinelUsername and SentinelPassword are those of the sentinels.
	SentinelUsername, SentinelPassword string
	// DB is the number of the database; 0 on a Cluster.
	DB int
	// TLS is nil for plain connections. Without a ServerName each server must
	// have a certificate for the host that it is called by.
	TLS *tls.Config
	// sentinel, by ParseURL, is a file with SentinelPassword.
	sentinel *secret.Text
	// files, by ParseURL, are read again for each connection that is made.
	files *secret.ClientTLS

	// Prefix begins every key: at most 64 bytes of text without braces and
	// spaces. Empty means "stint".
	Prefix string
	// Clock returns the time in microseconds since the Unix epoch that claims
	// are decided at. Nil means the server's own clock.
	Clock func() int64
	// KeepFor is how much longer than its state a key lives, rounded up to a
	// millisecond.
	KeepFor time.Duration
	// Timeout is the most that one call to a server takes, and that making a
	// connection takes. 0 means 1 s.
	Timeout time.Duration
	// ReplicaTimeout is the most that a call waits for the replicas that its
	// claims' policy asks for. 0 means 25 ms.
	ReplicaTimeout time.Duration
	// Heartbeat is how often the store announces itself and compares clocks. 0
	// means once a second; below 0 means never.
	Heartbeat time.Duration
	// CallerBytes bounds what this store keeps in the servers for limits that
	// callers of a server bring (stint.Spec.FromCaller). Beyond it their new
	// keys are refused with CodeExhausted; what exists, and all other limits,
	// go on. Each of four classes of lifetimes has a quarter of it: up to 3
	// minutes, 3 hours, 3 days, and longer. Every node has a budget of its own,
	// and a new one when it starts. 0 means 256 MiB.
	CallerBytes int64
	// Logger hears of servers found and lost, and of what an operator should
	// mend. Nil means silence.
	Logger *slog.Logger
}

// String returns where the servers are, without passwords. A user who has none
// is not shown either: it may be a password without the colon before it.
func (o Options) String() string {
	s := o.scheme() + "://"
	switch {
	case o.Password != "" || o.Credentials != nil:
		s += o.Username + ":***@"
	case o.Username != "":
		s += "***@"
	}
	s += strings.Join(o.Addrs, ",")
	if o.Topology == Sentinel {
		s += "/" + o.Master
	}
	if o.DB != 0 {
		s += fmt.Sprintf("/%d", o.DB)
	}
	return s
}

// GoString is String, so that no way of printing shows a password.
func (o Options) GoString() string { return o.String() }

// LogValue is String, for a log line.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// Login returns the user name and password for a connection that is made now.
func (o *Options) Login() (username, password string, err error) {
	if o.Credentials != nil {
		return o.Credentials()
	}
	return o.Username, o.Password, nil
}

// SentinelLogin is Login for the sentinels.
func (o *Options) SentinelLogin() (username, password string) {
	if o.sentinel == nil {
		return o.SentinelUsername, o.SentinelPassword
	}
	o.sentinel.LogTo(o.Logger)
	return o.SentinelUsername, o.sentinel.Fresh()
}

// TLSConfig returns TLS for a connection that is made now. Files that the URL
// named are read again if they have changed, and Logger hears of it. What they
// held before stays in use while they have a mistake.
func (o *Options) TLSConfig() *tls.Config {
	if o.files != nil {
		o.files.LogTo(o.Logger)
	}
	return o.files.Apply(o.TLS)
}

// setDefaults puts the defaults in, and refuses what cannot work.
func (o *Options) setDefaults() error {
	o.Prefix = cmp.Or(o.Prefix, defaultPrefix)
	o.Timeout = cmp.Or(o.Timeout, time.Second)
	o.ReplicaTimeout = cmp.Or(o.ReplicaTimeout, 25*time.Millisecond)
	o.Heartbeat = cmp.Or(o.Heartbeat, time.Second)
	o.CallerBytes = cmp.Or(o.CallerBytes, DefaultCallerBytes)
	switch {
	case len(o.Addrs) == 0:
		return wrongOption("Addrs is empty", "name at least one server")
	case o.Topology > Sentinel:
		return wrongOption("Topology is unknown", "use Single, Cluster or Sentinel")
	case o.Topology == Sentinel && o.Master == "":
		return wrongOption("Master is empty", "give the name that the sentinels know the master by")
	case o.Topology == Single && len(o.Addrs) > 1:
		return wrongOption("several Addrs for a single server", "set Topology")
	case o.DB < 0 || o.Topology == Cluster && o.DB != 0:
		return wrongOption("DB is below 0, or not 0 on a Cluster", "use 0")
	case o.Timeout < 0 || o.ReplicaTimeout < 0 || o.KeepFor < 0:
		return wrongOption("Timeout, ReplicaTimeout or KeepFor is below 0", "use 0 for the default")
	case o.CallerBytes < 0:
		return wrongOption("CallerBytes is below 0", "use 0 for the default")
	}
	return o.checkAddrs()
}

func (o *Options) checkAddrs() error {
	for i, addr := range o.Addrs {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return wrongOption(fmt.Sprintf("Addrs[%d] is not host:port", i), "write it as host:6379")
		}
	}
	return nil
}

func wrongOption(problem, mend string) error {
	return &stint.Error{Code: stint.CodeInvalid, Kind: "options", Problem: "redisstore: " + problem, Mend: mend}
}

func (o Options) scheme() string {
	s := "redis"
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
