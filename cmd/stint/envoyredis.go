package main

import (
	"net/url"
	"strings"
)

// store is the URL of the Redis that the variables of Envoy's rate limit
// service name, empty when they name none.
func (e environment) store() (string, error) {
	where := e["REDIS_URL"]
	if where == "" || strings.Contains(where, "://") {
		return where, nil
	}
	tls, err := e.truth("REDIS_TLS")
	if err != nil {
		return "", err
	}
	u := url.URL{Scheme: "redis", Host: where, User: e.user(), RawQuery: e.options(tls).Encode()}
	if tls {
		u.Scheme = "rediss"
	}
	switch kind := strings.ToUpper(e.or("REDIS_TYPE", "SINGLE")); kind {
	case "SINGLE":
	case "CLUSTER":
		u.Scheme += "-cluster"
	case "SENTINEL":
		// The name of the master comes first.
		master, hosts, _ := strings.Cut(where, ",")
		u.Scheme, u.Host, u.Path = u.Scheme+"-sentinel", hosts, "/"+master
	default:
		return "", usagef("REDIS_TYPE: %q is not known (use SINGLE, CLUSTER or SENTINEL)", kind)
	}
	return u.String(), nil
}

// user is who speaks to Redis: password, or user:password.
func (e environment) user() *url.Userinfo {
	auth := e["REDIS_AUTH"]
	if auth == "" {
		return nil
	}
	if user, password, both := strings.Cut(auth, ":"); both {
		return url.UserPassword(user, password)
	}
	return url.UserPassword("", auth)
}

// options are what stands after the ? of the URL.
func (e environment) options(tls bool) url.Values {
	options := url.Values{}
	if auth := e["REDIS_SENTINEL_AUTH"]; auth != "" {
		user, password, both := strings.Cut(auth, ":")
		if !both {
			user, password = "", auth
		}
		put(options, "sentinel_username", user)
		put(options, "sentinel_password", password)
	}
	if tls {
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
