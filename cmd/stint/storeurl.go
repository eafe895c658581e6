package main

import (
	"regexp"
	"strings"

	"github.com/stintdev/stint/internal/secret"
	"github.com/stintdev/stint/redisstore"
)

// memoryStore, as a store, is the memory of the process.
const memoryStore = "memory"

// storeOptions reads where a shared store is. The password may stand in a file
// instead of the URL; no error shows either.
func storeOptions(url, passwordFile string) (o redisstore.Options, err error) {
	password, err := openSecret("store-password-file", "password", passwordFile)
	if err != nil {
		return o, err
	}
	return storeOptionsWith(url, password)
}

// storeOptionsWith is storeOptions with a password that has been read.
func storeOptionsWith(url string, password *secret.Text) (o redisstore.Options, err error) {
	if !strings.HasPrefix(url, "redis") {
		return o, usagef("store: %s is not a store of this version (use memory, or redis://, redis-cluster://, redis-sentinel:// or one of these with rediss; stint serve also takes stint:// and stints://)", schemeOf(url))
	}
	if o, err = redisstore.ParseURL(url); err != nil {
		return o, usagef("%w", err)
	}
	if password != nil && o.Password != "" {
		return o, usagef("store: the URL has a password, and --store-password-file is given (remove it from the URL)")
	}
	loginBy(&o, password)
	return o, nil
}

// loginBy lets every connection that is made show the password that its file has
// then.
func loginBy(o *redisstore.Options, password *secret.Text) {
	if password == nil {
		return
	}
	username := o.Username
	o.Credentials = func() (string, string, error) { return username, password.Fresh(), nil }
}

// secretsOnCommandLine names the flags that were given on the command line with a
// password in a URL.
func (f *serveFlags) secretsOnCommandLine(from origins) (flags []string) {
	for _, given := range []struct{ flag, urls string }{
		{"store", f.store}, {"rules", f.rules}, {"upstream", strings.Join(f.upstreams, " ")},
	} {
		if origin, ok := from[given.flag]; ok && origin == "" && passwordInURL.MatchString(given.urls) {
			flags = append(flags, given.flag)
		}
	}
	return flags
}

// passwordInURL finds the password of a user, and one that is a parameter.
var passwordInURL = regexp.MustCompile(`://[^/?#\s]*:[^/?#\s]+@|[?&][a-z_]*password=.`)

// schemeOf names a URL without what may be secret in it.
func schemeOf(text string) string {
	scheme, _, found := strings.Cut(text, "://")
	if !found {
		return "this"
	}
	return scheme + "://"
}
