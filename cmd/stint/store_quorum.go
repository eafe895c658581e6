package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/quorumstore"
)

// The longest time of a command on a quorum. A repair reads all keys.
const (
	quorumTime       = time.Minute
	quorumRepairTime = 12 * time.Hour
)

// quorumFlags are those of the commands on a quorum.
type quorumFlags struct {
	passwordFile, keyPrefix string
	old, now                string // of store replace
}

// newQuorumCommand returns a command on the quorum of a URL.
func newQuorumCommand(c *cobra.Command, longest time.Duration, run func(ctx context.Context, f *quorumFlags, o quorumstore.Options, out io.Writer) error) (*cobra.Command, *quorumFlags) {
	f := &quorumFlags{}
	c.Args = arguments(1, 1, "the URL of one store", "redis-quorum://10.0.0.1,10.0.0.2,10.0.0.3")
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, cancel := context.WithTimeout(c.Context(), longest)
		defer cancel()
		o, err := f.options(args[0])
		if err != nil {
			return err
		}
		o.Logger = slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
		return run(ctx, f, o, c.OutOrStdout())
	}
	c.Flags().StringVar(&f.passwordFile, "store-password-file", passwordFileOfEnvironment(), "`FILE` with the password of the store")
	c.Flags().StringVar(&f.keyPrefix, "key-prefix", defaultKeyPrefix, "prefix of the keys, as of stint serve")
	return c, f
}

// options returns the options of the quorum at a URL.
func (f *quorumFlags) options(url string) (o quorumstore.Options, err error) {
	if err := checkOneStore(url); err != nil {
		return o, err
	}
	if !isQuorum(url) {
		return o, usagef("store: %s is not a quorum (give redis-quorum://host1,host2,host3)", schemeOf(url))
	}
	password, err := openSecret("store-password-file", "password", f.passwordFile)
	if err != nil {
		return o, err
	}
	o, err = quorumOptions(url, password)
	o.Prefix = f.keyPrefix
	return o, err
}

func newQuorumInitCommand() *cobra.Command {
	c, _ := newQuorumCommand(&cobra.Command{
		Use:   "init URL",
		Short: "Make servers a quorum, or say why they cannot be one",
		Long: `Make the servers of a redis-quorum:// store a quorum, or say why they cannot be one.

The first stint serve that reaches all of the servers does so by itself. They must
all answer and have no keys of Stint: a server that has forgotten counts must not
pass for one that never had any.`,
		Example: "  stint store init redis-quorum://10.0.0.1,10.0.0.2,10.0.0.3",
	}, quorumTime, func(ctx context.Context, _ *quorumFlags, o quorumstore.Options, out io.Writer) error {
		if err := quorumstore.Init(ctx, o); err != nil {
			return fmt.Errorf("store init: %w", err)
		}
		_, err := fmt.Fprintf(out, "the servers of %s are a quorum\n", o)
		return err
	})
	return c
}

func newQuorumRepairCommand() *cobra.Command {
	c, _ := newQuorumCommand(&cobra.Command{
		Use:   "repair URL",
		Short: "Give servers that lost their data the counts of the others",
		Long: `Give each server of a redis-quorum:// store that lost its data, or was started
again, the counts that the others have.

Each stint serve does so in the background. Until a server is repaired, it counts
only for limits that forget faster than it is old. A repair begins some seconds
after the start of the server, and needs a majority of servers that have all
counts. The exit status is 1 if a server still lacks counts.`,
		Example: "  stint store repair redis-quorum://10.0.0.1,10.0.0.2,10.0.0.3",
	}, quorumRepairTime, func(ctx context.Context, _ *quorumFlags, o quorumstore.Options, out io.Writer) error {
		all, err := quorumstore.Repair(ctx, o)
		for _, r := range all {
			text := "has all counts"
			if r.Err != nil {
				text = "lacks counts"
			}
			if _, err := fmt.Fprintf(out, "%s %s\n", r.Server, text); err != nil {
				return err
			}
		}
		if err != nil {
			return fmt.Errorf("store repair: %w", err)
		}
		return nil
	})
	return c
}

func newQuorumReplaceCommand() *cobra.Command {
	c, f := newQuorumCommand(&cobra.Command{
		Use:   "replace --old HOST --new HOST URL",
		Short: "Put an empty server in the place of one of a quorum",
		Long: `Put an empty server in the place of one of a redis-quorum:// store. URL names the
servers as they are before. If the old one still runs, stop it first. All others must
answer, and the new one too. From then on they refuse calls of nodes whose --store does not name the new
server, so start those again with the new URL: until then, each rule's
on_store_failure decides. After an error, run the command again: servers that have
left the old list may refuse all calls until then.

The new server gets the counts as stint store repair gives them. Replace one server
at a time, and the next one when stint store repair says that all have all counts.`,
		Example: "  stint store replace --old 10.0.0.3 --new 10.0.0.4 redis-quorum://10.0.0.1,10.0.0.2,10.0.0.3",
	}, quorumTime, replaceMember)
	c.Flags().StringVar(&f.old, "old", "", "`HOST` to replace, as in URL")
	c.Flags().StringVar(&f.now, "new", "", "`HOST` to put in its place, with its port if that is not 6379")
	return c
}

func replaceMember(ctx context.Context, f *quorumFlags, o quorumstore.Options, out io.Writer) error {
	if f.old == "" || f.now == "" {
		return usagef("store replace: --old or --new is missing (give both, such as --old 10.0.0.3 --new 10.0.0.4)")
	}
	old, err := quorumstore.ServerAddress(f.old)
	now, wrong := quorumstore.ServerAddress(f.now)
	if err := errors.Join(err, wrong); err != nil {
		return usagef("store replace: %w", err)
	}
	if err := quorumstore.Replace(ctx, o, old, now); err != nil {
		return fmt.Errorf("store replace: %w", err)
	}
	_, err = fmt.Fprintf(out, "%s has the place of %s: start every stint serve with the new URL\n", now, old)
	return err
}
