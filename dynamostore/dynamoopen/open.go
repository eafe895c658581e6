// Package dynamoopen opens a store in DynamoDB in one call: the client of package
// dynamostore, a guard that decides while the server fails, and leases for hot keys. It
// is the store that stint serve uses.
//
// Use it in a program that counts with other programs through DynamoDB: [Open] takes a
// URL, [New] the options of a client. A program that wants an error, not a decision, while
// the server fails uses package dynamostore alone.
package dynamoopen

import (
	"context"

	"github.com/stintdev/stint/dynamostore"
	"github.com/stintdev/stint/layered"
)

// Options configures the guard and the leases, and says whether Open waits for a server.
// The zero value is what stint serve uses by default, and does not wait.
type Options = layered.Options

// Open opens the store at a URL of the form that [dynamostore.ParseURL] reads:
// dynamodb://table?region=eu-west-1.
//
// Open needs no reachable server, unless Options.Wait is set: until one is reached, the
// failure policy of each claim decides. The context bounds only that wait. Close the
// store when it is no longer used; that closes the client too.
func Open(ctx context.Context, url string, o Options) (*layered.Store, error) {
	client, err := dynamostore.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return New(ctx, client, o)
}

// New is [Open] with options of the client in place of a URL: for a key prefix, or
// for a configuration of the SDK. [dynamostore.ParseURL] makes such options from a URL. The client has
// the logger and the observer of the other options if it has none.
func New(ctx context.Context, client dynamostore.Options, o Options) (*layered.Store, error) {
	if client.Logger == nil {
		client.Logger = o.Logger
	}
	if client.Observer == nil {
		client.Observer = o.Observer
	}
	base, err := dynamostore.New(client)
	if err != nil {
		return nil, err
	}
	return layered.New(ctx, base, o)
}
