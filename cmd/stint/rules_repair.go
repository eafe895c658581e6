package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// repairTime bounds a repair, including the answer at the terminal.
const repairTime = 10 * time.Minute

// repairFlags are the flags of stint rules repair.
type repairFlags struct {
	source  sourceFlags
	comment string
	yes     bool
}

func newRepairCommand() *cobra.Command {
	f := &repairFlags{}
	c := &cobra.Command{
		Use:   "repair --source URL [FILE]",
		Short: "Repair rules in Redis or PostgreSQL after somebody else wrote there",
		Long: `Repair the rules in Redis or PostgreSQL after somebody else wrote versions there.

Stint numbers versions in order. A foreign version with a number far ahead blocks
every later change, because no number can follow it. The command forgets the
versions whose numbers Stint never gave out, and publishes the newest version
below them again, or the rules of FILE. Every node follows, also one that runs a
forgotten version. The command also replaces the secret of the nodes, which the
intruder may know.

First revoke the intruder's write access: change the password, or the rights of
the database user. Then review the rules that are published again: a foreign
version may also have a number that is in order.`,
		Example: "  stint rules repair --source redis://10.0.0.5:6379/0\n  stint rules repair --source postgres://stint@db/stint --yes rules.yaml",
		Args:    arguments(0, 1, "at most one file", "rules.yaml"),
		RunE: func(c *cobra.Command, args []string) error {
			err := f.repair(c, args)
			if err == nil || exitStatus(err) == exitUsage {
				return err
			}
			return fmt.Errorf("rules repair: %w", err)
		},
	}
	flags := c.Flags()
	f.source.define(flags, "`URL` of the rules, redis://… or postgres://…, as in stint serve --rules")
	flags.BoolVarP(&f.yes, "yes", "y", false, "repair without asking")
	flags.StringVar(&f.comment, "comment", "", "reason for the repair, for the history")
	c.ValidArgsFunction = completeRuleFiles
	return c
}

func (f *repairFlags) repair(c *cobra.Command, args []string) error {
	if f.source.url == "" {
		return usagef("source: is missing (give --source the URL that stint serve --rules has)")
	}
	if err := checkComment("comment", f.comment); err != nil {
		return err
	}
	r := ruleset.Repairing{Author: author(), Comment: f.comment, Sure: func(found ruleset.Findings) error {
		return f.confirm(c.InOrStdin(), c.ErrOrStderr(), found)
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
	source, closeSource, err := f.source.open(errorLog(c.ErrOrStderr()))
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

// confirm shows what the inspection found, and asks unless --yes was given.
func (f *repairFlags) confirm(in io.Reader, errs io.Writer, found ruleset.Findings) error {
	if len(found.Forged) == 0 {
		_, _ = fmt.Fprintln(errs, "Every listed version has a number that Stint gave out; the repair forgets only what cannot be listed.")
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
	return askYes(in, errs, "Repair?", "nothing was changed")
}
