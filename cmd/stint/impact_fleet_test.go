package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
	"github.com/stintdev/stint/internal/pgtest"
	"github.com/stintdev/stint/internal/redistest"
)

const (
	fleetOld    = "rules:\n  - {id: a, by: [api_key], limit: 1000, window: 1h}\n"
	fleetStrict = "rules:\n  - {id: a, by: [api_key], limit: 80, window: 1h}\n"
)

// url returns the address of the admin listener.
func (a *administered) url() string { return a.env[0][len("STINT_SERVER="):] }

// servers returns the flag with the admin listeners of several servers.
func servers(all ...*administered) []string {
	var list []string
	for _, a := range all {
		list = append(list, a.url())
	}
	return []string{"--server", strings.Join(list, ",")}
}

// sampleOf returns the sealed sample of a server.
func sampleOf(t *testing.T, a *administered) []byte {
	t.Helper()
	r, err := http.Get(a.url() + "/v1/sample")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var answer adminclient.Sample
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(r.Status, err)
	}
	return answer.Sample
}

// fleetOf starts servers with the same rules that share a secret, and returns the stricter rules.
func fleetOf(t *testing.T, n int, args ...string) (all []*administered, strict string) {
	t.Helper()
	for range n {
		all = append(all, administer(t, args...))
	}
	first := all[0]
	first.run(exitDone, []string{"version 1"}, "rules", "apply", first.file("old.yaml", fleetOld))
	strict = first.file("strict.yaml", fleetStrict)
	for _, other := range all[1:] {
		other.wait("rules reloaded")
	}
	redistest.Await(t, func() error { // all nodes have the secret
		if got := command(t, nil, append(servers(all...), "rules", "impact", strict)...); got.status != exitDone {
			return errors.New(got.errors)
		}
		return nil
	})
	return all, strict
}

// Each node has 60 of the 120 requests of a caller. A limit of 80 denies none of them on one
// node, and 40 of them on both.
func TestTheImpactIsThatOnAllNodes(t *testing.T) {
	redis := redistest.Server(t)
	url := "redis://" + redis.Addr()
	all, strict := fleetOf(t, 2, "--rules", url, "--store", url)
	a, b := all[0], all[1]
	both := servers(a, b)
	a.traffic(60)
	b.traffic(60)
	if sealed := sampleOf(t, b); bytes.Contains(sealed, []byte("sk_live")) || bytes.Contains(sealed, []byte("api_key")) || len(sealed) < 60 {
		t.Errorf("a sealed sample of %d bytes shows what is in it: %q", len(sealed), sealed)
	}

	a.run(exitDone, []string{"on the requests of 1 of 2 nodes (rules impact, apply and rollback take", "none on the 60 requests"}, "rules", "impact", strict)
	together := []string{"on the requests of 2 nodes together", "denies 40 of the 120 requests allowed", "of 1 caller"}
	a.run(exitDone, together, append(both, "rules", "impact", strict)...)
	a.env = []string{"STINT_SERVER=" + both[1]}
	if got := command(t, a.env, "rules", "impact", "--detailed-exitcode", strict); got.status != exitDifferent {
		t.Errorf("status %d\n%s", got.status, got.errors)
	}
	folder := t.TempDir()
	writeFile(t, filepath.Join(folder, "one.yaml"), fleetStrict)
	writeFile(t, filepath.Join(folder, "two.yaml"), "deny: [nobody]\n")
	a.run(exitDone, together, "rules", "impact", folder)
	a.run(exitFailed, []string{"denies 40 of the 120", "--yes=impact"}, "rules", "apply", strict)
	a.run(exitDone, []string{"version 2"}, "rules", "apply", "--yes=impact", strict)
	b.wait("rules reloaded")
	a.run(exitDone, []string{"on the requests of 2 nodes", "admits"}, "rules", "rollback", "--dry-run", "1")

	// Every named server must count.
	for want, other := range map[string]string{
		"no sample of requests from http://127.0.0.1:1": "http://127.0.0.1:1",
		"shares no secret with other nodes":             administer(t, "--rules", strict).url(),
		"keeps no requests":                             administer(t, "--rules", url, "--impact-limit", "off").url(),
	} {
		for _, command := range [][]string{{"impact"}, {"apply", "--dry-run"}} {
			args := append([]string{"rules"}, append(command, "--server", both[1]+","+other, strict)...)
			a.run(exitFailed, []string{want, "leave the address out"}, args...)
		}
	}
	alias := strings.Replace(b.url(), "127.0.0.1", "localhost", 1)
	for _, command := range [][]string{{"impact"}, {"apply", "--dry-run"}} {
		args := append([]string{"rules"}, append(command, "--server", both[1]+","+alias, strict)...)
		a.run(exitUsage, []string{"the sample of " + alias + " is of no use", "whose requests count already"}, args...)
	}
	for _, one := range [][]string{{"history"}, {"diff", strict}} {
		a.run(exitUsage, []string{"has several addresses, and this command needs one"}, append([]string{"rules"}, one...)...)
	}
	a.run(exitUsage, []string{"an address is given twice"}, "rules", "impact", "--server", fmt.Sprint(both[1], ",", both[1]), strict)
	a.run(exitDone, nil, "rules", "apply", "--dry-run", "--source", url, strict) // the servers of STINT_SERVER are not asked
}

func TestTheImpactIsThatOnAllNodesInPostgreSQL(t *testing.T) {
	server, redis := pgtest.Start(t), redistest.Server(t)
	password := writeFile(t, filepath.Join(t.TempDir(), "password"), pgtest.Password)
	all, strict := fleetOf(t, 3, "--rules", server.URL(), "--rules-password-file", password, "--store", "redis://"+redis.Addr())
	for _, one := range all {
		one.traffic(40)
	}
	all[0].run(exitDone, []string{"on the requests of 2 of 3 nodes", "none on the 80 requests"}, append(servers(all[:2]...), "rules", "impact", strict)...)
	all[2].run(exitDone, []string{"on the requests of 3 nodes together", "denies 40 of the 120 requests allowed"}, append(servers(all...), "rules", "impact", strict)...)
	all[0].run(exitFailed, []string{"denies 40 of the 120", "--yes=impact"}, append(servers(all...), "rules", "apply", strict)...)
}

// A person may think about a question for longer than a sample is good for.
func TestAChangeIsPublishedOnNewSamples(t *testing.T) {
	redis := redistest.Server(t)
	all, strict := fleetOf(t, 2, "--rules", "redis://"+redis.Addr())
	behind, err := url.Parse(all[1].url())
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(behind)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		proxy.ServeHTTP(w, r)
	}))
	defer server.Close()
	all[0].run(exitDone, []string{"version 2", "on the requests of 2 nodes"}, "rules", "apply", "--yes", "--server", all[0].url()+","+server.URL, strict)
	if n := asked.Load(); n != 2 {
		t.Errorf("the other server was asked %d times, want once for the trial and once for the change", n)
	}
}

// A server that is frozen is named, with the time that it had.
func TestASilentServerIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clients []*adminclient.Client
		for _, host := range []string{"frozen", "alive"} {
			clients = append(clients, &adminclient.Client{URL: &url.URL{Scheme: "http", Host: host}})
		}
		_, failures := askAll(t.Context(), clients, sampleTime, "sample", func(ctx context.Context, c *adminclient.Client, _ *int) error {
			if c.URL.Host == "alive" {
				return nil
			}
			<-ctx.Done()
			return fmt.Errorf("Get %q: %w", c.URL, ctx.Err())
		})
		if failures[0] == nil || failures[0].Error() != "no sample from http://frozen: no answer within 20s" || failures[1] != nil {
			t.Error(failures)
		}
	})
}

// A server that answers with more than it was asked for does not fill the memory of the command.
func TestTooLargeSamplesAreRefused(t *testing.T) {
	redis := redistest.Server(t)
	all, strict := fleetOf(t, 2, "--rules", "redis://"+redis.Addr())
	for want, size := range map[string]int{"bytes, and 8388608 were asked for": 9 << 20, "no sample of requests": 32 << 20} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"sample":%q}`, strings.Repeat("A", size/3*4))
		}))
		defer server.Close()
		all[0].run(exitFailed, []string{want, server.URL}, "rules", "impact", "--server", all[0].url()+","+server.URL, strict)
	}
}
