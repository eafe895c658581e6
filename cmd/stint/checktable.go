package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// answered is a decision as the server writes it, as far as it is printed.
type answered struct {
	answeredNumbers
	Listed bool           `json:"listed"`
	Limits []answeredLine `json:"limits"`
}

type answeredLine struct {
	answeredNumbers
	Rule   string `json:"rule"`
	Name   string `json:"name"`
	Shadow bool   `json:"shadow"`
}

type answeredNumbers struct {
	Allowed    bool  `json:"allowed"`
	Limit      int64 `json:"limit"`
	Remaining  int64 `json:"remaining"`
	RetryAfter int64 `json:"retry_after_ms"`
	ResetAfter int64 `json:"reset_after_ms"`
	Delay      int64 `json:"delay_ms"`
	Never      bool  `json:"never"`
	Degraded   bool  `json:"degraded"`
}

// printDecision prints one line that says what was decided, and a table with
// a line for every limit.
func printDecision(out io.Writer, answer []byte) error {
	var a answered
	if err := json.Unmarshal(answer, &a); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if _, err := fmt.Fprintln(out, a.verdict()); err != nil || len(a.Limits) == 0 {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "RULE\tLIMIT\tVERDICT\tOF\tREMAINING\tRETRY AFTER\tRESET AFTER\tDELAY")
	for _, l := range a.Limits {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", cell(l.Rule), cell(l.Name), l.verdict(),
			l.Limit, l.Remaining, l.retry(), duration(l.ResetAfter), duration(l.Delay))
	}
	return w.Flush() // reports what the writes before it met
}

func (a *answered) verdict() string {
	if a.Degraded {
		return a.decided() + " (degraded: the store does not answer)"
	}
	return a.decided()
}

func (a *answered) decided() string {
	switch {
	case a.Listed:
		return "denied: on the deny list"
	case !a.Allowed && a.Never && a.Limit == 0:
		return "denied: by the rule itself, whatever the wait"
	case !a.Allowed && a.Never:
		return "denied: the cost is greater than the limit"
	case !a.Allowed:
		return "denied: retry after " + a.retry()
	case len(a.Limits) == 0:
		return "allowed: no limit applied"
	case a.Delay > 0:
		return "allowed: after a delay of " + duration(a.Delay)
	}
	return "allowed"
}

func (l *answeredLine) verdict() string {
	verdict := "denied"
	if l.Allowed {
		verdict = "allowed"
	}
	if l.Shadow {
		verdict += " (shadow)"
	}
	if l.Degraded {
		verdict += " (degraded)"
	}
	return verdict
}

func (n *answeredNumbers) retry() string {
	if n.Never {
		return "never"
	}
	return duration(n.RetryAfter)
}

func duration(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }
