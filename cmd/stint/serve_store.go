package main

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/server"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/internal/secret"
	"github.com/stintdev/stint/lease"
	"github.com/stintdev/stint/redisstore"
	"github.com/stintdev/stint/remotestore"
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

// memoryStore, as a store, is the memory of the process.
const memoryStore = "memory"

// storeOptions reads where a shared store is. The password may stand in a file
// instead of the URL; no error shows either.
func storeOptions(url, passwordFile string) (o redisstore.Options, err error) {
	password, err := openSecret("store-password-file", "password", passwordFile)
	if err != nil {
		return o, err
	}
	return storeOptionsWith(url, password)
}

// storeOptionsWith is storeOptions with a password that has been read.
func storeOptionsWith(url string, password *secret.Text) (o redisstore.Options, err error) {
	if !strings.HasPrefix(url, "redis") {
		return o, usagef("store: %s is not a store of this version (use memory, or redis://, redis-cluster://, redis-sentinel:// or one of these with rediss; stint serve also takes stint:// and stints://)", schemeOf(url))
	}
	if o, err = redisstore.ParseURL(url); err != nil {
		return o, usagef("%w", err)
	}
	if password != nil && o.Password != "" {
		return o, usagef("store: the URL has a password, and --store-password-file is given (remove it from the URL)")
	}
	loginBy(&o, password)
	return o, nil
}

// loginBy lets every connection that is made show the password that its file has
// then.
func loginBy(o *redisstore.Options, password *secret.Text) {
	if password == nil {
		return
	}
	username := o.Username
	o.Credentials = func() (string, string, error) { return username, password.Fresh(), nil }
}

// secretsOnCommandLine names the flags that were given on the command line with a
// password in a URL.
func (f *serveFlags) secretsOnCommandLine(from origins) (flags []string) {
	for _, given := range []struct{ flag, urls string }{
		{"store", f.store}, {"rules", f.rules}, {"upstream", strings.Join(f.upstreams, " ")},
	} {
		if origin, ok := from[given.flag]; ok && origin == "" && passwordInURL.MatchString(given.urls) {
			flags = append(flags, given.flag)
		}
	}
	return flags
}

// passwordInURL finds the password of a user, and one that is a parameter.
var passwordInURL = regexp.MustCompile(`://[^/?#\s]*:[^/?#\s]+@|[?&][a-z_]*password=.`)

// schemeOf names a URL without what may be secret in it.
func schemeOf(text string) string {
	scheme, _, found := strings.Cut(text, "://")
	if !found {
		return "this"
	}
	return scheme + "://"
}
