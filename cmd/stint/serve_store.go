package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/server"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/internal/secret"
	"github.com/stintdev/stint/lease"
	"github.com/stintdev/stint/redisstore"
	"github.com/stintdev/stint/resilience/breaker"
)

// The clocks that a shared store can count by.
const (
	clockOfStore = "store"
	clockOfNode  = "node"
)

// openStore puts the store that the flags name into the configuration. The
// caller closes it.
func (f *serveFlags) openStore(c *server.Config, log *slog.Logger) (closeStore func() error, err error) {
	if f.store == memoryStore {
		store := f.newMemory()
		c.Store, c.Stats = store, store.Stats
		return func() error { return nil }, nil
	}
	if isRemote(f.store) {
		return f.openRemote(c, log)
	}
	password, err := f.storeSecret(c, "password")
	if err != nil {
		return nil, err
	}
	options, err := storeOptionsWith(f.store, password)
	if err != nil {
		return nil, err
	}
	options.Prefix, options.Logger, options.CallerBytes = f.keyPrefix, log, f.maxCallerBytes
	f.envoy.trustAnyName(&options)
	if f.storeClock == clockOfNode {
		options.Clock = func() int64 { return time.Now().UnixMicro() }
	}
	store, err := redisstore.New(options)
	if err != nil {
		return nil, usagef("store: %w", err)
	}
	return f.guardStore(c, &sharedStore{
		Store: store, url: options, close: store.Close,
		stats: func() server.SharedStats { return redisStats(store.Stats()) },
		probe: func(ctx context.Context) error { return store.Probe(ctx, store.ShardOf(&stint.Claim{Key: "start"})) },
	}, log)
}

// storeSecret reads the password or token of the store, and has the server watch
// its file.
func (f *serveFlags) storeSecret(c *server.Config, what string) (*secret.Text, error) {
	text, err := openSecret("store-password-file", what, f.storePasswordFile)
	if text != nil {
		text.LogTo(c.Logger)
		c.Secrets = append(c.Secrets, text.Files)
	}
	return text, err
}

// sharedStore is a store that nodes share, on other machines.
type sharedStore struct {
	stint.Store

	url   slog.LogValuer
	stats func() server.SharedStats
	probe func(context.Context) error // fails unless a check can be served
	close func() error
}

// openMemory returns a store for what this node decides by itself.
func (f *serveFlags) openMemory() stint.Store { return f.newMemory() }

func (f *serveFlags) newMemory() *stint.Memory {
	return stint.NewMemory(stint.MemoryOptions{MaxKeys: f.maxKeys, CallerKeys: f.maxCallerKeys})
}

// guardStore opens a shared store, and answers for it while it fails.
func (f *serveFlags) guardStore(c *server.Config, shared *sharedStore, log *slog.Logger) (closeStore func() error, err error) {
	log.Info("counting in a shared store", "url", shared.url)
	calls := server.NewStoreCalls()
	guarded, err := guard.New(shared.Store, guard.Options{
		Deadline: f.storeDeadline, Breaker: f.storeBreaker(), Nodes: f.nodes, Local: f.openMemory, Logger: log, OnCall: calls.Observe,
	})
	if err != nil {
		return nil, errors.Join(err, shared.close())
	}
	leasing, err := lease.New(guarded, lease.Options{Time: f.leaseTime})
	if err != nil {
		return nil, errors.Join(err, guarded.Close(), shared.close())
	}
	c.Store, c.StoreCalls = leasing, calls
	c.Shared = func() server.SharedStats {
		s := sharedStats(shared.stats(), guarded.Stats())
		s.Lease = leaseStats(leasing.Stats())
		return s
	}
	warnUnready(shared, log)
	return func() error { return errors.Join(leasing.Close(), guarded.Close(), shared.close()) }, nil
}

func leaseStats(s lease.Stats) *server.LeaseStats {
	l := server.LeaseStats(s)
	return &l
}

// storeBreaker is when a shared store is left alone.
func (f *serveFlags) storeBreaker() *breaker.Options {
	b := guard.DefaultBreaker()
	if b.SlowAfter = f.storeSlow; f.storeSlow == 0 {
		b.SlowRatio = 0
	}
	return &b
}

// warnUnready says at once what is wrong with a store that takes no checks yet.
// Without it nobody would hear why until checks have failed.
func warnUnready(store *sharedStore, log *slog.Logger) {
	up := reached(func() bool { return store.stats().Up })
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	err := store.probe(ctx)
	switch {
	case !up && err != nil:
		log.Warn("the store cannot be reached yet: until it is, each rule's on_store_failure decides", "url", store.url, "error", err)
	case !up:
		log.Warn("a server of the store cannot be reached yet: until it is, each rule's on_store_failure decides", "url", store.url)
	case err != nil:
		log.Warn("the store takes no checks yet: until it does, each rule's on_store_failure decides", "url", store.url, "error", err)
	}
}

// probeTime is how long a start waits to hear what is wrong with its store.
const probeTime = 250 * time.Millisecond

// reachTime is how long a start waits for its store: the first requests should
// not be decided without one that is a few milliseconds away.
const reachTime = time.Second

// reached waits until there is a connection to every server of the store.
func reached(up func() bool) bool {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(reachTime); !up(); <-tick.C {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// sharedStats is what a store and its guard say together. A store without
// traffic is up when it can be connected to, and one whose replicas fail is up.
func sharedStats(s server.SharedStats, guarded guard.Stats) server.SharedStats {
	for _, shard := range guarded.Shards {
		open := shard.State != breaker.Closed
		s.Up = s.Up && (!open || shard.Replicas)
		s.Breakers = append(s.Breakers, server.BreakerStats{Shard: shard.Name, Open: open, Opens: shard.Opened})
	}
	return s
}

func redisStats(s redisstore.Stats) server.SharedStats {
	return server.SharedStats{
		Up: s.Up, NoScript: s.NoScript, ClockSkew: s.ClockSkew, Nodes: s.Nodes,
		Callers: &server.CallerStats{Bytes: s.CallerBytes, Refused: s.CallersRefused},
	}
}
