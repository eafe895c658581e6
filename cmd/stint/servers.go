package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
	"github.com/stintdev/stint/cmd/stint/internal/impact"
)

const (
	// maxServers bounds the servers that one command asks at the same time.
	maxServers = 64
	// serverTime bounds the wait for each of several servers.
	serverTime = 5 * time.Second
	// sampleTime bounds that for their samples, which are large. The servers open a sample until a
	// minute after it was sealed.
	sampleTime = 20 * time.Second
)

// serversFlags are the flags of a command that asks several servers, because nodes answer only
// for themselves.
type serversFlags struct {
	adminFlags

	servers []string
}

const serversUsage = "`URL,…` of the servers' --admin listeners (default $STINT_SERVER, else " + defaultAdmin + ")"

// define is the define of [adminFlags] for several servers.
func (f *serversFlags) define(c *cobra.Command) {
	f.adminFlags.define(c)
	c.Flags().Lookup("server").Usage = serversUsage
}

// runningOnAll is running, with the addresses split.
func (f *serversFlags) runningOnAll(do func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	run := f.running(do)
	return func(c *cobra.Command, args []string) error {
		if err := f.split(); err != nil {
			return err
		}
		return run(c, args)
	}
}

// split splits the addresses. The first one becomes that of the client. A command on a source has
// no server.
func (f *serversFlags) split() error {
	if f.source.url != "" {
		f.servers = []string{""}
		return nil
	}
	f.servers = strings.Split(cmp.Or(f.server, os.Getenv("STINT_SERVER")), ",")
	for i, server := range f.servers {
		f.servers[i] = strings.TrimSpace(server)
	}
	if len(f.servers) > maxServers {
		return usagef("server: %d addresses are given (give at most %d)", len(f.servers), maxServers)
	}
	if sorted := slices.Sorted(slices.Values(f.servers)); len(slices.Compact(sorted)) < len(f.servers) {
		return usagef("server: an address is given twice, whose requests would count twice (leave one out)")
	}
	if len(f.servers) > 1 {
		f.server = f.servers[0]
	}
	return nil
}

// clients returns a client for each server.
func (f *serversFlags) clients() (list []*adminclient.Client, err error) {
	if len(f.servers) == 1 {
		return []*adminclient.Client{f.client}, nil
	}
	for _, server := range f.servers {
		c := *f.client
		if c.URL, err = serverURL("server", server, "http://host:6070,http://host2:6070"); err != nil {
			return nil, err
		}
		list = append(list, &c)
	}
	return list, nil
}

// askAll asks all servers at the same time, and waits at most the given time if they are several. An
// error says what is missing and from where.
func askAll[T any](ctx context.Context, clients []*adminclient.Client, within time.Duration, missing string, ask func(context.Context, *adminclient.Client, *T) error) (answers []T, failures []error) {
	if len(clients) > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	answers, failures = make([]T, len(clients)), make([]error, len(clients))
	var asked sync.WaitGroup
	for i, c := range clients {
		asked.Go(func() {
			err := ask(ctx, c, &answers[i])
			if err != nil && len(clients) > 1 {
				if errors.Is(err, context.DeadlineExceeded) {
					err = fmt.Errorf("no answer within %v", within)
				}
				err = fmt.Errorf("no %s from %s: %w", missing, c.URL, err)
			}
			failures[i] = err
		})
	}
	asked.Wait()
	return answers, failures
}

// unanswered returns the addresses of the clients that have an error.
func unanswered(clients []*adminclient.Client, failures []error) (list []string) {
	for i, failure := range failures {
		if failure != nil {
			list = append(list, clients[i].URL.String())
		}
	}
	return list
}

// withoutNoRule removes the refusals of servers whose rules do not have the rule, because they have
// nothing of it, if another server answers. If none has the rule, it may be a mistake.
func withoutNoRule(failures []error) []error {
	if !slices.Contains(failures, nil) {
		return failures
	}
	for i, err := range failures {
		refused, ok := errors.AsType[*adminclient.Error](err)
		if ok && refused.Status == http.StatusNotFound && strings.HasPrefix(refused.Message, "rule") {
			failures[i] = nil
		}
	}
	return failures
}

// maxSamples bounds the samples that the body of a request brings, in bytes. In base64 they leave
// room for the rules.
const maxSamples = 16 << 20

// samples asks every server beside the first one for its sample of recent requests. A change that is
// judged without the requests of a server could deny more than the answer says, so an error of one
// server is one of the command.
func (f *serversFlags) samples(ctx context.Context) (sealed [][]byte, err error) {
	clients, err := f.clients()
	if err != nil || len(clients) == 1 {
		return nil, err
	}
	size := min(impact.MaxSealed, maxSamples/(len(clients)-1))
	q := adminclient.Request{Method: http.MethodGet, Path: "/v1/sample", Query: url.Values{"bytes": {strconv.Itoa(size)}}, MaxAnswer: 2 * int64(size)}
	answers, failures := askAll(ctx, clients, sampleTime, "sample of requests", func(ctx context.Context, c *adminclient.Client, s *adminclient.Sample) error {
		if c == clients[0] {
			return nil // it replays, and has its own
		}
		_, err := c.Into(ctx, q, s)
		return err
	})
	for i, answer := range answers {
		if len(answer.Sample) > size {
			failures[i] = fmt.Errorf("the sample of requests from %s has %d bytes, and %d were asked for", clients[i].URL, len(answer.Sample), size)
		}
	}
	if err := errors.Join(failures...); err != nil {
		return nil, fmt.Errorf("%w (mend it, or leave the address out of --server to find the impact without its requests)", err)
	}
	for _, answer := range answers[1:] {
		sealed = append(sealed, answer.Sample)
	}
	return sealed, nil
}

// ofServer names the server whose sample another server refuses by its number.
func (f *serversFlags) ofServer(err error) error {
	refused, ok := errors.AsType[*adminclient.Error](err)
	n := 0
	if !ok {
		return err
	}
	if _, scanned := fmt.Sscanf(refused.Message, "samples: sample %d", &n); scanned != nil || n < 1 || n >= len(f.servers) {
		return err
	}
	return fmt.Errorf("the sample of %s is of no use: %w", f.servers[n], err)
}

// withSamples adds samples to the body of a request. The text of one file becomes a member of the
// body; any other body is an object.
func withSamples(body []byte, isText bool, samples [][]byte) ([]byte, error) {
	if len(samples) == 0 {
		return body, nil
	}
	members := map[string]any{}
	if isText {
		members["text"] = string(body)
	} else if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	members["samples"] = samples
	return json.Marshal(members)
}
