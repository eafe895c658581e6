// Package redisopen opens a store in Redis or Valkey in one call: the client of package
// redisstore, a guard that decides while the servers fail, and leases for hot keys. It is
// the store that stint serve uses.
//
// Use it in a program that counts with other programs through Redis: [Open] takes a URL,
// [New] the options of a client. A program that wants an error, not a decision, while the
// servers fail uses package redisstore alone.
package redisopen

import (
	"context"

	"github.com/stintdev/stint/layered"
	"github.com/stintdev/stint/redisstore"
)

// Options configures the guard and the leases, and says whether Open waits for a server.
// The zero value is what stint serve uses by default, and does not wait.
type Options = layered.Options

// Open opens the store at a URL of any form that [redisstore.ParseURL] reads: redis://,
// redis-cluster://, redis-sentinel://, one of these with rediss for TLS, or redis+unix://
// for a Unix socket.
//
// Open needs no reachable server, unless Options.Wait is set: until one is reached, the
// failure policy of each claim decides. The context bounds only that wait. Close the
// store when it is no longer used; that closes the client too. No error contains a
// password.
func Open(ctx context.Context, url string, o Options) (*layered.Store, error) {
	client, err := redisstore.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return New(ctx, client, o)
}

// New is [Open] with options of the client in place of a URL: for a key prefix,
// credentials, a dialer, or a client that the program has made. [redisstore.ParseURL]
// makes such options from a URL. The client has the logger and the observer of the other
// options if it has none.
func New(ctx context.Context, client redisstore.Options, o Options) (*layered.Store, error) {
	if client.Logger == nil {
		client.Logger = o.Logger
	}
	if client.Observer == nil {
		client.Observer = o.Observer
	}
	base, err := redisstore.New(client)
	if err != nil {
		return nil, err
	}
	return layered.New(ctx, base, o)
}
