package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
)

func newNodesCommand() *cobra.Command {
	f := &adminFlags{}
	c := &cobra.Command{
		Use:   "nodes",
		Short: "Show which node runs which version of the rules",
		Long: `Show the nodes that share their rules, and which version each runs since when.
Where rules are in files each node stands alone, and shows itself. So does a node
that started from its local copy while the source does not answer: it is STALE.`,
		Example: "  stint nodes\n  stint nodes --json",
		Args:    noArguments,
		RunE: f.running(func(ctx context.Context, _ []string) error {
			var n adminclient.Nodes
			return f.ask(ctx, adminclient.Request{Method: http.MethodGet, Path: "/nodes"}, &n, func(w io.Writer) error { return printNodes(w, &n) })
		}),
	}
	f.define(c)
	f.defineSource(c)
	return c
}

func printNodes(out io.Writer, n *adminclient.Nodes) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "NODE\tADDRESS\tVERSION\tHASH\tSINCE\tSTATE")
	for _, node := range n.Nodes {
		state := "current"
		if node.Stale {
			state = "STALE: a local copy that the source has not confirmed"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\n", cell(node.ID), cell(node.Address), node.Version, cell(shortHash(node.Hash)), clock(node.Since), state)
	}
	return w.Flush() // reports what the writes before it met
}
