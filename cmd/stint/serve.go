package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/server"
)

func newServeCommand() *cobra.Command {
	var flags serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the server: check API, forward auth, gateway, metrics",
		Long: `Run the server. No flag is needed: it keeps its keys in memory and serves
built-in example rules on the default ports. With --store, any number of
processes count together in Redis or Valkey.

Every flag is also an environment variable (--max-keys is STINT_MAX_KEYS) and a
key of the file that --config names (max-keys: 1000000). A flag wins over the
environment, which wins over the file. An address of off disables a listener;
port 0 picks a free one, and the log says which.

SIGTERM and SIGINT drain and exit 0 within 10 s. SIGHUP reads the rules, passwords,
tokens and certificates again, which are also read when their files change; what
has a mistake is logged, and what was in force stays.`,
		Example: `  stint serve
  stint serve --rules rules.yaml --store redis://10.0.0.5:6379/0
  stint serve --rules redis://10.0.0.5:6379/0 --store redis://10.0.0.5:6379/0
  stint serve --rules rules.yaml --gateway :8000 --upstream http://127.0.0.1:9000
  STINT_RULES=/etc/stint/rules stint serve --config stint.yaml --http 127.0.0.1:0`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			from, err := layer(c.Flags(), os.LookupEnv)
			if err != nil {
				return err
			}
			if err := flags.layerEnvoy(c.Flags(), os.Environ()); err != nil {
				return err
			}
			flags.shown = flags.secretsOnCommandLine(from)
			return from.place(serve(c.Context(), &flags, c.ErrOrStderr()))
		},
	}
	flags.define(c.Flags())
	return c
}

// serve runs the server until a signal or ctx ends it. Signals count from the
// beginning: a store that does not answer takes seconds to open. The second
// one that ends the server ends the process at once.
func serve(ctx context.Context, flags *serveFlags, logs logWriter) error {
	ctx, restore := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer restore()
	context.AfterFunc(ctx, restore)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	return openAndRun(ctx, hangups, flags, logs)
}

// openAndRun opens what the flags name, and runs the server over it.
func openAndRun(ctx context.Context, hangups <-chan os.Signal, flags *serveFlags, logs logWriter) error {
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
	closeStore, err := flags.openStore(&config, log)
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

// runServer reloads at each hangup until ctx ends the server.
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
