package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
)

const (
	// maxServers bounds the servers that one command asks at the same time.
	maxServers = 64
	// serverTime bounds the wait for each of several servers.
	serverTime = 5 * time.Second
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

// split splits the addresses. The first one becomes that of the client.
func (f *serversFlags) split() error {
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

// askAll asks all servers at the same time. An error says what is missing and from where.
func askAll[T any](ctx context.Context, clients []*adminclient.Client, missing string, ask func(context.Context, *adminclient.Client, *T) error) (answers []T, failures []error) {
	if len(clients) > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, serverTime)
		defer cancel()
	}
	answers, failures = make([]T, len(clients)), make([]error, len(clients))
	var asked sync.WaitGroup
	for i, c := range clients {
		asked.Go(func() {
			err := ask(ctx, c, &answers[i])
			if err != nil && len(clients) > 1 {
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
