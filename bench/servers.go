package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"
)

// The load on a server: a number of callers on a number of connections. Each caller waits
// for an answer before it asks again.
const (
	serverCallers     = 64
	serverConnections = 8
	serverKeys        = 100_000
	batchChecks       = 100 // checks in a call of the native protocol
	pipelineDepth     = 64  // commands of the Redis protocol in flight
	cpus              = 2   // shared by the load and the server
)

// surface is one way to ask one server.
type surface struct {
	name      string
	processes []int // the process ids of the server and of the servers behind it
	callers   int
	checks    int // checks in one call
	// ask makes one call on behalf of a caller. It reports whether everything was
	// admitted.
	ask func(caller int) bool
}

// The names of surfaces in results.
const (
	emptyName     = "an empty grpc-go server"
	envoyName     = "ShouldRateLimit"
	unaryName     = "native Take"
	takeBatchName = "native TakeBatch of 100"
	streamName    = "native Stream"
	throttleName  = "CL.THROTTLE"
	pipelineName  = "CL.THROTTLE, 64 in a pipeline"
	pingName      = "a Redis server's PING"
	checkName     = "POST /v1/check"
)

// overServers compares the protocols of Stint, each with a measure: a gRPC server that
// does nothing, and a Redis server.
func overServers(ctx context.Context, o options, out io.Writer, b *bars) (err error) {
	if o.lacksStint(out, "\nserver") {
		return nil
	}
	var f field
	defer func() { err = errors.Join(err, f.close()) }()
	if err := f.start(ctx, o, out); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	result := f.race(o)
	result.print(out, f.surfaces)
	result.judge(b)
	return nil
}

// field holds all surfaces of a race of servers, and what must be closed after it.
type field struct {
	surfaces []surface
	closers  []func() error
}

func (f *field) closing(c func() error) { f.closers = append(f.closers, c) }

// close closes in reverse order: connections before their servers.
func (f *field) close() (err error) {
	for len(f.closers) > 0 {
		last := len(f.closers) - 1
		err = errors.Join(err, f.closers[last]())
		f.closers = f.closers[:last]
	}
	return err
}

// start starts the servers and connects to them.
func (f *field) start(ctx context.Context, o options, out io.Writer) error {
	keys := newKeyText(serverKeys).list()
	empty, err := startHere(ctx, emptyWork)
	if err != nil {
		return err
	}
	f.closing(empty.stop)
	ours, err := startStint(ctx, o.stint)
	if err != nil {
		return err
	}
	f.closing(ours.stop)
	fmt.Fprintf(out, "\nserver: %s, its profiles at http://%s/debug/pprof/\n", o.stint, ours.addrs["admin"])
	if err := f.addGRPC(ctx, empty, ours, keys); err != nil {
		return err
	}
	if err := f.addRESP(ctx, o, ours, keys, out); err != nil {
		return err
	}
	f.addHTTP(ctx, ours, keys)
	return nil
}

// check makes one call to each surface.
func (f *field) check() error {
	for _, s := range f.surfaces {
		if !s.ask(0) {
			return fmt.Errorf("%s: the first call was not admitted, or failed", s.name)
		}
	}
	return nil
}

// serverRace is the result of a race of servers.
type serverRace struct {
	timings timings // timings of a check
	server  timings // the server's processor time, of a check
	seen    map[string]*answers
	busy    bool
}

func (f *field) race(o options) serverRace {
	result := serverRace{server: timings{}, seen: map[string]*answers{}, busy: o.busy}
	var runners []runner
	for _, s := range f.surfaces {
		result.seen[s.name] = newAnswers(s.callers, 1)
		runners = append(runners, result.runner(s))
	}
	result.timings = o.race(cpus).interleave(runners)
	return result
}

// runner makes calls to a surface, and measures the processor time of its server.
func (r serverRace) runner(s surface) runner {
	seen, used := r.seen[s.name], time.Duration(0)
	takes := make([]take, s.callers)
	for caller := range takes {
		takes[caller] = func(string) bool { return s.ask(caller) }
	}
	return runner{
		name: s.name, callers: s.callers, clock: r.clock(s.processes, &used),
		block: func(caller int) int {
			seen.ask(caller, takes[caller], "")
			return s.checks
		},
		after: func(counts bool) {
			if checks := s.checks * seen.calls(); counts && checks > 0 {
				r.server[s.name] = append(r.server[s.name], float64(used)/float64(checks))
			}
			seen.close(counts)
		},
	}
}

// clock returns the clock of the race, which also records the processor time of the
// servers.
func (r serverRace) clock(processes []int, used *time.Duration) clock {
	measure := wallClock
	if r.busy {
		measure = sharedClock(processes, cpus)
	}
	return func() func() time.Duration {
		start, elapsed := threadsTime(processes), measure()
		return func() time.Duration {
			took := elapsed()
			*used = threadsTime(processes) - start
			return took
		}
	}
}

func (r serverRace) print(out io.Writer, who []surface) {
	what := "checks/s"
	if r.busy {
		what = "checks/s of processor time"
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\nservers, %d callers\t\n\t%s\tof %s\tserver CPU a check\tp50\tp99\tp99.9\tnot admitted\t\n", serverCallers, what, emptyName)
	for _, s := range who {
		a := r.seen[s.name]
		fmt.Fprintf(table, "%s\t%.0f\t%.2f\t%.2f µs\t%v\t%v\t%v\t%.2g %%\t\n", s.name, 1e9/r.timings.ns(s.name), r.timings.ratio(emptyName, s.name), r.server.ns(s.name)/1000,
			readable(a.P50), readable(a.P99), readable(a.P999), 100*float64(a.Refused)/float64(max(a.Calls, 1)))
	}
	table.Flush()
}

// quantiles returns one quantile of every surface in each round.
func (r serverRace) quantiles(of func(*answers) []float64) timings {
	t := timings{}
	for name, a := range r.seen {
		t[name] = of(a)
	}
	return t
}

// judge adds the bars of the race.
func (r serverRace) judge(b *bars) {
	tails := r.quantiles(func(a *answers) []float64 { return a.P99 })
	b.judgeLeast(envoyName, r.timings.ratio(emptyName, envoyName), 0.85, "of "+emptyName)
	b.judge(envoyName+", p99", tails.ratio(envoyName, emptyName), 1.25, "of "+emptyName)
	r.judgeChecks(b, takeBatchName)
	b.judgeLeast(streamName, r.timings.ratio(unaryName, streamName), 2.5, "of "+unaryName)
	r.judgeChecks(b, pipelineName)
	if len(r.timings[pingName]) > 0 {
		b.judgeLeast(throttleName, r.timings.ratio(pingName, throttleName), 0.85, "of "+pingName)
	}
}

// judgeChecks adds the bar of 1,200,000 checks a second. The bar holds for a machine on
// which the empty server answers 59,900 calls a second. A busy machine is slower, by
// processor time too, so there the ratio to the empty server counts.
func (r serverRace) judgeChecks(b *bars, name string) {
	const promised, emptyCalls = 1_200_000, 59_900
	if r.busy {
		b.judgeLeast(name, r.timings.ratio(emptyName, name), promised/float64(emptyCalls), "times "+emptyName)
		return
	}
	b.judgeLeast(name, 1e9/r.timings.ns(name), promised, "checks/s")
}

// addHTTP adds the check API, with the client of the standard library.
func (f *field) addHTTP(ctx context.Context, ours *serverProcess, keys []string) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: serverCallers}}
	f.closing(func() error { client.CloseIdleConnections(); return nil })
	url, walks := "http://"+ours.addrs["http"]+"/v1/check", walks(keys, serverCallers)
	f.add(surface{callers: serverCallers, checks: 1, processes: []int{ours.pid()}}, checkName, func(caller int) bool {
		answer, err := post(ctx, client, url, fmt.Sprintf(`{"attributes":{"api_key":%q,"method":"GET","path":"/v1/orders"}}`, walks[caller].take(1)[0]))
		return err == nil && bytes.Contains(answer, []byte(`"allowed":true`)) && bytes.Contains(answer, []byte(`"rule":"race"`))
	})
}

func post(ctx context.Context, client *http.Client, url, body string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}
