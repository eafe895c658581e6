package memcachedstore

import (
	"cmp"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint"
)

// Options configures a store: the servers and the way to connect to them. [ParseURL] makes
// them from a URL. Only Servers is required.
type Options struct {
	// Servers are the addresses of the servers, such as 10.0.0.7:11211, in any order. All
	// processes that share limits must name the same servers by the same text: the text
	// decides which server has a key.
	Servers []string

	// Prefix begins every key: at most 64 bytes without spaces and control characters.
	// Stores with different prefixes share the servers and no counts. Empty means "stint".
	Prefix string
	// Clock returns the time of decisions, which the store rounds down to a microsecond.
	// It must be safe for concurrent use. Nil means the clock of this process.
	Clock func() time.Time
	// KeepFor is the least time for which an item is kept. It is for a Clock that is not in
	// step with the server's, such as that of a test.
	KeepFor time.Duration
	// Timeout bounds one call to a server, and also the making of a connection. 0 means
	// 1 s.
	Timeout time.Duration
	// Conns is the greatest number of connections to each server. 0 means 8. Two reads and
	// two writes of batches keep four busy; groups across keys and locked keys use more.
	Conns int
	// Heartbeat is the interval at which the store announces itself and compares the clocks
	// of the nodes. 0 means 1 s; below 0 means never.
	Heartbeat time.Duration
	// CallerBytes bounds the bytes that this store writes for limits that callers bring
	// (stint.Spec.FromCaller). Beyond it the store refuses new keys of such limits with
	// CodeExhausted. Existing keys and all other limits are not affected. Each of four
	// lifetime classes (up to 3 minutes, up to 3 hours, up to 3 days, longer) has a quarter
	// of the budget. Every node has its own budget, which starts afresh with the process. 0
	// means 256 MiB. The budgets of all nodes should be well below the memory of the servers:
	// beyond that, Memcached evicts what other limits count.
	CallerBytes int64
	// Observer sees every call to a server for claims as a [stint.EventStoreCall] of the
	// name "memcachedstore". A call carries the claims of one caller or several; its context
	// is that of a lone caller, and has none of several. Nil costs nothing.
	Observer stint.Observer
	// Logger receives messages about problems that an operator should fix. Nil means no
	// logging.
	Logger *slog.Logger
}

const (
	defaultPrefix  = "stint"
	defaultTimeout = time.Second
	defaultConns   = 8
	defaultPort    = "11211"

	maxServers = 100
	maxPrefix  = 64
	maxConns   = 1000
)

// setDefaults fills in the defaults and returns an error if an option is invalid.
func (o *Options) setDefaults() error {
	o.Prefix = cmp.Or(o.Prefix, defaultPrefix)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.Conns = cmp.Or(o.Conns, defaultConns)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case len(o.Servers) == 0 || len(o.Servers) > maxServers:
		return wrongOption("Servers has no server, or more than 100", "name the address of each server")
	case len(o.Prefix) > maxPrefix || !clean(o.Prefix):
		return wrongOption("Prefix is longer than 64 bytes, or has a space or a control character", "use text such as stint:blue")
	case o.Timeout < 0 || o.KeepFor < 0 || o.CallerBytes < 0:
		return wrongOption("Timeout, KeepFor or CallerBytes is below 0", "use 0 for the default")
	case o.Conns < 0 || o.Conns > maxConns:
		return wrongOption("Conns is not a number from 0 to 1000", "use 0 for the default")
	}
	for i, name := range o.Servers {
		if slices.Contains(o.Servers[:i], name) {
			return wrongOption("Servers names a server twice", "name each server once")
		}
		if _, _, err := net.SplitHostPort(name); err != nil {
			return wrongOption("Servers has an address that is not host:port", "write it as 10.0.0.7:11211 or [::1]:11211")
		}
	}
	return nil
}

// ParseURL reads the URL of a store:
//
//	memcached://host[:11211][,host[:11211]…][?timeout=1s]
//
// An IPv6 address stands in brackets. The order of the hosts does not matter, but all nodes
// must write each of them in the same way. There is no user and no password: the store does
// not authenticate itself. Errors are an [*stint.Error] of CodeInvalid.
func ParseURL(text string) (o Options, err error) {
	rest, found := strings.CutPrefix(text, "memcached://")
	if !found {
		return Options{}, wrongURL("it does not begin with memcached://", "write it as memcached://host1,host2")
	}
	place, query, _ := strings.Cut(rest, "?")
	place = strings.TrimSuffix(place, "/")
	switch {
	case strings.Contains(place, "@"):
		return Options{}, wrongURL("it has a user or a password, and the store has no credentials for Memcached", "remove them, and let only the nodes reach the servers")
	case strings.ContainsAny(place, "/#"):
		return Options{}, wrongURL("it has a path", "write it as memcached://host1,host2")
	}
	for host := range strings.SplitSeq(place, ",") {
		name, err := hostPort(host)
		if err != nil {
			return Options{}, err
		}
		if slices.Contains(o.Servers, name) {
			return Options{}, wrongURL("the server "+name+" is named twice", "name each server once")
		}
		o.Servers = append(o.Servers, name)
	}
	return o, o.readQuery(query)
}

// hostPort returns the address of a host of a URL, with its port.
func hostPort(host string) (string, error) {
	u, err := url.Parse("memcached://" + host)
	bare := !strings.HasPrefix(host, "[") && strings.Count(host, ":") > 1
	if err != nil || u.Hostname() == "" || u.Host != host || bare || !clean(host) {
		return "", wrongURL("a server is empty, or not host or host:port", "write it as memcached://host1,host2:11212, and an IPv6 address as [::1]")
	}
	port := cmp.Or(u.Port(), defaultPort)
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", wrongURL("the port of a server is not a number from 1 to 65535", "")
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port), nil
}

// readQuery reads the parameters of a URL.
func (o *Options) readQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return wrongURL("the query is not name=value&name=value", "")
	}
	for name, list := range values {
		switch {
		case name != "timeout":
			return wrongURL("the query has an unknown parameter", "known is timeout")
		case len(list) > 1:
			return wrongURL(name+" is given twice", "")
		}
		if o.Timeout, err = time.ParseDuration(list[0]); err != nil || o.Timeout <= 0 {
			return wrongURL("timeout is not a time above 0, such as 250ms", "")
		}
	}
	return nil
}

// String returns the addresses of the servers.
func (o Options) String() string { return "memcached://" + strings.Join(o.Servers, ",") }

// LogValue returns String for a log line.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }
