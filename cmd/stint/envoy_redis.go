package main

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"
	"strings"

	"github.com/stintdev/stint/redisstore"
)

// store is the URL of the Redis that the variables of Envoy's rate limit
// service name, empty when they name none.
func (e environment) store() (string, error) {
	where := e["REDIS_URL"]
	if where == "" {
		return "", nil
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
	hosts := strings.Split(where, ",")
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

// host takes what is in an address that is itself a URL, which REDIS_URL may
// hold too. What stands there wins over other variables.
func (e environment) host(u *url.URL, host *string, encrypted bool) (bool, error) {
	if !strings.Contains(*host, "://") {
		return encrypted, nil
	}
	own, err := url.Parse(*host)
	if err != nil || own.Host == "" || own.Scheme != "redis" && own.Scheme != "rediss" {
		return false, usagef("REDIS_URL: is not host:port, nor redis://host:port (write @ : and / in a password as %%40 %%3A and %%2F)")
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

// user is who speaks to Redis: password, or user:password.
func (e environment) user() (*url.Userinfo, error) {
	auth := e["REDIS_AUTH"]
	if path := e["REDIS_AUTH_FILE"]; path != "" {
		if auth != "" {
			return nil, usagef("REDIS_AUTH_FILE: REDIS_AUTH says it already (remove one of them)")
		}
		var err error
		if auth, err = readSecret("REDIS_AUTH_FILE", path); err != nil {
			return nil, err
		}
	}
	if auth == "" {
		return nil, nil //nolint:nilnil // nobody is named
	}
	if user, password, both := strings.Cut(auth, ":"); both {
		return url.UserPassword(user, password), nil
	}
	return url.UserPassword("", auth), nil
}

// readSecret reads a file but for the ends of its lines.
func readSecret(name, path string) (string, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return "", usagef("%s: %w", name, err)
	}
	secret := strings.TrimRight(string(data), "\r\n")
	if secret == "" {
		return "", usagef("%s: %s is empty (write the password into it)", name, path)
	}
	return secret, nil
}

// options are what stands after the ? of the URL.
func (e environment) options(encrypted bool) url.Values {
	options := url.Values{}
	if auth := e["REDIS_SENTINEL_AUTH"]; auth != "" {
		user, password, both := strings.Cut(auth, ":")
		if !both {
			user, password = "", auth
		}
		put(options, "sentinel_username", user)
		put(options, "sentinel_password", password)
	}
	if encrypted {
		put(options, "tls_ca", e["REDIS_TLS_CACERT"])
		put(options, "tls_cert", e["REDIS_TLS_CLIENT_CERT"])
		put(options, "tls_key", e["REDIS_TLS_CLIENT_KEY"])
	}
	return options
}

func put(options url.Values, name, value string) {
	if value != "" {
		options.Set(name, value)
	}
}

// trustAnyName takes certificates of Redis for another host too, as long as an
// authority has signed them, where REDIS_TLS_SKIP_HOSTNAME_VERIFICATION says
// so.
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
