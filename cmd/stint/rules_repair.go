package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/cmd/stint/internal/server"
	"github.com/stintdev/stint/rule"
)

// repairTime is how long a repair may take, an answer at the terminal included.
const repairTime = 10 * time.Minute

// repairFlags are those of stint rules repair.
type repairFlags struct {
	source, password, prefix string
	comment                  string
	yes                      bool
}

func newRepairCommand() *cobra.Command {
	f := &repairFlags{}
	c := &cobra.Command{
		Use:   "repair --source URL [FILE]",
		Short: "Take rules in Redis or PostgreSQL back from somebody who could write there",
		Long: `Take the rules in Redis or PostgreSQL back from somebody who could write there.

Versions are numbered in order, and whoever writes one with a number that no other
can follow keeps all changes from being published. The command forgets the versions
whose numbers Stint never gave out, and publishes the newest one below them again,
or the rules of FILE. Every node follows, also one that runs a forgotten version.

Take the right to write away from that somebody first: change the password, or the
rights of the user. Look at the rules that are published again: a version with a
number in order may be forged too.`,
		Example: "  stint rules repair --source redis://10.0.0.5:6379/0\n  stint rules repair --source postgres://stint@db/stint --yes rules.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.repair(c, args); err != nil {
				if exitStatus(err) == exitUsage {
					return err
				}
				return fmt.Errorf("rules repair: %w", err)
			}
			return nil
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.source, "source", "", "the `URL` of the rules, redis://… or postgres://…, as stint serve --rules takes it")
	flags.StringVar(&f.password, "source-password-file", "", "`FILE` with the password of --source")
	flags.StringVar(&f.prefix, "key-prefix", defaultKeyPrefix, "what begins the keys or tables of --source")
	flags.BoolVarP(&f.yes, "yes", "y", false, "repair without asking")
	flags.StringVar(&f.comment, "comment", "", "why, for the history")
	return c
}

func (f *repairFlags) repair(c *cobra.Command, args []string) error {
	if f.source == "" {
		return usagef("source: is missing (give the --source URL that stint serve --rules has)")
	}
	if err := checkComment("comment", f.comment); err != nil {
		return err
	}
	r := ruleset.Repairing{Author: author(), Comment: f.comment, Sure: func(found ruleset.Findings) error {
		return f.sure(c.InOrStdin(), c.ErrOrStderr(), found)
	}}
	if len(args) > 0 {
		var err error
		if r.Files, err = readRules(args[0], c.InOrStdin()); err != nil {
			return err
		}
		if _, err := rule.Parse(r.Files...); err != nil {
			return err
		}
	}
	source, closeSource, err := f.open(c)
	if err != nil {
		return err
	}
	defer closeSource()
	ctx, cancel := context.WithTimeout(c.Context(), repairTime)
	defer cancel()
	v, err := ruleset.Repair(ctx, source, r)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "version %d is published (%s)\n", v.Number, cell(v.Comment))
	return err
}

func (f *repairFlags) open(c *cobra.Command) (ruleset.Source, func(), error) {
	log := slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelError}))
	serve := serveFlags{rules: f.source, rulesPasswordFile: f.password, keyPrefix: f.prefix, stateDir: off}
	var config server.Config
	closeSource, err := serve.openRules(&config, log)
	if err != nil {
		return nil, nil, err
	}
	if config.RuleSource == nil {
		return nil, nil, usagef("source: a file or folder has nothing to repair (edit it, and its servers follow)")
	}
	return config.RuleSource, closeSource, nil
}

// sure shows what was found, and asks unless --yes was given.
func (f *repairFlags) sure(in io.Reader, errs io.Writer, found ruleset.Findings) error {
	if len(found.Forged) == 0 {
		_, _ = fmt.Fprintln(errs, "No listed version has a number that Stint never gave out; what is not listed is forgotten all the same.")
	}
	for _, v := range found.Forged {
		_, _ = fmt.Fprintf(errs, "Version %d by %s is forgotten.\n", v.Number, cell(v.Author))
	}
	what := "The rules of the file are"
	if found.Again > 0 {
		what = fmt.Sprintf("Version %d is", found.Again)
	}
	_, _ = fmt.Fprintf(errs, "%s published as version %d.\n", what, found.Number)
	if f.yes {
		return nil
	}
	if !isTerminal(in) {
		return errors.New("nothing was changed: there is no terminal to ask at (look at the above, then say --yes)")
	}
	_, _ = fmt.Fprint(errs, "Repair? [y/N] ")
	line, err := bufio.NewReader(io.LimitReader(in, 1000)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return errors.New("nothing was changed")
	}
	return nil
}
