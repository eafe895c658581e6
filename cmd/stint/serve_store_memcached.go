package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/cmd/stint/internal/server"
	"github.com/stintdev/stint/memcachedstore"
	"github.com/stintdev/stint/memcachedstore/memcachedopen"
)

// isMemcached reports whether the URL of a store is one of Memcached.
func isMemcached(url string) bool { return schemeOf(url) == "memcached://" }

// openMemcached opens servers of Memcached as the store. They have no clock that could
// count, so --store-clock changes nothing.
func (f *serveFlags) openMemcached(c *server.Config, log *slog.Logger) (closeStore func() error, err error) {
	options, err := memcachedOptions(f.store, f.storePasswordFile)
	if err != nil {
		return nil, err
	}
	options.Prefix, options.CallerBytes = f.keyPrefix, f.maxCallerBytes
	layers, calls := f.layers(c.Tracer, log)
	store, err := memcachedopen.New(context.Background(), options, layers)
	if err != nil {
		return nil, usagef("store: %w", err)
	}
	client, _ := store.Base().(*memcachedstore.Store) // memcachedopen makes no other store
	share(c, &sharedStore{Store: store, url: options, calls: calls, stats: func() metrics.SharedStats {
		s := client.Stats()
		shared := metrics.SharedStats{
			Up: s.Up, Nodes: s.Nodes, Callers: &metrics.BudgetStats{Bytes: s.CallerBytes, Refused: s.CallersRefused},
			Swaps: &metrics.SwapStats{Done: s.Swaps, Lost: s.Lost, Unknown: s.Unknown, Locks: s.Locks},
		}
		if !s.Measured.IsZero() {
			shared.Clocks = []metrics.ClockStats{{Skew: s.Skew, Measured: s.Measured}}
		}
		for _, name := range slices.Sorted(maps.Keys(s.Evictions)) {
			shared.Evictions = append(shared.Evictions, metrics.EvictionStats{Shard: name, Items: s.Evictions[name]})
		}
		return shared
	}}, log)
	return store.Close, nil
}

// memcachedOptions parses the URL of a store in Memcached, which has no password.
func memcachedOptions(url, passwordFile string) (o memcachedstore.Options, err error) {
	if passwordFile != "" {
		return o, usagef("store-password-file: the store in Memcached has no password (leave it out)")
	}
	if o, err = memcachedstore.ParseURL(url); err != nil {
		return o, usagef("%w", err)
	}
	return o, nil
}
