package main

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"strings"

	"github.com/stintdev/stint/redisstore"
)

// store returns the URL of the Redis that the variables of Envoy's rate limit
// service name, or "" if they name none.
func (e environment) store() (string, error) {
	addresses := e["REDIS_URL"]
	if addresses == "" {
		return "", nil
	}
	switch socket, err := e.unixSocket(); {
	case err != nil:
		return "", err
	case socket:
		return e.unixStore()
	}
	encrypted, err := e.truth("REDIS_TLS")
	if err != nil {
		return "", err
	}
	u := url.URL{Scheme: "redis"}
	if u.User, err = e.user(); err != nil {
		return "", err
	}
	kind := strings.ToUpper(e.or("REDIS_TYPE", "SINGLE"))
	hosts := strings.Split(addresses, ",")
	if kind == "SENTINEL" {
		u.Path, hosts = "/"+hosts[0], hosts[1:] // the name of the master comes first
	}
	for i := range hosts {
		if encrypted, err = e.host(&u, &hosts[i], encrypted); err != nil {
			return "", err
		}
	}
	u.Host = strings.Join(hosts, ",")
	if encrypted {
		u.Scheme = "rediss"
	}
	switch kind {
	case "SINGLE":
	case "CLUSTER", "SENTINEL":
		u.Scheme += "-" + strings.ToLower(kind)
	default:
		return "", usagef("REDIS_TYPE: %q is not known (use SINGLE, CLUSTER or SENTINEL)", kind)
	}
	u.RawQuery = e.options(encrypted).Encode()
	return u.String(), nil
}

// unixSocket reports whether REDIS_URL is the path of a Unix socket. It returns an error if
// the path and other variables contradict each other.
func (e environment) unixSocket() (socket bool, err error) {
	kind := strings.ToLower(e["REDIS_SOCKET_TYPE"])
	socket = strings.HasPrefix(e["REDIS_URL"], "/")
	encrypted, err := e.truth("REDIS_TLS")
	switch {
	case err != nil:
		return false, err
	case kind != "" && kind != "tcp" && kind != "unix":
		return false, usagef("REDIS_SOCKET_TYPE: %q is not known (use tcp or unix)", kind)
	case kind == "unix" && !socket:
		return false, usagef("REDIS_SOCKET_TYPE: is unix, and REDIS_URL is no path (give the path of the socket, or tcp)")
	case kind == "tcp" && socket:
		return false, usagef("REDIS_URL: is the path of a Unix socket, and REDIS_SOCKET_TYPE is tcp (give host:port, or unix)")
	case socket && encrypted:
		return false, usagef("REDIS_URL: is the path of a Unix socket, whose connections have no TLS (leave REDIS_TLS out)")
	case socket && !strings.EqualFold(e.or("REDIS_TYPE", "SINGLE"), "SINGLE"):
		return false, usagef("REDIS_URL: is the path of a Unix socket, which leads to one server (leave REDIS_TYPE out)")
	}
	return socket, nil
}

// unixStore returns the URL of the Redis behind the Unix socket in REDIS_URL.
func (e environment) unixStore() (string, error) {
	user, err := e.user()
	u := url.URL{Scheme: "redis+unix", User: user, Path: e["REDIS_URL"]}
	return u.String(), err
}

// host handles an address of REDIS_URL that is itself a URL. Its user, password,
// database and scheme take precedence over other variables.
func (e environment) host(u *url.URL, host *string, encrypted bool) (bool, error) {
	if !strings.Contains(*host, "://") {
		return encrypted, nil
	}
	own, err := url.Parse(*host)
	if err != nil || own.Host == "" || own.Scheme != "redis" && own.Scheme != "rediss" {
		return false, usagef("REDIS_URL: is neither host:port nor redis://host:port (write @ : and / in a password as %%40 %%3A and %%2F)")
	}
	*host = own.Host
	if own.User != nil {
		u.User = own.User
		if password, both := own.User.Password(); both && own.User.Username() == "" {
			u.User = url.UserPassword("", password)
		}
	}
	if own.Path != "" && own.Path != "/" && u.Path == "" {
		u.Path = own.Path
	}
	return encrypted || own.Scheme == "rediss", nil
}

// user returns the credentials for Redis, or nil. The variable has the form
// password or user:password.
func (e environment) user() (*url.Userinfo, error) {
	if e["REDIS_AUTH"] != "" && e["REDIS_AUTH_FILE"] != "" {
		return nil, usagef("REDIS_AUTH_FILE: REDIS_AUTH is also set (remove one of them)")
	}
	file, err := openSecret("REDIS_AUTH_FILE", "password", e["REDIS_AUTH_FILE"])
	if err != nil {
		return nil, err
	}
	auth := e.or("REDIS_AUTH", file.Value())
	if auth == "" {
		return nil, nil //nolint:nilnil // no credentials
	}
	if user, password, both := strings.Cut(auth, ":"); both {
		return url.UserPassword(user, password), nil
	}
	return url.UserPassword("", auth), nil
}

// options returns the query parameters of the URL.
func (e environment) options(encrypted bool) url.Values {
	options := url.Values{}
	set := func(name, value string) {
		if value != "" {
			options.Set(name, value)
		}
	}
	user, password, both := strings.Cut(e["REDIS_SENTINEL_AUTH"], ":")
	if !both {
		user, password = "", user
	}
	set("sentinel_username", user)
	set("sentinel_password", password)
	if encrypted {
		set("tls_ca", e["REDIS_TLS_CACERT"])
		set("tls_cert", e["REDIS_TLS_CLIENT_CERT"])
		set("tls_key", e["REDIS_TLS_CLIENT_KEY"])
	}
	return options
}

// trustAnyName accepts a certificate of Redis for another host, if
// REDIS_TLS_SKIP_HOSTNAME_VERIFICATION is true. An authority must still have
// signed the certificate.
func (s *envoySettings) trustAnyName(o *redisstore.Options) {
	if !s.anyRedisName || o.TLS == nil {
		return
	}
	roots := o.TLS.RootCAs
	o.TLS.InsecureSkipVerify = true // the chain is verified below
	o.TLS.VerifyConnection = func(c tls.ConnectionState) error {
		between := x509.NewCertPool()
		for _, cert := range c.PeerCertificates[1:] {
			between.AddCert(cert)
		}
		_, err := c.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
		return err
	}
}
