package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/internal/server"
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
		store := stint.NewMemory(stint.MemoryOptions{MaxKeys: f.maxKeys})
		c.Store, c.Stats = store, store.Stats
		return func() error { return nil }, nil
	}
	options, err := storeOptions(f.store, f.storePasswordFile)
	if err != nil {
		return nil, err
	}
	options.Prefix, options.Logger = f.keyPrefix, log
	f.envoy.trustAnyName(&options)
	if f.storeClock == clockOfNode {
		options.Clock = func() int64 { return time.Now().UnixMicro() }
	}
	return f.guardStore(c, options, log)
}

// openMemory returns a store for what this node decides by itself.
func (f *serveFlags) openMemory() stint.Store {
	return stint.NewMemory(stint.MemoryOptions{MaxKeys: f.maxKeys})
}

// guardStore opens a shared store, and answers for it while it fails.
func (f *serveFlags) guardStore(c *server.Config, options redisstore.Options, log *slog.Logger) (closeStore func() error, err error) {
	shared, err := redisstore.New(options)
	if err != nil {
		return nil, usagef("store: %w", err)
	}
	log.Info("counting in a shared store", "url", options)
	calls := server.NewStoreCalls()
	guarded, err := guard.New(shared, guard.Options{
		Deadline: f.storeDeadline, Breaker: f.storeBreaker(), Nodes: f.nodes, Local: f.openMemory, Logger: log, OnCall: calls.Observe,
	})
	if err != nil {
		return nil, errors.Join(err, shared.Close())
	}
	leasing, err := lease.New(guarded, lease.Options{Time: f.leaseTime})
	if err != nil {
		return nil, errors.Join(err, guarded.Close(), shared.Close())
	}
	c.Store, c.StoreCalls = leasing, calls
	c.Shared = func() server.SharedStats {
		s := sharedStats(shared.Stats(), guarded.Stats())
		s.Lease = leaseStats(leasing.Stats())
		return s
	}
	warnUnready(shared, options, log)
	return func() error { return errors.Join(leasing.Close(), guarded.Close(), shared.Close()) }, nil
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
func warnUnready(store *redisstore.Store, options redisstore.Options, log *slog.Logger) {
	up := reached(store)
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	err := store.Probe(ctx, store.ShardOf(&stint.Claim{Key: "start"}))
	switch {
	case !up && err != nil:
		log.Warn("the store cannot be reached yet: until it is, each rule's on_store_failure decides", "url", options, "error", err)
	case !up:
		log.Warn("a server of the store cannot be reached yet: until it is, each rule's on_store_failure decides", "url", options)
	case err != nil:
		log.Warn("the store takes no checks yet: until it does, each rule's on_store_failure decides", "url", options, "error", err)
	}
}

// probeTime is how long a start waits to hear what is wrong with its store.
const probeTime = 250 * time.Millisecond

// reachTime is how long a start waits for its store: the first requests should
// not be decided without one that is a few milliseconds away.
const reachTime = time.Second

// reached waits until there is a connection to every server of the store.
func reached(store *redisstore.Store) bool {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(reachTime); !store.Stats().Up; <-tick.C {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// sharedStats is what a store and its guard say together. A store without
// traffic is up when it can be connected to.
func sharedStats(store redisstore.Stats, guarded guard.Stats) server.SharedStats {
	s := server.SharedStats{Up: store.Up, NoScript: store.NoScript, ClockSkew: store.ClockSkew, Nodes: store.Nodes}
	for _, shard := range guarded.Shards {
		open := shard.State != breaker.Closed
		s.Up = s.Up && !open
		s.Breakers = append(s.Breakers, server.BreakerStats{Shard: shard.Name, Open: open, Opens: shard.Opened})
	}
	return s
}
