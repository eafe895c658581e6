package redisstore

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/secret"
)

// ParseURL reads the URL of a store:
//
//	redis://[user:password@]host[:6379][/db]
//	redis-cluster://[user:password@]host[:6379],host[:6379]…
//	redis-sentinel://[user:password@]host[:26379],host[:26379]…/master-name[/db]
//	redis+unix://[user:password@]/path/of/the/socket[?db=1]
//
// The scheme rediss in place of redis encrypts the connections; a Unix socket has no such
// form. Write a password without
// a user as ":password@", and URL characters in it (@ : / ? # %) percent-encoded, such as
// %40. User and password are those of the servers. The query may have these parameters:
//
//	sentinel_username, sentinel_password  of the sentinels, if they require them
//	sentinel_password_file=FILE  the password, read for each connection to a sentinel
//	tls_ca=FILE            trust these authorities instead of the system's
//	tls_cert, tls_key=FILE the certificate that this client shows
//	tls_server_name=NAME   the name that certificates must be for
//	tls_skip_verify=true   trust every certificate: for tests
//	timeout=1s, replica_timeout=25ms
//	db=1                   the database behind a Unix socket
//
// Errors are an [*stint.Error] of CodeInvalid and never contain a password.
func ParseURL(text string) (Options, error) {
	var o Options
	scheme, rest, found := strings.Cut(text, "://")
	if !found || !o.readScheme(scheme) {
		return Options{}, wrongURL("it does not begin with redis://, redis-cluster://, redis-sentinel://, one of these with rediss, or redis+unix://", "")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, absolute := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		if err := o.readUser(authority[:at]); err != nil {
			return Options{}, err
		}
		authority = authority[at+1:]
	}
	place := func() error { return cmp.Or(o.readAddrs(authority), o.readPath(path)) }
	if isUnix(scheme) {
		place = func() error { return o.readSocket(authority, path, absolute) }
	}
	for _, read := range []func() error{place, func() error { return o.readQuery(query) }} {
		if err := read(); err != nil {
			return Options{}, err
		}
	}
	return o, nil
}

func wrongURL(problem, mend string) error {
	return &stint.Error{Code: stint.CodeInvalid, Kind: "url", Problem: "store URL: " + problem, Mend: mend}
}

func isUnix(scheme string) bool { return strings.EqualFold(scheme, unixScheme) }

const unixScheme = "redis+unix"

func (o *Options) readScheme(scheme string) bool {
	if isUnix(scheme) {
		o.Topology = Single
		return true
	}
	base, kind, _ := strings.Cut(strings.ToLower(scheme), "-")
	switch kind {
	case "":
		o.Topology = Single
	case "cluster":
		o.Topology = Cluster
	case "sentinel":
		o.Topology = Sentinel
	default:
		return false
	}
	if base == "rediss" {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return base == "redis" || base == "rediss"
}

func (o *Options) readUser(info string) error {
	user, password, _ := strings.Cut(info, ":")
	var err1, err2 error
	o.Username, err1 = url.PathUnescape(user)
	o.Password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return wrongURL("a % in the user or password is not followed by two hexadecimal digits", "write % as %25")
	}
	return nil
}

func (o *Options) readAddrs(list string) error {
	port := "6379"
	if o.Topology == Sentinel {
		port = "26379"
	}
	for i, addr := range strings.Split(list, ",") {
		full, ok := withPort(addr, port)
		if !ok {
			return wrongURL(fmt.Sprintf("address %d is not host:port with a port from 1 to 65535", i+1),
				"write / ? # and @ in a user or password as %2F %3F %23 %40")
		}
		o.Addrs = append(o.Addrs, full)
	}
	if o.Topology == Single && len(o.Addrs) > 1 {
		return wrongURL("several addresses", "use redis-cluster:// or redis-sentinel://")
	}
	return nil
}

// readSocket reads the path of a Unix socket, which follows an empty host.
func (o *Options) readSocket(host, path string, absolute bool) error {
	if host != "" {
		return wrongURL("a Unix socket has no host",
			"write its path behind three slashes, redis+unix:///run/redis.sock, and / @ and ? in a user or password as %2F %40 %3F")
	}
	path, err := url.PathUnescape(path)
	if !absolute || path == "" || err != nil || strings.HasSuffix(path, "/") || strings.ContainsRune(path, 0) {
		return wrongURL("the path of the Unix socket is missing, or is no path of a file",
			"write it behind three slashes, such as redis+unix:///run/redis.sock, and % in it as %25")
	}
	o.Addrs = []string{"/" + path}
	return nil
}

// unixSocket reports whether an address is the path of a Unix socket.
func unixSocket(addr string) bool { return strings.HasPrefix(addr, "/") }

// withPort returns an address with its port.
func withPort(addr, port string) (string, bool) {
	host := addr
	if h, p, err := net.SplitHostPort(addr); err == nil {
		host, port = h, p
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	n, err := strconv.ParseUint(port, 10, 16)
	bare := host != "" && !strings.ContainsAny(host, "[]/@ \t\r\n") && (!strings.Contains(host, ":") || net.ParseIP(host) != nil)
	return net.JoinHostPort(host, port), err == nil && n > 0 && bare
}

func (o *Options) readPath(path string) error {
	db := path
	if o.Topology == Sentinel {
		var err error
		o.Master, db, _ = strings.Cut(path, "/")
		if o.Master, err = url.PathUnescape(o.Master); err != nil || o.Master == "" {
			return wrongURL("the name of the master is missing", "end it with the name that the sentinels know: redis-sentinel://host:26379/mymaster")
		}
	}
	if db == "" {
		return nil
	}
	n, err := strconv.ParseUint(db, 10, 31)
	if err != nil {
		return wrongURL("the database is not a number", "end it with /0, or with nothing")
	}
	o.DB = int(n)
	if o.Topology == Cluster && n != 0 {
		return wrongURL("a cluster has only database 0", "")
	}
	return nil
}

// parameters has a reader for each parameter of the query.
var parameters = map[string]func(o *Options, value string) error{
	"sentinel_username":      func(o *Options, v string) error { o.SentinelUsername = v; return nil },
	"sentinel_password":      func(o *Options, v string) error { o.SentinelPassword = v; return nil },
	"sentinel_password_file": (*Options).readSentinelPassword,

	"db":              (*Options).readDB,
	"timeout":         func(o *Options, v string) error { return readDuration(&o.Timeout, v) },
	"replica_timeout": func(o *Options, v string) error { return readDuration(&o.ReplicaTimeout, v) },
	"tls_ca":          nil, // readQuery opens the files together
	"tls_cert":        nil,
	"tls_key":         nil,
	"tls_server_name": func(o *Options, v string) error { o.TLS.ServerName = v; return nil },
	"tls_skip_verify": (*Options).readSkipVerify,
}

func (o *Options) readQuery(query string) error {
	values, err := url.ParseQuery(strings.ReplaceAll(query, "+", "%2B")) // a + stands for itself, not for a space
	if err != nil {
		return wrongURL("the query is not name=value&name=value", "")
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := o.readParameter(name, values.Get(name)); err != nil {
			return err
		}
		if len(values[name]) > 1 {
			return wrongURL(name+" is given twice", "")
		}
	}
	files := secret.ClientFiles{Prefix: "tls_", CA: values.Get("tls_ca"), Cert: values.Get("tls_cert"), Key: values.Get("tls_key")}
	if o.files, err = secret.OpenClientTLS(files); err != nil {
		return wrongURL(err.Error(), "name files in PEM form, a certificate together with its key")
	}
	o.TLS = o.files.Apply(o.TLS)
	return nil
}

func (o *Options) readParameter(name, value string) error {
	read, known := parameters[name]
	if !known {
		return wrongURL("the query has an unknown parameter", "known are db, replica_timeout, sentinel_password, sentinel_password_file, sentinel_username, timeout, tls_ca, tls_cert, tls_key, tls_server_name and tls_skip_verify")
	}
	unix := unixSocket(o.Addrs[0])
	switch {
	case o.TLS == nil && strings.HasPrefix(name, "tls_") && unix:
		return wrongURL(name+" with a Unix socket", "leave it out: connections by a Unix socket have no TLS")
	case o.TLS == nil && strings.HasPrefix(name, "tls_"):
		return wrongURL(name+" without TLS", "begin it with rediss")
	case name == "db" && !unix:
		return wrongURL("db without a Unix socket", "write the database behind the address: redis://host:6379/1")
	}
	if read == nil {
		return nil
	}
	if err := read(o, value); err != nil {
		return wrongURL(name+" "+err.Error(), "")
	}
	return nil
}

func (o *Options) readDB(text string) error {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return errors.New("is not the number of a database, such as 0")
	}
	o.DB = int(n)
	return nil
}

func (o *Options) readSentinelPassword(file string) (err error) {
	if o.SentinelPassword != "" {
		return errors.New("is given together with sentinel_password (give one of them)")
	}
	o.sentinel, err = secret.OpenText("sentinel_password_file", "password", file)
	return err
}

func readDuration(into *time.Duration, text string) (err error) {
	if *into, err = time.ParseDuration(text); err != nil || *into <= 0 {
		return errors.New("is not a time above 0, such as 250ms")
	}
	return nil
}

func (o *Options) readSkipVerify(text string) (err error) {
	if o.TLS.InsecureSkipVerify, err = strconv.ParseBool(text); err != nil { // asked for by its name
		return errors.New("is neither true nor false")
	}
	return nil
}
