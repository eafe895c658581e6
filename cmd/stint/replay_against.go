package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
	"github.com/stintdev/stint/cmd/stint/internal/decisionlog"
	"github.com/stintdev/stint/cmd/stint/internal/replay"
	"github.com/stintdev/stint/rule"
)

// liveRules stands for the rules in force, in --rules and --against.
const liveRules = "live"

// replayReport are the flags that say what the report of a replay has.
type replayReport struct {
	against string
	top     int
	alone   bool
	keys    shownKeys
	json    bool
	admin   adminFlags // of live rules, or those of a version
}

// shownKeys are the flags that say how a report shows credentials.
type shownKeys struct {
	showKeys    bool
	keyHashFile string
}

func (f *shownKeys) define(flags *pflag.FlagSet) {
	flags.BoolVar(&f.showKeys, "show-keys", false, "show credentials as they are, not shortened")
	flags.StringVar(&f.keyHashFile, "key-hash-file", "", "`FILE` with the secret of the hashes beside shortened credentials, as in stint serve (default a random secret)")
}

// set reads the secret and sets the options of a replay.
func (f *shownKeys) set(o *replay.Options) (err error) {
	key := decisionlog.NewKey()
	if f.keyHashFile != "" {
		if key, err = decisionlog.ReadKey(f.keyHashFile); err != nil {
			return usagef("--key-hash-file: %w", err)
		}
	}
	o.ShowKeys, o.Hash = f.showKeys, key.Hash
	return nil
}

func (f *replayReport) define(c *cobra.Command) {
	grouped(c.Flags(), "Report", func(flags *pflag.FlagSet) {
		flags.StringVar(&f.against, "against", "", "also decide by these `RULES`, named as in --rules, and report what they decide differently")
		flags.IntVar(&f.top, "top", replay.DefaultTop, "list the `N` callers with the most denials, at most "+strconv.Itoa(replay.MostTop))
		flags.BoolVar(&f.alone, "alone", true, "also count what each rule denies when it is the only one; =false saves memory where rules deny much")
		f.keys.define(flags)
		flags.BoolVar(&f.json, "json", false, "print the report as JSON")
	})
	grouped(c.Flags(), "Server", func(flags *pflag.FlagSet) {
		flags.StringVar(&f.admin.server, "server", "", "`URL` of the server's --admin listener (default $STINT_SERVER, else "+defaultAdmin+")")
		f.admin.clientFlags.define(flags)
	})
}

// options checks the flags and sets what they say. The rules of the options are read.
func (f *replayReport) options(c *cobra.Command, o *replay.Options) (err error) {
	if f.top < 1 || f.top > replay.MostTop {
		return usagef("--top: %d is out of range (give a number from 1 to %d)", f.top, replay.MostTop)
	}
	o.Top, o.Alone = f.top, f.alone
	if err := f.keys.set(o); err != nil {
		return err
	}
	if f.against == "" {
		return nil
	}
	if o.Rules == nil {
		return usagef("--against: belongs to --rules (write the limit as a rule)")
	}
	if o.Retries != replay.NoRetries {
		return usagef("--against: cannot be used beside --retries, because clients retry what one rule set denies (remove one)")
	}
	o.Against, o.AgainstName, err = f.load(c, "against", f.against)
	return err
}

// checkServer rejects flags for a server that no rules are read from.
func (f *replayReport) checkServer(flags *pflag.FlagSet, rules string) error {
	if onServer(rules) || onServer(f.against) {
		return nil
	}
	for _, name := range []string{"server", "token-file", "tls-ca", "tls-cert", "tls-key"} {
		if flags.Changed(name) {
			return usagef("--%s: no rules are read from a server (give live or the number of a version to --rules or --against)", name)
		}
	}
	return nil
}

// onServer reports whether the value of --rules or --against names rules of a server.
func onServer(rules string) bool {
	_, err := strconv.ParseUint(rules, 10, 63)
	return rules == liveRules || err == nil
}

// load reads the rules that a flag names, and returns their name in reports.
func (f *replayReport) load(c *cobra.Command, flag, rules string) (set *rule.Set, name string, err error) {
	name = rules
	if rules == standardInput {
		return nil, "", usagef("--%s: - names no rules here, because standard input is for recordings (name a file or a folder)", flag)
	}
	if onServer(rules) {
		if set, name, err = f.fetch(c.Context(), rules); err != nil {
			return nil, "", fmt.Errorf("--%s %s: %w", flag, rules, err)
		}
	} else if set, err = rule.Load(rules); err != nil {
		return nil, "", usagef("%w", err)
	}
	printWarnings(c.ErrOrStderr(), set.Warnings())
	warnOfPenalties(c.ErrOrStderr(), flag, set)
	return set, name, nil
}

// warnOfPenalties says that a replay decides without the penalties of rules.
func warnOfPenalties(errs io.Writer, flag string, set *rule.Set) {
	for _, r := range set.Rules() {
		if r.Mode == rule.Enforce && r.Penalty != nil {
			_, _ = fmt.Fprintf(errs, "warning: --%s: a replay counts no penalties, so live the rules with a penalty deny more (the first is %s)\n", flag, sanitize(r.ID))
			return
		}
	}
}

// fetch reads the rules in force, or those of a version, from a server.
func (f *replayReport) fetch(ctx context.Context, rules string) (set *rule.Set, name string, err error) {
	disconnect, err := f.admin.connect(ctx)
	if err != nil {
		return nil, "", err
	}
	defer disconnect()
	path := "/rules"
	if rules != liveRules {
		path += "/versions/" + rules
	}
	var of adminclient.Set
	if _, err := f.admin.client.Into(ctx, adminclient.Request{Method: http.MethodGet, Path: path}, &of); err != nil {
		return nil, "", unreached(err, "is stint serve running? Give --server or STINT_SERVER the URL of its --admin listener")
	}
	set, err = rule.Parse(ruleFiles(of.Files)...)
	return set, nameOf(&of.Version, rules), err
}

// nameOf returns the name of rules of a server in reports. A version with a canary has two rule
// sets: the old rules are those in force for most callers, and its number means the new ones.
func nameOf(v *adminclient.Version, rules string) string {
	switch {
	case v.Canary == nil:
		return versionLine(v)
	case rules == liveRules:
		return fmt.Sprintf("version %d, the old rules beside its canary", v.Version)
	}
	return fmt.Sprintf("version %d, the new rules of its canary", v.Version)
}
