package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/server"
)

// serveHelp is the beginning of the help. A test compares its tables with docs/stores.md.
const serveHelp = `Run the server. No flag is required: by default the server counts in memory and
serves built-in example rules on the default ports. With --store, any number of
servers count together in a shared store. --store can be repeated with names, for
rules that name the store that counts them.

  --store            accuracy                survives            choose it
  memory             exact for one node      nothing             for one node
  redis://           exact                   what it persists    by default
  redis-sentinel://  exact until a failover  a lost master       when a server may fail
  redis-cluster://   exact until a failover  a lost master       for more than one server holds
  redis-quorum://    exact                   any minority        for limits that must hold
  postgres://        exact                   with durable=true   with PostgreSQL, without Redis
  memcached://       exact until evictions   nothing             when counts may be lost
  dynamodb://        by the nodes' clocks    a lost data center  on AWS; lease hot keys
  stint://           as its store            as its store        to share one way to a store

  --store            checks/s; p50, p99          one hot key/s  a check costs
  memory             9,600,000; 0.1 µs, 0.2 µs   11,500,000     memory of the node
  redis://           271,000; 0.2 ms, 0.4 ms     757,000        a script
  redis-sentinel://  as redis://                 as redis://    a script
  redis-cluster://   as redis:// on each master  as redis://    a script on each slot
  redis-quorum://    42,000; 1.4 ms, 2.6 ms      397,000        1 to 3 round trips
  postgres://        128,000; 0.5 ms, 0.9 ms     355,000        a read and a write
  memcached://       173,000; 0.4 ms, 0.6 ms     625,000        a gets and a cas
  dynamodb://        not measured                below 1,000    a read and a write, billed
  stint://           as its store, and a call    as its store   a call

  --store            groups over several identities  clock that decides
  memory             atomic                          node
  redis://           atomic                          server
  redis-sentinel://  atomic                          server
  redis-cluster://   refunded if a slot denies       server of each slot
  redis-quorum://    undone if a key is lost         the servers' median
  postgres://        atomic                          server
  memcached://       undone if a key is lost         nodes
  dynamodb://        atomic                          nodes
  stint://           as its store                    that server

The figures are of one machine of two CPUs, to compare the stores: docs/stores.md
has what they mean, and all settings of each store.

Every flag is also an environment variable (--max-keys is STINT_MAX_KEYS) and a
key of the file that --config names (max-keys: 1000000). A flag overrides the
environment, which overrides the file. The address off disables a listener; port
0 picks a free port, and the log says which.

SIGTERM and SIGINT drain the server, which then exits with status 0 within 10 s.
SIGHUP reloads the rules, passwords, tokens and certificates, which are also
reloaded when their files change. A file with a mistake is logged, and its
previous content stays in force. SIGHUP also opens the file of the decision log
again.`

func newServeCommand() *cobra.Command {
	var flags serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the server: check API, forward auth, gateway, metrics",
		Long:  serveHelp,
		Example: `  stint serve
  stint serve --rules rules.yaml --store redis://10.0.0.5:6379/0
  stint serve --rules redis://10.0.0.5:6379/0 --store redis://10.0.0.5:6379/0
  stint serve --rules rules.yaml --gateway :8000 --upstream http://127.0.0.1:9000
  stint serve --rules rules.yaml --gateway :8000 --gateway-config gateway.yaml
  STINT_RULES=/etc/stint/rules stint serve --config stint.yaml --http 127.0.0.1:0`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			from, err := applySettings(c.Flags(), os.LookupEnv)
			if err != nil {
				return err
			}
			if err := flags.applyEnvoy(c.Flags(), os.Environ()); err != nil {
				return err
			}
			flags.exposed = flags.passwordsOnCommandLine(from)
			return from.locate(serve(c.Context(), &flags, c.OutOrStdout(), c.ErrOrStderr()))
		},
	}
	flags.define(c.Flags())
	return c
}

// serve runs the server until a signal or ctx ends it. Signals take effect from
// the start, because opening a store that does not answer takes seconds. The
// second signal that ends the server ends the process at once.
func serve(ctx context.Context, flags *serveFlags, stdout, logs io.Writer) error {
	ctx, restore := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer restore()
	context.AfterFunc(ctx, restore)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)

	floor := newHeapFloor(os.LookupEnv)
	defer runtime.KeepAlive(floor)
	log, err := flags.logger(logs)
	if err != nil {
		return err
	}
	config, err := flags.config()
	if err != nil {
		return err
	}
	config.Logger = log
	flags.warn(log)
	if err := flags.openIdentity(ctx, &config, log); err != nil {
		return err
	}
	export, err := flags.openExporters(&config, log)
	if err != nil {
		return err
	}
	if err := flags.decisionLog.open(&config, stdout, export.Logs(), log); err != nil {
		return err
	}
	closeStore, err := flags.openStores(&config, log)
	if err != nil {
		return err
	}
	closeRules, err := flags.openRules(&config, log)
	if err != nil {
		return errors.Join(err, closeStore())
	}
	defer closeRules()
	s, err := server.New(config)
	if err != nil {
		return errors.Join(usagef("%w", err), closeStore())
	}
	return errors.Join(runServer(ctx, s, hangups, log), closeStore())
}

// runServer runs the server until ctx ends, and reloads it at each hangup.
func runServer(ctx context.Context, s *server.Server, hangups <-chan os.Signal, log *slog.Logger) error {
	go func() {
		for {
			select {
			case <-hangups:
				log.Info("reloading", "signal", "SIGHUP")
				s.Reload()
			case <-ctx.Done():
				return
			}
		}
	}()
	if err := s.Run(ctx); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// heapFloor is the size of the memory that newHeapFloor returns.
const heapFloor = 32 << 20

// newHeapFloor returns memory that makes garbage collections rarer while it is alive.
//
// The collector runs each time the heap has doubled. Keys are counted outside the heap,
// which has therefore a few megabytes: under load it doubles many times a second, and
// collections take a tenth of the server's processor time. The floor counts as a part of
// the heap, so at least heapFloor is allocated between two collections. Nothing reads or
// writes the floor, so the system gives it no pages. The cost is that much more garbage.
//
// It returns nil if the operator sets the collector by GOGC or GOMEMLIMIT.
func newHeapFloor(lookup func(string) (string, bool)) []byte {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if _, set := lookup(name); set {
			return nil
		}
	}
	return make([]byte, heapFloor)
}
