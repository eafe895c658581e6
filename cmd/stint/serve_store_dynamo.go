package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/cmd/stint/internal/server"
	"github.com/stintdev/stint/dynamostore"
	"github.com/stintdev/stint/dynamostore/dynamoopen"
	"github.com/stintdev/stint/internal/secret"
)

// isDynamo reports whether the URL of a store is one of DynamoDB.
func isDynamo(url string) bool { return schemeOf(url) == "dynamodb://" }

// fewWritesOfDynamo is why keys that all callers share must be leased.
const fewWritesOfDynamo = "DynamoDB makes at most 1,000 writes of one key a second"

// openDynamo opens a table of DynamoDB as the store.
func (f *serveFlags) openDynamo(c *server.Config, log *slog.Logger) (closeStore func() error, err error) {
	options, err := dynamoOptions(f.store, f.storePasswordFile)
	if err != nil {
		return nil, err
	}
	c.FewWrites = map[string]string{"": fewWritesOfDynamo}
	options.Prefix, options.CallerBytes = f.keyPrefix, f.maxCallerBytes
	layers, calls := f.layers(c.Tracer, log)
	store, err := dynamoopen.New(context.Background(), options, layers)
	if err != nil {
		return nil, usagef("store: %w", err)
	}
	client, _ := store.Base().(*dynamostore.Store) // dynamoopen makes no other store
	share(c, &sharedStore{Store: store, url: options, calls: calls, stats: func() metrics.SharedStats {
		s := client.Stats()
		shared := metrics.SharedStats{
			Up: s.Up, Nodes: s.Nodes, Callers: &metrics.BudgetStats{Bytes: s.CallerBytes, Refused: s.CallersRefused},
		}
		if !s.Measured.IsZero() {
			shared.Clocks = []metrics.ClockStats{{Skew: s.Skew, Measured: s.Measured}}
		}
		return shared
	}}, log)
	return store.Close, nil
}

// dynamoOptions parses the URL of a store in DynamoDB, which has no password: the SDK of
// AWS reads the credentials.
func dynamoOptions(url, passwordFile string) (o dynamostore.Options, err error) {
	if passwordFile != "" {
		return o, usagef("store-password-file: DynamoDB has no password (leave it out: the SDK of AWS reads the credentials from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the role of the machine or container)")
	}
	if o, err = dynamostore.ParseURL(url); err != nil {
		return o, usagef("%w", err)
	}
	return o, nil
}

// migrateDynamo makes the table of a store, and returns a line that says so.
func migrateDynamo(ctx context.Context, url, passwordFile string, log *slog.Logger) (done string, err error) {
	o, err := dynamoOptions(url, passwordFile)
	if err != nil {
		return "", err
	}
	o.Logger = log
	if err := dynamostore.Migrate(ctx, o); err != nil {
		return "", fmt.Errorf("store migrate: %w", err)
	}
	return fmt.Sprintf("the table of %s is ready", o), nil
}

// newDynamo makes a store in DynamoDB for a replay. It deletes no keys: a delete costs as
// much as a write, and the time to live of the items deletes them for nothing.
func (f *replayFlags) newDynamo(s *replayStore, _ *secret.Text, clock func() time.Time, log *slog.Logger) (stint.Store, error) {
	options, err := dynamoOptions(f.store, f.storePasswordFile)
	if err != nil {
		return nil, err
	}
	options.Prefix, options.Clock, options.Logger = s.prefix, clock, log
	options.KeepFor, options.Heartbeat = replayRetention, -1
	store, err := dynamostore.New(options)
	if err != nil {
		return nil, usagef("store: %w", err)
	}
	s.forget, s.close = func(context.Context) error { return nil }, store.Close
	return store, nil
}
