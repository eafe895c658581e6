package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/replay"
)

// inputFlags are the flags of the commands that read recorded traffic.
type inputFlags struct {
	format, logFormat string
	since, until      string
	reorder           time.Duration
}

// inputsHelp describes the inputs of these commands.
const inputsHelp = `An INPUT is an access log in common or combined format, an access log of AWS ALB,
Cloudflare, Envoy or Traefik, JSON lines such as
{"t_us":1431857103000001,"key":"a","cost":1}, or a decision log of stint serve. The
format of each line is detected; --log-format reads a log_format of nginx. An INPUT
of - is standard input. The command decompresses gzip, and merges several inputs by
time.`

func (f *inputFlags) define(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.format, "format", "auto", "`FORMAT` of the lines: "+strings.Join(replay.FormatNames(), ", "))
	flags.StringVar(&f.logFormat, "log-format", "", "read lines of nginx by this log_format `TEXT`, such as '$remote_addr [$time_local] \"$request\" $status'")
	flags.StringVar(&f.since, "since", "", "leave out events before this `TIME`: RFC 3339, or a length such as 2h or 7d before now")
	flags.StringVar(&f.until, "until", "", "leave out events from this `TIME` on, in the same form")
	flags.DurationVar(&f.reorder, "reorder", replay.DefaultReorder, "put events in order that are late by at most this; 0 keeps the order of each file")
	mustComplete(c, "format", cobra.FixedCompletions(replay.FormatNames(), cobra.ShellCompDirectiveNoFileComp))
	mustComplete(c, "log-format", cobra.NoFileCompletions)
	c.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
}

// set checks the flags and sets the options of a replay.
func (f *inputFlags) set(o *replay.Options) (err error) {
	if f.reorder < 0 {
		return usagef("--reorder: %v is below 0 (use 0 to keep the order of each file)", f.reorder)
	}
	o.Reorder = f.reorder
	if o.Format, err = replay.ParseFormat(f.format); err != nil {
		return usagef("--%w", err)
	}
	if f.logFormat != "" {
		if f.format != "auto" {
			return usagef("--log-format: is given beside --format %s (remove one)", f.format)
		}
		if o.Format, err = replay.ParseLogFormat(f.logFormat); err != nil {
			return usagef("--%w", err)
		}
	}
	now := time.Now()
	if o.Since, err = timeOrAgo("since", f.since, now); err != nil {
		return err
	}
	if o.Until, err = timeOrAgo("until", f.until, now); err != nil {
		return err
	}
	if !o.Since.IsZero() && !o.Until.IsZero() && !o.Since.Before(o.Until) {
		return usagef("--since: %s is not before --until %s", f.since, f.until)
	}
	return nil
}

// timeOrAgo parses a time, or a length before now. It returns the zero time for
// an empty text.
func timeOrAgo(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.Add(-time.Duration(n) * 24 * time.Hour), nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	t, err := time.Parse(time.RFC3339, strings.ToUpper(text))
	if err != nil {
		return t, usagef("--%s: %.40q is not a time (write it as 2026-03-03T07:12:00Z, or as a length such as 2h or 7d before now)", flag, text)
	}
	return t, nil
}

// unknownBy returns a mistake of usage if the error is that of an attribute that
// no event has, and otherwise nil.
func unknownBy(err error) error {
	if unknown, ok := errors.AsType[*replay.UnknownAttributeError](err); ok {
		return usagef("--%w", unknown)
	}
	return nil
}
