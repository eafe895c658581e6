package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
)

// printStates prints what a key has left, a line a limit.
func printStates(out io.Writer, s *adminclient.States) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "RULE\tLIMIT\tOF\tREMAINING\tRESET AFTER")
	for _, l := range s.Limits {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", cell(l.Rule), cell(l.Name), l.Limit, remaining(&l), duration(l.ResetMS))
	}
	return w.Flush() // reports what the writes before it met
}

func remaining(l *adminclient.State) string {
	text := strconv.FormatInt(l.Remaining, 10)
	if l.Before != nil {
		text = fmt.Sprintf("%d (was %d)", l.Remaining, *l.Before)
	}
	if l.Listed != "" {
		text += " (on the " + cell(l.Listed) + " list)"
	}
	if l.Degraded {
		text += " (degraded: the store does not answer)"
	}
	return text
}
