package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"text/tabwriter"
	"time"

	"github.com/stintdev/stint/internal/testserver"
)

// overEnvoy compares ways to limit requests in Envoy with no limit.
func overEnvoy(ctx context.Context, o options, out io.Writer, _ *bars) (err error) {
	program, err := testserver.Find("envoy")
	if err != nil {
		return err
	}
	if program == "" {
		fmt.Fprintln(out, "\nenvoy: skipped, envoy is not in .cache/servers (scripts/install-wheels)")
		return nil
	}
	if o.lacksStint(out, "\nenvoy") {
		return nil
	}
	version, err := envoyVersion(ctx, program)
	if err != nil {
		return err
	}
	var f field
	defer func() { err = errors.Join(err, f.close()) }()
	if err := f.startEnvoys(ctx, o, program); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nenvoy: Envoy %s with one worker, %s\n", version, o.stint)
	if err := f.check(); err != nil {
		return err
	}
	f.race(o).printEnvoy(out, f.surfaces)
	return nil
}

// envoyVersionText matches the output of envoy --version: a revision, the version, and
// build information.
var envoyVersionText = regexp.MustCompile(`version: [^/]*/([^/]+)/`)

func envoyVersion(ctx context.Context, program string) (string, error) {
	said, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("version of %s: %w", program, err)
	}
	found := envoyVersionText.FindSubmatch(said)
	if found == nil {
		return "", fmt.Errorf("version of %s: %q has none", program, said)
	}
	return string(found[1]), nil
}

// startEnvoys starts an application, Stint, and one Envoy for each way to limit.
func (f *field) startEnvoys(ctx context.Context, o options, program string) error {
	application, err := startHere(ctx, applicationWork)
	if err != nil {
		return err
	}
	f.closing(application.stop)
	ours, err := startStint(ctx, o.stint)
	if err != nil {
		return err
	}
	f.closing(ours.stop)
	at := envoyTargets{
		application: application.addrs["http"], stint: ours.addrs["grpc"],
		processes: []int{application.pid(), ours.pid()},
	}
	return f.addEnvoys(ctx, program, at)
}

// addEnvoys adds all ways to limit.
func (f *field) addEnvoys(ctx context.Context, program string, at envoyTargets) error {
	keys := newKeyText(serverKeys).list()
	for _, l := range envoyLimits() {
		if err := f.addEnvoy(ctx, program, l, at, keys); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return nil
}

// addEnvoy starts an Envoy that limits in one way, and connects the callers.
func (f *field) addEnvoy(ctx context.Context, program string, l envoyLimit, at envoyTargets, keys []string) error {
	envoy, err := startEnvoy(ctx, program, l, at)
	if err != nil {
		return err
	}
	f.closing(envoy.stop)
	callers, walks := make([]*httpCaller, serverCallers), walks(keys, serverCallers)
	for caller := range callers {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", envoy.addrs["http"])
		if err != nil {
			return err
		}
		f.closing(conn.Close)
		callers[caller] = &httpCaller{conn: conn, reader: bufio.NewReader(conn), keys: &walks[caller], limited: l.filter != nil}
	}
	s := surface{callers: serverCallers, checks: 1, processes: append([]int{envoy.pid()}, at.processes...)}
	f.add(s, l.name, func(caller int) bool { return callers[caller].ask() })
	return nil
}

// httpCaller is an HTTP client with its own connection. It is cheaper than the client of
// the standard library, so that more of the machine is left to the servers.
type httpCaller struct {
	conn    net.Conn
	reader  *bufio.Reader
	keys    *walk
	limited bool // responses must have the headers of a limit
	request []byte
}

// ask reports whether the application answered and, if there is a limit, Stint allowed
// the request. Envoy lets requests pass while Stint cannot be reached. Their responses
// lack the headers of a limit, so they count as not decided.
func (c *httpCaller) ask() bool {
	key := c.keys.take(1)[0]
	c.request = fmt.Appendf(c.request[:0], "GET /v1/orders HTTP/1.1\r\nhost: shop.example\r\nx-user: %s\r\nx-api-key: %s\r\n\r\n", key, key)
	if c.conn.SetDeadline(time.Now().Add(respPatience)) != nil {
		return false
	}
	if _, err := c.conn.Write(c.request); err != nil {
		return false
	}
	answer, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err == nil && answer.StatusCode == http.StatusOK && (answer.Header.Get("X-Ratelimit-Limit") != "") == c.limited
}

// printEnvoy prints each way to limit beside the first one, which is no limit.
func (r serverRace) printEnvoy(out io.Writer, who []surface) {
	what := "requests/s"
	if r.busy {
		what = "requests/s of processor time"
	}
	none := who[0].name
	p50 := r.quantiles(func(a *answers) []float64 { return a.P50 })
	p99 := r.quantiles(func(a *answers) []float64 { return a.P99 })
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\nenvoy, %d callers\t\n\t%s\tof %s\tp50\tof %s\tp99\tof %s\tservers' CPU a request\tnot decided\t\n", serverCallers, what, none, none, none)
	for _, s := range who {
		a := r.seen[s.name]
		fmt.Fprintf(table, "%s\t%.0f\t%.2f\t%v\t%.2f\t%v\t%.2f\t%.2f µs\t%.2g %%\t\n", s.name, 1e9/r.timings.ns(s.name), r.timings.ratio(none, s.name),
			readable(a.P50), p50.ratio(s.name, none), readable(a.P99), p99.ratio(s.name, none),
			r.server.ns(s.name)/1000, 100*float64(a.Refused)/float64(max(a.Calls, 1)))
	}
	table.Flush()
}
