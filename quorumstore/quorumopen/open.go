// Package quorumopen opens a store on a quorum of Redis servers in one call: the client of
// package quorumstore, a guard that decides while too few servers answer, and leases for hot
// keys. It is the store that stint serve uses.
//
// Use it in a program that counts with other programs through such servers: [Open] takes a
// URL, [New] the options of a client. A program that wants an error, not a decision, while
// too few servers answer uses package quorumstore alone.
package quorumopen

import (
	"context"

	"github.com/stintdev/stint/layered"
	"github.com/stintdev/stint/quorumstore"
)

// Options configures the guard and the leases, and says whether Open waits for the servers.
// The zero value is what stint serve uses by default, and does not wait.
type Options = layered.Options

// Open opens the store at a URL of the form that [quorumstore.ParseURL] reads:
// redis-quorum://host1,host2,host3.
//
// Open needs no reachable server, unless Options.Wait is set: until one is reached, the
// failure policy of each claim decides. The context bounds only that wait. Close the
// store when it is no longer used; that closes the client too.
func Open(ctx context.Context, url string, o Options) (*layered.Store, error) {
	client, err := quorumstore.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return New(ctx, client, o)
}

// New is [Open] with options of the client in place of a URL, such as for a key prefix.
// [quorumstore.ParseURL] makes such options from a URL. The client has the logger and
// the observer of the other options if it has none.
func New(ctx context.Context, client quorumstore.Options, o Options) (*layered.Store, error) {
	if client.Logger == nil {
		client.Logger = o.Logger
	}
	if client.Observer == nil {
		client.Observer = o.Observer
	}
	base, err := quorumstore.New(client)
	if err != nil {
		return nil, err
	}
	return layered.New(ctx, base, o)
}
