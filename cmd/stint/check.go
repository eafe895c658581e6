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
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	checkTimeout   = 10 * time.Second
	maxCheckAnswer = 1 << 20 // bytes
)

// checkFlags are the flags of stint check.
type checkFlags struct {
	clientFlags

	server string
	json   bool
}

func newCheckCommand() *cobra.Command {
	var flags checkFlags
	c := &cobra.Command{
		Use:   "check KEY=VALUE...",
		Short: "Ask a running server to decide one request",
		Long: `Ask a running server to decide one request, and print the decision of its rules.
Attributes describe the request: api_key, ip, method, path, host, tier,
header:NAME, and any other that the rules use. cost=N is the cost of the request
(default 1; 0 looks without charging).

The exit status is 0 for every decision, allowed or denied, so that scripts can
tell a denial from a failure: read the first line, or the member "allowed" of
--json. If the server requires a token, put it into the environment variable
STINT_TOKEN or into a file for --token-file.`,
		Example: `  stint check api_key=alice method=GET path=/v1/orders
  stint check ip=203.0.113.9 cost=5 --json
  STINT_TOKEN=secret stint check --server https://limits.example.com path=/`,
		Args: arguments(1, noMaximum, "at least one attribute", "api_key=alice"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkGiven(c.Flags()); err != nil {
				return err
			}
			return flags.run(c.Context(), args, c.OutOrStdout())
		},
	}
	c.Flags().BoolVar(&flags.json, "json", false, "print the decision as JSON")
	c.ValidArgsFunction = completeAttributes
	grouped(c.Flags(), "Server", func(set *pflag.FlagSet) {
		set.StringVar(&flags.server, "server", "http://127.0.0.1:8080", "`URL` of the server's --http listener")
		flags.define(set)
	})
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
		return fmt.Errorf("check: %w", unreached(err, "is stint serve running? Start it, or give --server the URL of its --http listener"))
	}
	if f.json {
		_, err = fmt.Fprintln(out, string(bytes.TrimSpace(answer)))
		return err
	}
	return printDecision(out, answer, body)
}

// checkBody returns the body of the request that the arguments describe. It
// passes the cost on unchanged, because the server explains a wrong one.
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
			return nil, usagef("%s: is given twice (remove one)", name)
		}
		if name != "cost" {
			body.Attributes[name] = value
			continue
		}
		if !json.Valid([]byte(value)) {
			return nil, usagef("cost: %q is not a whole number (write it as cost=5)", value)
		}
		body.Cost = json.RawMessage(value)
	}
	return json.Marshal(body)
}

// post sends the request and returns the decision. It does not follow
// redirects, which could carry the token and the attributes elsewhere.
func (f *checkFlags) post(ctx context.Context, target string, body []byte) ([]byte, error) {
	token, err := f.token()
	if err != nil {
		return nil, err
	}
	transport, err := f.transport()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxCheckAnswer))
	if err != nil {
		return nil, err
	}
	return answer, refusal(response, answer)
}

// refusal returns the error of an answer that is not a decision. A decision may
// come with any status: 503 is one that was made without the store.
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
	return fmt.Errorf("%s: the answer is not a decision (is this a stint server?)", r.Status)
}

// decisionAnswer is the part of a server's decision that is printed.
type decisionAnswer struct {
	decisionNumbers
	Listed bool            `json:"listed"`
	Reason string          `json:"reason"`
	Limits []limitDecision `json:"limits"`

	cost int64 // of the request
}

type limitDecision struct {
	decisionNumbers
	Rule   string `json:"rule"`
	Name   string `json:"name"`
	Shadow bool   `json:"shadow"`
}

type decisionNumbers struct {
	Allowed    bool  `json:"allowed"`
	Limit      int64 `json:"limit"`
	Remaining  int64 `json:"remaining"`
	RetryAfter int64 `json:"retry_after_ms"`
	ResetAfter int64 `json:"reset_after_ms"`
	Delay      int64 `json:"delay_ms"`
	Never      bool  `json:"never"`
	Degraded   bool  `json:"degraded"`

	Penalty string `json:"penalty"`
}

// printDecision prints one line with the decision about the request, and a
// table with a line for each limit.
func printDecision(out io.Writer, answer, request []byte) error {
	a := decisionAnswer{cost: 1}
	sent := struct {
		Cost *int64 `json:"cost"`
	}{&a.cost}
	if err := errors.Join(json.Unmarshal(answer, &a), json.Unmarshal(request, &sent)); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	text := a.text()
	if a.Degraded {
		text += degradedText
	}
	if _, err := fmt.Fprintln(out, text); err != nil || len(a.Limits) == 0 {
		return err
	}
	t := newTable(out, "RULE", "LIMIT", "DECISION", "OF", "REMAINING", "RETRY AFTER", "RESET AFTER", "DELAY")
	for _, l := range a.Limits {
		t.row(cell(l.Rule), cell(l.Name), l.text(), l.Limit, l.Remaining, l.retry(), milliseconds(l.ResetAfter), milliseconds(l.Delay))
	}
	return t.Flush()
}

// degradedText marks a decision that was made without the store.
const degradedText = " (degraded: the store gives no decision)"

func (a *decisionAnswer) text() string {
	switch {
	case a.Listed:
		return "denied: on the deny list"
	case !a.Allowed && a.Never && a.Limit == 0:
		return "denied: by the rule itself, however long the wait"
	case !a.Allowed && a.Never && a.cost > a.Limit:
		return "denied: the cost is greater than the limit"
	case !a.Allowed && a.Never:
		return "denied: the request lacks an attribute that the rule counts by (missing: deny)"
	case a.Reason != "":
		return "denied: " + cell(a.Reason) + "; retry after " + a.retry()
	case !a.Allowed:
		return "denied: retry after " + a.retry()
	case len(a.Limits) == 0:
		return "allowed: no limit applied"
	case a.Delay > 0:
		return "allowed: after a delay of " + milliseconds(a.Delay)
	}
	return "allowed"
}

func (l *limitDecision) text() string {
	text := "denied"
	if l.Allowed {
		text = "allowed"
	}
	if l.Penalty != "" {
		text += " (" + cell(l.Penalty) + ")"
	}
	if l.Shadow {
		text += " (shadow)"
	}
	if l.Degraded {
		text += " (degraded)"
	}
	return text
}

func (n *decisionNumbers) retry() string {
	if n.Never {
		return "never"
	}
	return milliseconds(n.RetryAfter)
}

// milliseconds returns a number of milliseconds as a duration.
func milliseconds(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }
