package main

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/cmd/stint/internal/server"
	"github.com/stintdev/stint/cmd/stint/internal/tracing"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/internal/secret"
	"github.com/stintdev/stint/layered"
	"github.com/stintdev/stint/lease"
	"github.com/stintdev/stint/redisstore"
	"github.com/stintdev/stint/redisstore/redisopen"
	"github.com/stintdev/stint/remotestore"
	"github.com/stintdev/stint/remotestore/remoteopen"
	"github.com/stintdev/stint/resilience/breaker"
)

// The clocks that a shared store can count by.
const (
	clockOfStore = "store"
	clockOfNode  = "node"
)

// The clocks that the memory store can read.
const (
	clockAuto   = "auto" // the processor's counter, where that is safe
	clockKernel = "kernel"
)

// openStore sets the store that the flags name in the configuration. The caller
// closes it.
func (f *serveFlags) openStore(c *server.Config, log *slog.Logger) (closeStore func() error, err error) {
	switch scheme := schemeOf(f.store); {
	case f.store == memoryStore:
		store := stint.NewMemory(f.memoryOptions(log))
		c.Store, c.Stats, c.MaxKeys = store, store.Stats, f.maxKeys
		return func() error { return nil }, nil
	case scheme == "stint://" || scheme == "stints://":
		return f.openRemote(c, log)
	case isPostgres(f.store):
		return f.openPostgres(c, log)
	case isMemcached(f.store):
		return f.openMemcached(c, log)
	case isDynamo(f.store):
		return f.openDynamo(c, log)
	case isQuorum(f.store):
		return f.openQuorum(c, log)
	}
	return f.openRedis(c, log)
}

// memoryOptions configures the memory store that every check takes from. With --clock
// auto, the clock of the store (internal/clock) decides whether the processor's counter
// is safe to use.
func (f *serveFlags) memoryOptions(log *slog.Logger) stint.MemoryOptions {
	return stint.MemoryOptions{
		MaxKeys: f.maxKeys, CallerKeys: f.maxCallerKeys, OnceBytes: int(f.maxRequestIDBytes), ProcessorClock: f.clock == clockAuto,
		OnClockFallback: func(reason string) {
			log.Warn("the memory store reads the time from the kernel from now on: the processor's counter disagrees "+
				"(--clock kernel never uses the counter)", "reason", reason)
		},
	}
}

// openLocal returns a store for what this node decides while a shared store
// fails. It reads the kernel's clock: it is seldom used, and measuring the
// processor's counter takes milliseconds for each new store.
func (f *serveFlags) openLocal() stint.Store {
	return stint.NewMemory(stint.MemoryOptions{MaxKeys: f.maxKeys, CallerKeys: f.maxCallerKeys})
}

func (f *serveFlags) openRedis(c *server.Config, log *slog.Logger) (closeStore func() error, err error) {
	password, err := f.storeSecret(c, "password")
	if err != nil {
		return nil, err
	}
	options, err := storeOptions(f.store, password)
	if err != nil {
		return nil, err
	}
	options.Prefix, options.CallerBytes, options.OnceBytes = f.keyPrefix, f.maxCallerBytes, f.maxRequestIDBytes
	f.envoy.trustAnyName(&options)
	if f.storeClock == clockOfNode {
		options.Clock = time.Now
	}
	layers, calls := f.layers(c.Tracer, log)
	store, err := redisopen.New(context.Background(), options, layers)
	if err != nil {
		return nil, usagef("store: %w", err)
	}
	client, _ := store.Base().(*redisstore.Store) // redisopen makes no other store
	share(c, &sharedStore{Store: store, url: options, calls: calls, stats: func() metrics.SharedStats {
		s := client.Stats()
		return metrics.SharedStats{
			Up: s.Up, NoScript: s.NoScript, Clocks: clocks(s.Clocks), Nodes: s.Nodes,
			Callers:    &metrics.BudgetStats{Bytes: s.CallerBytes, Refused: s.CallersRefused},
			RequestIDs: &metrics.BudgetStats{Bytes: s.OnceBytes, Refused: s.OnceRefused},
		}
	}}, log)
	return store.Close, nil
}

func clocks(all []redisstore.ClockStats) (stats []metrics.ClockStats) {
	for _, c := range all {
		stats = append(stats, metrics.ClockStats(c))
	}
	return stats
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
	layers, calls := f.layers(c.Tracer, log)
	store, err := remoteopen.New(context.Background(), options, layers)
	if err != nil {
		return nil, usagef("store: %w", err)
	}
	if f.nodes == 0 {
		log.Warn("another Stint as the store does not count its nodes: while it fails, each node grants the whole limit of every rule with on_store_failure: local or last_known (give --nodes; 1 for a single node)")
	}
	client, _ := store.Base().(*remotestore.Store) // remoteopen makes no other store
	share(c, &sharedStore{Store: store, url: options, calls: calls, stats: func() metrics.SharedStats {
		return metrics.SharedStats{Up: client.Up()}
	}}, log)
	return store.Close, nil
}

// storeSecret opens the password or token of the store, and has the server watch
// its file. It returns nil without a file.
func (f *serveFlags) storeSecret(c *server.Config, what string) (*secret.Text, error) {
	text, err := openSecret("store-password-file", what, f.storePasswordFile)
	if text != nil {
		text.LogTo(c.Logger)
		c.Secrets = append(c.Secrets, text.Files)
	}
	return text, err
}

// storeOptions parses the URL of a store in Redis. The password may be in the
// URL or in a file, but not in both; no error shows it.
func storeOptions(url string, password *secret.Text) (o redisstore.Options, err error) {
	if !strings.HasPrefix(url, "redis") {
		return o, usagef("store: %s is not a store of this version (use memory, or redis://, redis-cluster://, redis-sentinel://, redis-quorum://, one of these with rediss, redis+unix://, postgres://, memcached://, or dynamodb://; stint serve also takes stint:// and stints://)", schemeOf(url))
	}
	if o, err = redisstore.ParseURL(url); err != nil {
		return o, usagef("%w", err)
	}
	if password != nil && o.Password != "" {
		return o, usagef("store: the URL has a password, and --store-password-file is given (remove it from the URL)")
	}
	setPassword(&o, password)
	return o, nil
}

// setPassword makes each new connection read its password from the file, so that
// the password may change.
func setPassword(o *redisstore.Options, password *secret.Text) {
	if password == nil {
		return
	}
	username := o.Username
	o.Credentials = func(context.Context) (string, string, error) { return username, password.Fresh(), nil }
}

// remoteOptions parses the URL of a Stint server. The token may be in the URL or
// in a file, but not in both; no error shows it.
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
		return o, usagef("key-prefix: a Stint server has its own (leave it out here, and set it on that server)")
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

// schemeOf returns the scheme of a URL, for messages that must not show what
// follows it.
func schemeOf(text string) string {
	scheme, _, found := strings.Cut(text, "://")
	if !found {
		return "this"
	}
	return scheme + "://"
}

// layers returns the options of the guard and the leases in front of a shared store, and
// the measurements of the guard's calls.
func (f *serveFlags) layers(tracer *tracing.Tracer, log *slog.Logger) (layered.Options, *metrics.StoreCalls) {
	circuit := guard.DefaultBreaker()
	if circuit.SlowAfter = f.storeSlow; f.storeSlow == 0 {
		circuit.SlowRatio = 0
	}
	calls := metrics.NewStoreCalls(f.nativeHistograms)
	return layered.Options{
		Guard:  guard.Options{Deadline: f.storeDeadline, Breaker: &circuit, Nodes: f.nodes, Observer: stint.Observers(calls, tracer.Calls()), Local: f.openLocal},
		Lease:  lease.Options{Time: time.Duration(f.leaseTime)},
		Logger: log,
	}, calls
}

// sharedStore is a store on other machines, which nodes share.
type sharedStore struct {
	*layered.Store

	url   slog.LogValuer
	calls *metrics.StoreCalls
	stats func() metrics.SharedStats // of the client
}

// share sets a shared store in the configuration.
func share(c *server.Config, shared *sharedStore, log *slog.Logger) {
	log.Info("counting in a shared store", "url", shared.url)
	c.Store, c.StoreCalls = shared.Store, shared.calls
	c.Shared = func() metrics.SharedStats {
		layers := shared.Stats()
		s, leases := sharedStats(shared.stats(), layers.Guard), metrics.LeaseStats(layers.Lease)
		s.Lease = &leases
		return s
	}
	warnUnready(shared, log)
}

// sharedStats combines the statistics of a store and its guard. The store is up
// if all its servers are connected and no circuit is open; a circuit that is
// open only because replicas fail does not count.
func sharedStats(s metrics.SharedStats, guarded guard.Stats) metrics.SharedStats {
	for _, shard := range guarded.Shards {
		open := shard.State != breaker.Closed
		s.Up = s.Up && (!open || shard.Replicas)
		s.Breakers = append(s.Breakers, metrics.BreakerStats{
			Shard: shard.Name, Open: open, Opens: shard.Opened, Refused: shard.Refused, Degraded: metrics.DegradedStats(shard.Degraded),
		})
	}
	return s
}

// probeTime bounds the wait at start for the cause of a store that is not ready.
const probeTime = 250 * time.Millisecond

// warnUnready logs at start why a store cannot serve checks. Without it the log would say
// nothing until checks had failed.
func warnUnready(store *sharedStore, log *slog.Logger) {
	up := awaitStore(func() bool { return store.stats().Up })
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	err := store.Ping(ctx)
	const meanwhile = "; until then, each rule's on_store_failure decides"
	switch {
	case err == nil:
	case up:
		log.Warn("the store accepts no checks yet"+meanwhile, "url", store.url, "error", err)
	default:
		log.Warn("a server of the store cannot be reached yet"+meanwhile, "url", store.url, "error", err)
	}
}

// awaitTime bounds the wait at start for a store. Without the wait, the first
// requests would be decided without a store that is only milliseconds away.
const awaitTime = time.Second

// awaitStore waits until every server of the store is connected. It returns
// false if that takes longer than awaitTime.
func awaitStore(up func() bool) bool {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(awaitTime); !up(); <-tick.C {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
