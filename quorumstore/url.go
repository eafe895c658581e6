package quorumstore

import (
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
//	redis-quorum://[user:password@]host[:6379],host[:6379],host[:6379][/db]
//
// The scheme rediss-quorum encrypts the connections. There are 3, 5 or 7 hosts, in any order;
// all nodes must write each of them in the same way. Write a password without a user as
// ":password@", and URL characters in it (@ : / ? # %) percent-encoded, such as %40. The
// query may have these parameters:
//
//	timeout=1s             of one call to a server; the same for all nodes
//	tls_ca=FILE            trust these authorities instead of the system's
//	tls_cert, tls_key=FILE the certificate that this client shows
//	tls_server_name=NAME   the name that certificates must be for
//	tls_skip_verify=true   trust every certificate: for tests
//
// Errors are an [*stint.Error] of CodeInvalid and never contain a password.
func ParseURL(text string) (o Options, err error) {
	scheme, rest, found := strings.Cut(text, "://")
	switch scheme = strings.ToLower(scheme); {
	case found && scheme == "redis-quorum":
	case found && scheme == "rediss-quorum":
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	default:
		return Options{}, wrongURL("it does not begin with redis-quorum:// or rediss-quorum://", "write it as redis-quorum://host1,host2,host3")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, db, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		if err := o.readUser(authority[:at]); err != nil {
			return Options{}, err
		}
		authority = authority[at+1:]
	}
	for _, read := range []func() error{
		func() error { return o.readServers(authority) }, func() error { return o.readDB(db) }, func() error { return o.readQuery(query) },
	} {
		if err := read(); err != nil {
			return Options{}, err
		}
	}
	return o, nil
}

func wrongURL(problem, mend string) error {
	return &stint.Error{Code: stint.CodeInvalid, Kind: "url", Problem: "store URL: " + problem, Mend: mend}
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

func (o *Options) readServers(list string) error {
	for i, host := range strings.Split(list, ",") {
		name, ok := address(host)
		if !ok {
			return wrongURL(fmt.Sprintf("address %d is not host:port with a port from 1 to 65535", i+1),
				"write / ? # and @ in a user or password as %2F %3F %23 %40")
		}
		if slices.Contains(o.Servers, name) {
			return wrongURL("the server "+name+" is named twice", "name each server once")
		}
		o.Servers = append(o.Servers, name)
	}
	if n := len(o.Servers); n < leastServers || n > mostServers || n%2 == 0 {
		return wrongURL(fmt.Sprintf("it names %d servers", n), "name 3, 5 or 7 of them: an even number survives no more failures than one server less")
	}
	return nil
}

// address returns an address with its port.
func address(text string) (string, bool) {
	host, port := text, defaultPort
	if h, p, err := net.SplitHostPort(text); err == nil {
		host, port = h, p
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	n, err := strconv.ParseUint(port, 10, 16)
	bare := host != "" && !strings.ContainsAny(host, "[]/@ \t\r\n") && (!strings.Contains(host, ":") || net.ParseIP(host) != nil)
	return net.JoinHostPort(strings.ToLower(host), port), err == nil && n > 0 && bare
}

func (o *Options) readDB(text string) error {
	if text == "" {
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return wrongURL("the database is not a number", "end it with /0, or with nothing")
	}
	o.DB = int(n)
	return nil
}

func (o *Options) readQuery(query string) error {
	values, err := url.ParseQuery(strings.ReplaceAll(query, "+", "%2B")) // a + stands for itself, not for a space
	if err != nil {
		return wrongURL("the query is not name=value&name=value", "")
	}
	for name, list := range values {
		if len(list) > 1 {
			return wrongURL("a parameter is given twice", "")
		}
		if err := o.readParameter(name, list[0]); err != nil {
			return err
		}
	}
	files := secret.ClientFiles{Prefix: "tls_", CA: values.Get("tls_ca"), Cert: values.Get("tls_cert"), Key: values.Get("tls_key")}
	if o.files, err = secret.OpenClientTLS(files); err != nil {
		return wrongURL(err.Error(), "name files in PEM form, a certificate together with its key")
	}
	o.TLS = o.files.Apply(o.TLS)
	return nil
}

func (o *Options) readParameter(name, value string) (err error) {
	if o.TLS == nil && strings.HasPrefix(name, "tls_") {
		return wrongURL("a parameter of TLS without TLS", "begin it with rediss-quorum")
	}
	switch name {
	case "tls_ca", "tls_cert", "tls_key": // readQuery opens the files together
	case "tls_server_name":
		o.TLS.ServerName = value
	case "tls_skip_verify":
		if o.TLS.InsecureSkipVerify, err = strconv.ParseBool(value); err != nil { // asked for by its name
			return wrongURL("tls_skip_verify is neither true nor false", "")
		}
	case "timeout":
		if o.Timeout, err = time.ParseDuration(value); err == nil && (o.Timeout <= 0 || o.Timeout > maxTimeout) {
			err = errors.New("out of range")
		}
		if err != nil {
			return wrongURL("timeout is not a time above 0 and up to a minute, such as 250ms", "")
		}
	default:
		return wrongURL("the query has an unknown parameter", "known are timeout, tls_ca, tls_cert, tls_key, tls_server_name and tls_skip_verify")
	}
	return nil
}
