package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
	"github.com/stintdev/stint/cmd/stint/internal/denials"
)

// followEvery is the pause between two questions of --follow.
const followEvery = time.Second

// noRule stands for the empty rule of a denial by a deny list, as in the table.
const noRule = "-"

// deniedFlags are the flags of stint denied.
type deniedFlags struct {
	serversFlags

	rule, hash, since string
	limit             int
	follow            bool
}

func newDeniedCommand() *cobra.Command {
	f := &deniedFlags{}
	c := &cobra.Command{
		Use:   "denied",
		Short: "Show the requests that are denied now",
		Long: `Show the last denied requests, the newest last: when, by which rule and limit, the
shortened key and a hash that tells keys apart, how long the caller has to wait, and
the path. In a path, … stands for a part that may be a key. --follow shows new ones
as they come, until you interrupt it.

A server holds the last denials of each rule in memory of fixed size. Each server
shows its own. Give --server several addresses, separated by commas, to see those of
all of them; the command fails if one does not answer, after those of the others. The
hashes of several servers are the same if they have the same --key-hash-file.`,
		Example: "  stint denied\n  stint denied --rule orders --since 10m --limit 100\n  stint denied --follow --server http://10.0.0.1:6070,http://10.0.0.2:6070",
		Args:    noArguments,
	}
	flags := c.Flags()
	flags.StringVar(&f.rule, "rule", "", "only denials by the rule of this `ID`; (take) for limits that callers bring, (envoy) for those of Envoy's configuration, - for deny lists")
	flags.StringVar(&f.hash, "hash", "", "only denials of the key with this `HASH`, which the list and stint key top show")
	flags.StringVar(&f.since, "since", "", "only denials since this `TIME` in RFC 3339, or within this duration, such as 10m")
	flags.IntVar(&f.limit, "limit", 20, "show at most `N` denials, the newest")
	flags.BoolVarP(&f.follow, "follow", "f", false, "show new denials as they come; --json then prints one object on each line")
	f.define(c)
	mustComplete(c, "rule", f.completeRules)
	run := f.running(func(ctx context.Context, _ []string) error { return f.denied(ctx) })
	c.RunE = func(c *cobra.Command, args []string) error {
		if f.limit < 1 || f.limit > denials.MaxLimit {
			return usagef("limit: %d is not a number from 1 to %d", f.limit, denials.MaxLimit)
		}
		if err := f.split(); err != nil {
			return err
		}
		return run(c, args)
	}
	return c
}

func (f *deniedFlags) query() url.Values {
	query := url.Values{"limit": {strconv.Itoa(f.limit)}}
	for name, value := range map[string]string{"rule": f.rule, "hash": f.hash, "since": f.since} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if f.rule == noRule {
		query.Set("rule", "")
	}
	return query
}

func (f *deniedFlags) denied(ctx context.Context) error {
	clients, err := f.clients()
	if err != nil {
		return err
	}
	q := adminclient.Request{Method: http.MethodGet, Path: "/v1/denied", Query: f.query()}
	if len(clients) == 1 && !f.follow {
		var page adminclient.Denied
		return f.ask(ctx, q, &page, func(w io.Writer) error { return printDenied(w, &page, "--limit") })
	}
	pages, failures := f.askEach(ctx, clients, make([]string, len(clients)))
	err = errors.Join(failures...)
	missing := unanswered(clients, failures)
	if err != nil && len(missing) == len(clients) {
		return err
	}
	if f.follow {
		return f.followAll(ctx, clients, pages, failures)
	}
	merged := mergeDenied(pages, f.limit)
	merged.Unanswered = missing
	body, encoding := json.Marshal(&merged)
	if encoding != nil {
		return encoding
	}
	return errors.Join(f.print(adminclient.Answer{Body: body}, func(w io.Writer) error { return printDenied(w, &merged, "--limit") }), err)
}

// askEach asks each server for its denials after a position, or for the newest ones if it is
// empty. One of several servers may not have the rule.
func (f *deniedFlags) askEach(ctx context.Context, clients []*adminclient.Client, after []string) ([]adminclient.Denied, []error) {
	pages, failures := askAll(ctx, clients, serverTime, "denials", func(ctx context.Context, c *adminclient.Client, page *adminclient.Denied) error {
		q := adminclient.Request{Method: http.MethodGet, Path: "/v1/denied", Query: f.query()}
		if from := after[slices.Index(clients, c)]; from != "" {
			q.Query.Set("after", from)
			q.Query.Set("limit", strconv.Itoa(denials.MaxLimit))
		}
		_, err := c.Into(ctx, q, page)
		return err
	})
	return pages, withoutNoRule(failures)
}

// mergeDenied returns the denials of several servers, the newest first.
func mergeDenied(pages []adminclient.Denied, limit int) (all adminclient.Denied) {
	all.Items = []denials.Denial{}
	for _, page := range pages {
		all.Items = append(all.Items, page.Items...)
		all.LeftOut += page.LeftOut
		all.Overwritten += page.Overwritten
	}
	slices.SortStableFunc(all.Items, func(a, b denials.Denial) int { return b.Time.Compare(a.Time) })
	if more := len(all.Items) - limit; more > 0 {
		all.Items, all.LeftOut = all.Items[:limit], all.LeftOut+more
	}
	return all
}

// followAll prints the denials of the first answers, and then new ones. A server that does not
// answer is reported once, and asked again.
func (f *deniedFlags) followAll(ctx context.Context, clients []*adminclient.Client, pages []adminclient.Denied, failures []error) error {
	next, failed := make([]string, len(clients)), make([]bool, len(clients))
	if !f.json {
		_, _ = fmt.Fprintf(f.errs, deniedFormat, "TIME", "RULE", "KEY", "HASH", "LIMIT", "REMAINING", "RETRY", "BY", "PATH")
	}
	for first := true; ; first = false {
		for i, err := range failures {
			if err != nil && !failed[i] && ctx.Err() == nil {
				_, _ = fmt.Fprintln(f.errs, sanitize(err.Error())+" (asking again)")
			}
			failed[i] = err != nil
		}
		for i := range pages {
			if next[i] == "" {
				pages[i].LeftOut = 0 // older than those that --limit asks for
			}
			next[i] = cmp.Or(pages[i].Next, next[i])
		}
		page := mergeDenied(pages, len(pages)*denials.MaxLimit)
		if first { // --limit is for the denials of all servers together
			page.Items = page.Items[:min(len(page.Items), f.limit)]
		}
		if err := f.printNew(page); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followEvery):
		}
		pages, failures = f.askEach(ctx, clients, next)
	}
}

// printNew prints a page of --follow.
func (f *deniedFlags) printNew(page adminclient.Denied) error {
	for _, d := range slices.Backward(page.Items) {
		if f.json {
			line, err := json.Marshal(d)
			if err == nil {
				_, err = fmt.Fprintln(f.out, sanitizeFor(f.out, string(line)))
			}
			if err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintf(f.out, deniedFormat, deniedCells(&d)...); err != nil {
			return err
		}
	}
	if more := uint64(page.LeftOut) + page.Overwritten; more > 0 {
		_, _ = fmt.Fprintf(f.errs, "%d more denials, of any rule, came too fast to be shown\n", more)
	}
	return nil
}

// deniedFormat has columns of fixed width, because --follow does not know what comes.
const deniedFormat = "%-24v  %-16v  %-16v  %-16v  %-24v  %-9v  %-10v  %-7v  %v\n"

// printDenied prints denials as a table, the newest last. bound is the flag that bounds their
// number.
func printDenied(out io.Writer, page *adminclient.Denied, bound string) error {
	if len(page.Items) == 0 {
		_, err := fmt.Fprintln(out, "no request was denied, as far as the servers remember")
		return err
	}
	t := newTable(out, "TIME", "RULE", "KEY", "HASH", "LIMIT", "REMAINING", "RETRY", "BY", "PATH")
	for _, d := range slices.Backward(page.Items) {
		t.row(deniedCells(&d)...)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	l := &printer{w: out}
	if page.LeftOut > 0 {
		l.printf("%d earlier ones are left out (%s)\n", page.LeftOut, bound)
	}
	return l.err
}

// deniedCells returns the cells of a denial.
func deniedCells(d *denials.Denial) []any {
	limit, left, retry := "-", "-", "-"
	if d.Max != nil {
		limit = strconv.FormatInt(*d.Max, 10)
		if d.Limit != "" {
			limit += " " + cell(d.Limit)
		}
	}
	if d.Remaining != nil {
		left = strconv.FormatInt(*d.Remaining, 10)
		if d.Cost != 1 {
			left += fmt.Sprintf(" of %d", d.Cost)
		}
	}
	switch {
	case d.Never:
		retry = "never"
	case d.RetryAfterMS != nil:
		retry = milliseconds(*d.RetryAfterMS)
	}
	return []any{d.Time.UTC().Format("2006-01-02 15:04:05.000Z"), cell(d.Rule), cell(d.Key), cell(d.Hash), limit, left, retry, cell(d.Surface), cell(d.Path) + reasonOf(d)}
}

// reasonOf returns what else there is to say about a denial.
func reasonOf(d *denials.Denial) string {
	var reasons []string
	if d.List != "" {
		reasons = append(reasons, "on the "+cell(d.List)+" list")
	}
	if d.Penalty != "" {
		reasons = append(reasons, "penalty: "+cell(d.Penalty))
	}
	if d.Degraded {
		reasons = append(reasons, "degraded: the store gives no decision")
	}
	if reasons == nil {
		return ""
	}
	return " (" + strings.Join(reasons, "; ") + ")"
}
