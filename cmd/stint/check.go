package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

const (
	checkTimeout = 10 * time.Second
	maxAnswer    = 1 << 20 // bytes of an answer that are read
)

// checkFlags are the flags of stint check as they were given.
type checkFlags struct {
	callerFlags

	server string
	json   bool
}

func newCheckCommand() *cobra.Command {
	var flags checkFlags
	c := &cobra.Command{
		Use:   "check KEY=VALUE...",
		Short: "Ask a running server to decide one request",
		Long: `Ask a running server to decide one request, and print what its rules say. The
request is described by its attributes: api_key, ip, method, path, host, tier,
header:NAME or any that the rules mention. cost=N is what it uses (1 unless
said; 0 looks without counting).

The exit status is 0 when there is a decision, allowed or not, so that scripts
can tell a denial from a server that does not answer: read the first line, or
the member allowed of --json. The token of a server that asks for one is read
from the environment variable STINT_TOKEN or from --token-file.`,
		Example: `  stint check api_key=alice method=GET path=/v1/orders
  stint check ip=203.0.113.9 cost=5 --json
  STINT_TOKEN=secret stint check --server https://limits.example.com path=/`,
		Args: atLeastOne("an attribute", "api_key=alice"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkGiven(c.Flags()); err != nil {
				return err
			}
			return flags.run(c.Context(), args, c.OutOrStdout())
		},
	}
	c.Flags().StringVar(&flags.server, "server", "http://127.0.0.1:8080", "`URL` of the server's --http listener")
	flags.define(c.Flags())
	c.Flags().BoolVar(&flags.json, "json", false, "print the decision as JSON")
	return c
}

func (f *checkFlags) run(ctx context.Context, args []string, out io.Writer) error {
	body, err := checkBody(args)
	if err != nil {
		return err
	}
	base, err := serverURL("server", f.server, "http://host:8080")
	if err != nil {
		return err
	}
	answer, err := f.post(ctx, base.JoinPath("/v1/check").String(), body)
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if f.json {
		_, err = fmt.Fprintln(out, string(bytes.TrimSpace(answer)))
		return err
	}
	return printDecision(out, answer)
}

// checkBody is the body of the request that the arguments describe. A cost is
// passed on as it stands: the server says what is wrong with it.
func checkBody(args []string) ([]byte, error) {
	var body struct {
		Attributes map[string]string `json:"attributes"`
		Cost       json.RawMessage   `json:"cost,omitempty"`
	}
	body.Attributes = map[string]string{}
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" || !utf8.ValidString(arg) {
			return nil, usagef("%q is not an attribute (write it as key=value in UTF-8, such as api_key=alice)", arg)
		}
		if _, twice := body.Attributes[name]; twice || name == "cost" && body.Cost != nil {
			return nil, usagef("%s: is given twice", name)
		}
		if name != "cost" {
			body.Attributes[name] = value
			continue
		}
		if !json.Valid([]byte(value)) {
			return nil, usagef("cost: %q is not a whole number", value)
		}
		body.Cost = json.RawMessage(value)
	}
	return json.Marshal(body)
}

// post returns the decision that the server answered with.
func (f *checkFlags) post(ctx context.Context, target string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := f.send(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	return answer, refusal(response, answer)
}

// send asks as the flags say. It goes nowhere else, which could carry the token
// and the attributes there.
func (f *checkFlags) send(r *http.Request) (*http.Response, error) {
	token, err := f.token()
	if err != nil {
		return nil, err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	transport, err := f.transport()
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return client.Do(r)
}

// refusal is the error that an answer reports instead of a decision.
func refusal(r *http.Response, answer []byte) error {
	var body struct {
		Allowed *bool `json:"allowed"`
		Error   struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	err := json.Unmarshal(answer, &body)
	switch {
	case err == nil && body.Allowed != nil:
		return nil
	case err == nil && body.Error.Message != "" && r.StatusCode == http.StatusBadRequest:
		return usagef("%s: %s", r.Status, body.Error.Message)
	case err == nil && body.Error.Message != "":
		return errors.New(r.Status + ": " + body.Error.Message)
	}
	return fmt.Errorf("%s: the answer is no decision (is this a stint server?)", r.Status)
}

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
