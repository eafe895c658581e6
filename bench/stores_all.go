package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/dynamostore"
	"github.com/stintdev/stint/internal/dynamotest"
	"github.com/stintdev/stint/internal/memcachedtest"
	"github.com/stintdev/stint/internal/pgtest"
)

// storeKind is a store of the table of all stores.
type storeKind struct {
	name string
	// start starts its servers, which end with the host, and returns what opens the store.
	start func(ctx context.Context, o options, h *host) (func(allowance) (take, func(), error), error)
}

// overAllStores prints one table of all stores, each on servers of its own on this machine,
// one after the other, with 64 callers. Nothing is judged: the parts of each store do that.
func overAllStores(ctx context.Context, o options, out io.Writer, _ *bars) error {
	kinds := []storeKind{{"memory", inMemory}, {"Redis", inRedis}, {"quorum of three", inQuorum}, {"PostgreSQL", inPostgres}, {"Memcached", inMemcached}, {"DynamoDB, emulated by dynalite", inDynamo}}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "\nstores, strict, 64 goroutines\tdistinct keys\t\t\tone hot key\t\t\t\n\tchecks/s\tp50\tp99\tchecks/s\tp50\tp99\t\n")
	for _, kind := range kinds {
		err := withHost(out, func(h *host) error {
			build, err := kind.start(ctx, o, h)
			if err != nil {
				return err
			}
			distinct, err := cellsOf(o, calling{64, false}, build)
			if err != nil {
				return err
			}
			hot, err := cellsOf(o, calling{64, true}, build)
			fmt.Fprintf(table, "%s%s%s\t\n", kind.name, distinct, hot)
			return err
		})
		if err = errors.Join(err, ctx.Err()); err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
	}
	return table.Flush()
}

// cellsOf measures one store under one workload.
func cellsOf(o options, c calling, build func(allowance) (take, func(), error)) (string, error) {
	t, leave, err := build(ample())
	if err != nil {
		return "", err
	}
	defer leave()
	seen := newAnswers(c.callers, c.parts())
	r := c.race(o).interleave([]runner{c.runner(stintName, t, identities(min(o.keys, 100_000)), seen)})
	p50, p99 := time.Duration(median(seen.P50)), time.Duration(median(seen.P99))
	if p50 > 100*time.Microsecond {
		p50, p99 = p50.Round(time.Microsecond), p99.Round(time.Microsecond)
	}
	return fmt.Sprintf("\t%.0f\t%v\t%v", 1e9/r.ns(stintName), p50, p99), nil
}

func inMemory(context.Context, options, *host) (func(allowance) (take, func(), error), error) {
	return func(a allowance) (take, func(), error) {
		t, err := takeOf(stint.NewMemory(stint.MemoryOptions{}), a)
		return t, func() {}, err
	}, nil
}

func inRedis(ctx context.Context, o options, h *host) (func(allowance) (take, func(), error), error) {
	if o.findRedis() == "" {
		h.Skip("no redis-server or valkey-server is installed")
	}
	s, err := startRedis(ctx, o.findRedis(), "")
	if err != nil {
		return nil, err
	}
	h.Cleanup(func() { _ = s.stop() })
	return s.stint, nil
}

func inPostgres(_ context.Context, _ options, h *host) (func(allowance) (take, func(), error), error) {
	return newDatabase(pgtest.Start(h)).stint, nil
}

func inMemcached(_ context.Context, _ options, h *host) (func(allowance) (take, func(), error), error) {
	s := &memcachedServer{memcachedtest.Start(h, "-m", "1024")}
	return s.stint, nil
}

func inDynamo(ctx context.Context, _ options, h *host) (func(allowance) (take, func(), error), error) {
	client, err := newTable(ctx, h)
	if err != nil {
		return nil, err
	}
	client.Timeout = 10 * time.Second
	return func(a allowance) (take, func(), error) {
		store, err := dynamostore.New(client)
		if err != nil {
			return nil, nil, err
		}
		t, err := takeOf(store, a)
		return t, func() { _ = store.Close() }, err
	}, nil
}

// newTable makes a table on an emulator of DynamoDB, and returns the options of a store in
// it.
func newTable(ctx context.Context, h *host) (client dynamostore.Options, err error) {
	if client, err = dynamostore.ParseURL(dynamotest.Dynalite(h).URL("limits")); err != nil {
		return client, err
	}
	client.Config = &aws.Config{Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "bench", SecretAccessKey: "bench"}, nil
	})}
	return client, dynamostore.Migrate(ctx, client)
}
