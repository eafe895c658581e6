package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/cmd/stint/internal/server"
	"github.com/stintdev/stint/internal/secret"
	"github.com/stintdev/stint/quorumstore"
	"github.com/stintdev/stint/quorumstore/quorumopen"
)

// isQuorum reports whether the URL of a store is one of a quorum of Redis servers.
func isQuorum(url string) bool {
	scheme := schemeOf(url)
	return scheme == "redis-quorum://" || scheme == "rediss-quorum://"
}

// openQuorum opens a quorum of Redis servers as the store.
func (f *serveFlags) openQuorum(c *server.Config, log *slog.Logger) (closeStore func() error, err error) {
	password, err := f.storeSecret(c, "password")
	if err != nil {
		return nil, err
	}
	options, err := quorumOptions(f.store, password)
	if err != nil {
		return nil, err
	}
	options.Prefix, options.CallerBytes = f.keyPrefix, f.maxCallerBytes
	if f.storeClock == clockOfNode {
		options.Clock = time.Now
	}
	layers, calls := f.layers(c.Tracer, log)
	store, err := quorumopen.New(context.Background(), options, layers)
	if err != nil {
		return nil, usagef("store: %w", err)
	}
	client, _ := store.Base().(*quorumstore.Store) // quorumopen makes no other store
	share(c, &sharedStore{Store: store, url: options, calls: calls, stats: func() metrics.SharedStats {
		s := client.Stats()
		shared := metrics.SharedStats{
			Up: s.Up, Nodes: s.Nodes, Callers: &metrics.BudgetStats{Bytes: s.CallerBytes, Refused: s.CallersRefused},
			Swaps: &metrics.SwapStats{Done: s.Swaps, Early: s.Early, Lost: s.Lost, Unknown: s.Unknown},
		}
		if !s.Measured.IsZero() {
			shared.Clocks = []metrics.ClockStats{{Skew: s.Skew, Measured: s.Measured}}
		}
		for _, m := range s.Servers {
			shared.Members = append(shared.Members, metrics.MemberStats{Server: m.Server, Up: m.Up, Whole: m.Whole})
		}
		return shared
	}}, log)
	return store.Close, nil
}

// quorumOptions parses the URL of a quorum. The password may be in the URL or in a file, but
// not in both; no error shows it.
func quorumOptions(url string, password *secret.Text) (o quorumstore.Options, err error) {
	if o, err = quorumstore.ParseURL(url); err != nil {
		return o, usagef("%w", err)
	}
	if password == nil {
		return o, nil
	}
	if o.Password != "" {
		return o, usagef("store: the URL has a password, and --store-password-file is given (remove it from the URL)")
	}
	username := o.Username
	o.Credentials = func(context.Context) (string, string, error) { return username, password.Fresh(), nil }
	return o, nil
}

// newQuorum makes a store on a quorum for a replay, which can find the keys of a prefix. All servers
// must answer, because the keys of the replay are a quorum of their own.
func (f *replayFlags) newQuorum(s *replayStore, password *secret.Text, clock func() time.Time, log *slog.Logger) (stint.Store, error) {
	options, err := quorumOptions(f.store, password)
	if err != nil {
		return nil, err
	}
	options.Prefix, options.Clock, options.Logger = s.prefix, clock, log
	options.KeepFor, options.Heartbeat = replayRetention, -1
	ctx, cancel := context.WithTimeout(context.Background(), quorumTime)
	defer cancel()
	if err := quorumstore.Init(ctx, options); err != nil { // a new prefix is a new quorum
		return nil, fmt.Errorf("store: %w", err)
	}
	store, err := quorumstore.New(options)
	if err != nil {
		return nil, usagef("store: %w", err)
	}
	s.forget, s.close = store.Clear, store.Close
	return store, nil
}
