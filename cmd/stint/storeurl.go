package main

import (
	"strings"

	"github.com/stintdev/stint/redisstore"
)

// memoryStore, as a store, is the memory of the process.
const memoryStore = "memory"

// storeOptions reads where a shared store is. The password may stand in a file
// instead of the URL; no error shows either.
func storeOptions(url, passwordFile string) (o redisstore.Options, err error) {
	if !strings.HasPrefix(url, "redis") {
		return o, usagef("store: %s is not a store of this version (use memory, or redis://, redis-cluster://, redis-sentinel:// or one of these with rediss; stint serve also takes stint:// and stints://)", schemeOf(url))
	}
	if o, err = redisstore.ParseURL(url); err != nil {
		return o, usagef("%w", err)
	}
	password, err := readToken("store-password-file", passwordFile)
	switch {
	case err != nil:
		return o, err
	case password != "" && o.Password != "":
		return o, usagef("store: the URL has a password, and so has %s (remove it from the URL)", passwordFile)
	case password != "":
		o.Password = password
	}
	return o, nil
}

// schemeOf names a URL without what may be secret in it.
func schemeOf(text string) string {
	scheme, _, found := strings.Cut(text, "://")
	if !found {
		return "this"
	}
	return scheme + "://"
}
