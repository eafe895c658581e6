package main

import (
	"context"
	"log/slog"
	"strings"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/server"
	"github.com/stintdev/stint/internal/secret"
	"github.com/stintdev/stint/remotestore"
)

// isRemote reports whether a store is another Stint server.
func isRemote(url string) bool {
	return strings.HasPrefix(url, "stint://") || strings.HasPrefix(url, "stints://")
}

// remoteOptions reads where a Stint server is. Its token may stand in a file
// instead of the URL; no error shows either.
func (f *serveFlags) remoteOptions(token *secret.Text) (o remotestore.Options, err error) {
	if o, err = remotestore.ParseURL(f.store); err != nil {
		return o, usagef("%w", err)
	}
	switch {
	case token != nil && o.Token != "":
		return o, usagef("store: the URL has a token, and so has %s (remove it from the URL)", f.storePasswordFile)
	case f.storeClock == clockOfNode:
		return o, usagef("store-clock: a Stint server counts by its own clock (leave it out)")
	case f.keyPrefix != defaultKeyPrefix:
		return o, usagef("key-prefix: a Stint server has its own (leave it out, and give it there)")
	case token != nil:
		o.TokenSource = func(refused bool) string {
			if refused {
				return token.Fresh()
			}
			return token.Value()
		}
	}
	return o, nil
}

// openRemote opens another Stint server as the store.
func (f *serveFlags) openRemote(c *server.Config, log *slog.Logger) (closeStore func() error, err error) {
	token, err := f.storeSecret(c, "token")
	if err != nil {
		return nil, err
	}
	options, err := f.remoteOptions(token)
	if err != nil {
		return nil, err
	}
	options.Logger = log
	store, err := remotestore.New(options)
	if err != nil {
		return nil, usagef("store: %w", err)
	}
	if f.nodes == 0 {
		log.Warn("the store is another Stint, which does not count the nodes that use it: while it fails, each node grants the whole limit of every rule with on_store_failure: local (give --nodes; 1 for a single node)")
	}
	return f.guardStore(c, &sharedStore{
		Store: store, url: options, close: store.Close,
		stats: func() server.SharedStats { return server.SharedStats{Up: store.Up()} },
		probe: func(ctx context.Context) error { return peek(ctx, store) },
	}, log)
}

// peek asks a store for something that charges nothing.
func peek(ctx context.Context, store stint.Store) error {
	limit, err := stint.ParseLimit("1/s")
	if err == nil {
		_, err = store.Take(ctx, stint.Claim{Key: "start", Limit: limit})
	}
	return err
}
