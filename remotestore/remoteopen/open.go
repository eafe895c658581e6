// Package remoteopen opens a store in a Stint server in one call: the client of package
// remotestore, a guard that decides while the server fails, and leases for hot keys. It is
// the store that stint serve uses with --store stint://….
//
// Use it in a program that counts with other programs through a Stint server: [Open]
// takes a URL, [New] the options of a client. A program that wants an error, not a
// decision, while the server fails uses package remotestore alone.
package remoteopen

import (
	"context"

	"github.com/stintdev/stint/layered"
	"github.com/stintdev/stint/remotestore"
)

// Options configures the guard and the leases, and says whether Open waits for the server.
// The zero value is what stint serve uses by default, and does not wait. A Stint server
// does not count the programs that use it: set Guard.Nodes where claims have the failure
// policy [github.com/stintdev/stint.FailLocal] or [github.com/stintdev/stint.FailLastKnown].
type Options = layered.Options

// Open opens the store at a URL of the form that [remotestore.ParseURL] reads: stint://, or
// stints:// for TLS.
//
// Open needs no reachable server, unless Options.Wait is set: until it is reached, the
// failure policy of each claim decides. The context bounds only that wait. Close the
// store when it is no longer used; that closes the client too. No error contains a token.
func Open(ctx context.Context, url string, o Options) (*layered.Store, error) {
	client, err := remotestore.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return New(ctx, client, o)
}

// New is [Open] with options of the client in place of a URL, such as for a token that
// changes. [remotestore.ParseURL] makes such options from a URL. The client has the logger
// and the observer of the other options if it has none.
func New(ctx context.Context, client remotestore.Options, o Options) (*layered.Store, error) {
	if client.Logger == nil {
		client.Logger = o.Logger
	}
	if client.Observer == nil {
		client.Observer = o.Observer
	}
	base, err := remotestore.New(client)
	if err != nil {
		return nil, err
	}
	return layered.New(ctx, base, o)
}
