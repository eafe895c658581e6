package main

import (
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
)

func newShadowCommand() *cobra.Command {
	f := &topFlags{by: "shadow", whole: true}
	f.table = func(out io.Writer, top *adminclient.Top) error { return printShadow(out, top, f.rule, f.limit) }
	c := &cobra.Command{
		Use:   "shadow",
		Short: "Show which requests and keys rules in shadow mode would have denied",
		Long: `Show what rules with "mode: shadow" would have denied in the last minute or hour: for
each rule, and for each of the busiest --limit keys. A key has at least COUNT -
ERROR and at most COUNT such requests. Keys are shortened. HASH tells keys with the
same beginning apart.

Each server counts its own requests. Give --server several addresses, separated
by commas, to see the sum over these servers. This needs the role admin on each of
them, and the command fails if one does not answer, after the sum of the others.`,
		Example: "  stint rules shadow\n  stint rules shadow --rule new-limit --window 1h",
		Args:    noArguments,
	}
	f.define(c, "only the rule of this `ID` (default all rules in shadow mode)")
	return c
}

// printShadow prints the sum of each rule over all keys, and the most keys of all rules.
func printShadow(out io.Writer, top *adminclient.Top, id string, most int) error {
	l := &printer{w: out}
	switch {
	case len(top.Items) == 0 && id != "":
		l.printf("rule %s would have denied no request in shadow mode since %s\n", cell(id), timestamp(top.Since))
		return l.err
	case len(top.Items) == 0:
		l.printf("no rule in shadow mode would have denied a request since %s\n", timestamp(top.Since))
		return l.err
	}
	type sum struct {
		keys  int
		least int64
	}
	sums := map[string]sum{}
	for _, item := range top.Items {
		s := sums[item.Rule]
		sums[item.Rule] = sum{s.keys + 1, s.least + item.Count - item.Error}
	}
	for _, id := range slices.Sorted(maps.Keys(sums)) {
		more := ""
		if top.Floor > 0 { // there are keys that are not among the items
			more = " or more"
		}
		l.printf("%s would have denied at least %d requests of %s%s\n", cell(id), sums[id].least, counted(sums[id].keys, "key"), more)
	}
	if l.err != nil {
		return l.err
	}
	busiest := *top
	busiest.Cut("", most)
	return printTop(out, &busiest)
}
