package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// gatewayConnections is the number of connections of the load; each waits for an answer
// before it sends again.
const gatewayConnections = 64

// The names of contestants in results.
const (
	upstreamName     = "the upstream alone"
	nginxName        = "nginx, limit_req"
	haproxyName      = "HAProxy, stick table"
	caddyName        = "Caddy, no limit"
	stintGatewayName = "Stint, a rule by ip"
)

// gatewayPrograms are the programs that the part needs beside Stint.
var gatewayPrograms = []string{"wrk", "nginx", "haproxy", "caddy"}

// overGateway compares Stint's gateway with reverse proxies. The limits are so generous
// that every request is allowed. There are two races: with a CPU for the gateway alone, and
// with all processes on the same CPUs, as a small machine runs them.
func overGateway(ctx context.Context, o options, out io.Writer, b *bars) error {
	if o.lacksGateways(out) || o.lacksStint(out, "\ngateway") {
		return nil
	}
	if pins := newPinning(); pins != (pinning{}) {
		if err := raceGateways(ctx, o, pins, out, b); err != nil {
			return err
		}
	}
	return raceGateways(ctx, o, pinning{}, out, b)
}

func raceGateways(ctx context.Context, o options, pins pinning, out io.Writer, b *bars) (err error) {
	dir, err := os.MkdirTemp("", "stint-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	g := gatewayRace{o: o, pins: pins, dir: dir, seen: map[string]*gatewayFigures{}, took: timings{}, cpu: timings{}}
	defer func() { err = errors.Join(err, g.close()) }()
	if err := g.start(ctx); err != nil {
		return err
	}
	where := "the load, the upstream and the gateway share all CPUs"
	if pins != (pinning{}) {
		where = "the load and the upstream count as the client: " + pins.String()
	}
	fmt.Fprintf(out, "\ngateway: %s; %s\n", o.stint, where)
	if err := g.run(ctx); err != nil {
		return err
	}
	g.print(out)
	g.judge(b)
	return nil
}

// lacksGateways reports whether a program is missing, and says that the part is skipped.
func (o options) lacksGateways(out io.Writer) bool {
	var missing []string
	for _, name := range gatewayPrograms {
		if findSystem(name) == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(out, "\ngateway: skipped, not installed: %s (scripts/install-test-servers)\n", strings.Join(missing, ", "))
	}
	return len(missing) > 0
}

// gatewayRace is a race of gateways, with its result.
type gatewayRace struct {
	field

	o    options
	pins pinning
	dir  string // the folder of all files
	at   []gatewayServer
	took timings // time of a request
	cpu  timings // the gateway's processor time, of a request
	seen map[string]*gatewayFigures
}

// gatewayServer is a server under load.
type gatewayServer struct {
	name, addr string
	pid        int
}

// gatewayFigures are the figures of the runs that count, a quantile for each run.
type gatewayFigures struct {
	p50, p99         []float64 // nanoseconds
	requests, failed int
}

// wrkScript makes wrk print figures that are read by a program.
//
//go:embed wrk.lua
var wrkScript []byte

// run checks every server and races them.
func (g *gatewayRace) run(ctx context.Context) error {
	script := filepath.Join(g.dir, "wrk.lua")
	if err := os.WriteFile(script, wrkScript, 0o600); err != nil {
		return err
	}
	var failed error
	var runners []runner
	for _, s := range g.at {
		if err := s.check(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		g.seen[s.name] = &gatewayFigures{}
		runners = append(runners, g.runner(s, func() (run wrkRun) {
			if failed != nil {
				return run
			}
			if run, failed = g.load(ctx, script, s.addr); failed != nil {
				failed = fmt.Errorf("%s: %w", s.name, failed)
			}
			return run
		}))
	}
	g.took = g.o.race(cpus).interleave(runners)
	return failed
}

// check makes one request, whose answer must be that of the upstream.
func (s gatewayServer) check(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+gatewayPath, http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || string(body) != gatewayAnswer) {
		err = fmt.Errorf("the first answer is %s %q", res.Status, body)
	}
	return err
}

// wrkRun is what one run of wrk reports.
type wrkRun struct {
	requests, failed int
	took, p50, p99   time.Duration
}

// runner runs the load on a server for a slice.
func (g *gatewayRace) runner(s gatewayServer, load func() wrkRun) runner {
	var run wrkRun
	var used time.Duration
	return runner{
		name: s.name, callers: 1,
		block: func(int) int {
			run = load()
			return run.requests
		},
		clock: func() func() time.Duration {
			start := threadsTime([]int{s.pid})
			return func() time.Duration {
				used = threadsTime([]int{s.pid}) - start
				if g.o.busy {
					return used
				}
				return run.took
			}
		},
		after: func(counts bool) {
			if counts && run.requests > 0 {
				g.cpu[s.name] = append(g.cpu[s.name], float64(used)/float64(run.requests))
				g.seen[s.name].add(run)
			}
		},
	}
}

func (f *gatewayFigures) add(run wrkRun) {
	f.p50 = append(f.p50, float64(run.p50))
	f.p99 = append(f.p99, float64(run.p99))
	f.requests += run.requests
	f.failed += run.failed
}

// load runs wrk for one slice, which it measures in whole seconds.
func (g *gatewayRace) load(ctx context.Context, script, addr string) (run wrkRun, err error) {
	seconds := max(1, int(g.o.slice.Round(time.Second)/time.Second))
	said, err := command(ctx, g.pins.client, "wrk", "-t", "1", "-c", strconv.Itoa(gatewayConnections), "-d", strconv.Itoa(seconds)+"s",
		"-s", script, "http://"+addr+gatewayPath).CombinedOutput()
	if err != nil {
		return run, fmt.Errorf("wrk: %w: %s", err, bytes.TrimSpace(said))
	}
	return readWrk(string(said))
}

// readWrk reads the line that the script of wrk prints.
func readWrk(said string) (run wrkRun, err error) {
	var took, p50, p99 int64
	_, line, _ := strings.Cut(said, "measured ")
	if _, err := fmt.Sscan(line, &run.requests, &took, &p50, &p99, &run.failed); err != nil || run.requests == 0 {
		return run, fmt.Errorf("wrk printed no result: %q", said)
	}
	run.took, run.p50, run.p99 = time.Duration(took)*time.Microsecond, time.Duration(p50)*time.Microsecond, time.Duration(p99)*time.Microsecond
	return run, nil
}

func (g *gatewayRace) print(out io.Writer) {
	what := "requests/s"
	if g.o.busy {
		what = "requests/s of processor time"
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\ngateways, %d connections\t\n\t%s\tof nginx\tCPU a request\tp50\tp99\tof nginx\tfailed\t\n", gatewayConnections, what)
	tails := g.tails()
	for _, s := range g.at {
		f := g.seen[s.name]
		fmt.Fprintf(table, "%s\t%.0f\t%.2f\t%.2f µs\t%v\t%v\t%.2f\t%d\t\n", s.name, 1e9/g.took.ns(s.name), g.took.ratio(nginxName, s.name),
			g.cpu.ns(s.name)/1000, readable(f.p50), readable(f.p99), tails.ratio(s.name, nginxName), f.failed)
	}
	table.Flush()
}

// tails returns the p99 of every server in each round.
func (g *gatewayRace) tails() timings {
	t := timings{}
	for name, f := range g.seen {
		t[name] = f.p99
	}
	return t
}

// judge adds the bars of the race.
func (g *gatewayRace) judge(b *bars) {
	title := "gateway, shared CPUs"
	if g.pins != (pinning{}) {
		title = "gateway, its own CPU"
	}
	b.judgeLeast(title, g.took.ratio(caddyName, stintGatewayName), 1.3, "of "+caddyName)
	b.judgeLeast(title, g.took.ratio(nginxName, stintGatewayName), 0.5, "of "+nginxName)
	b.judge(title+", p99", g.tails().ratio(stintGatewayName, nginxName), 2, "of "+nginxName)
	failed := 0
	for _, f := range g.seen {
		failed += f.failed
	}
	b.judge(title+", answers that are not 200", float64(failed), 0, "of all gateways")
}
