package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/cmd/stint/internal/server"
	"github.com/stintdev/stint/internal/secret"
	"github.com/stintdev/stint/postgresstore"
	"github.com/stintdev/stint/postgresstore/postgresopen"
)

// isPostgres reports whether the URL of a store is one of PostgreSQL.
func isPostgres(url string) bool {
	scheme := schemeOf(url)
	return scheme == "postgres://" || scheme == "postgresql://"
}

// openPostgres opens a database as the store.
func (f *serveFlags) openPostgres(c *server.Config, log *slog.Logger) (closeStore func() error, err error) {
	password, err := f.storeSecret(c, "password")
	if err != nil {
		return nil, err
	}
	options, err := postgresOptions(f.store, password)
	if err != nil {
		return nil, err
	}
	options.Prefix, options.CallerBytes = f.keyPrefix, f.maxCallerBytes
	if f.storeClock == clockOfNode {
		options.Clock = time.Now
	}
	layers, calls := f.layers(c.Tracer, log)
	store, err := postgresopen.New(context.Background(), options, layers)
	if err != nil {
		return nil, usagef("store: %w", err)
	}
	client, _ := store.Base().(*postgresstore.Store) // postgresopen makes no other store
	share(c, &sharedStore{Store: store, url: options, calls: calls, stats: func() metrics.SharedStats {
		s := client.Stats()
		shared := metrics.SharedStats{
			Up: s.Up, Nodes: s.Nodes, Callers: &metrics.BudgetStats{Bytes: s.CallerBytes, Refused: s.CallersRefused},
			Swaps: &metrics.SwapStats{Done: s.Swaps, Early: s.Early, Lost: s.Lost, Unknown: s.Unknown, Locks: s.Locks, Throttled: s.Throttled},
		}
		if !s.Measured.IsZero() {
			shared.Clocks = []metrics.ClockStats{{Skew: s.Skew, Measured: s.Measured}}
		}
		return shared
	}}, log)
	return store.Close, nil
}

// postgresOptions parses the URL of a store in PostgreSQL. The password may be in the URL or
// in a file, but not in both; no error shows it.
func postgresOptions(url string, password *secret.Text) (o postgresstore.Options, err error) {
	if o, err = postgresstore.ParseURL(url); err != nil {
		return o, usagef("%w", err)
	}
	if password == nil {
		return o, nil
	}
	if passwordInURL.MatchString(url) {
		return o, usagef("store: the URL has a password, and --store-password-file is given (remove it from the URL)")
	}
	username := o.Pool.ConnConfig.User
	o.Credentials = func(context.Context) (string, string, error) { return username, password.Fresh(), nil }
	return o, nil
}
