package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"
)

// How the servers are asked: so many callers, each of whom waits for an
// answer before it asks again, on so many connections.
const (
	serverCallers     = 64
	serverConnections = 8
	serverKeys        = 100_000
	batchChecks       = 100 // in a call of the native protocol
	pipelineDepth     = 64  // commands of the Redis protocol in flight
	cpus              = 2   // that the load and the server are measured on
)

// surface is one way to ask one server.
type surface struct {
	name      string
	processes []int // of the server, and of those behind it
	callers   int
	checks    int // that one call is
	// ask is one call on behalf of a caller; it reports whether all was
	// admitted.
	ask func(caller int) bool
}

// The names that results are read by.
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

// overServers races the protocols that Stint answers, each beside what it can
// be measured by: one process of Stint, one that answers gRPC with nothing
// behind it, and a Redis server.
func overServers(o options, out io.Writer, b *bars) (err error) {
	if _, err := os.Stat(o.stint); err != nil {
		fmt.Fprintf(out, "\nserver: skipped, there is no %s (make build)\n", o.stint)
		return nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
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
	return ctx.Err()
}

// field is everyone in the race of servers, and what ends with it.
type field struct {
	surfaces []surface
	closers  []func() error
}

func (f *field) closing(c func() error) { f.closers = append(f.closers, c) }

// close ends the last first: connections before their servers.
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

// check asks everyone once.
func (f *field) check() error {
	for _, s := range f.surfaces {
		if !s.ask(0) {
			return fmt.Errorf("%s: the first call was not admitted, or failed", s.name)
		}
	}
	return nil
}

// serverRace is what came of the race.
type serverRace struct {
	timings timings // of a check
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

// runner asks by a surface, and weighs what its server does.
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

// clock is that of the race; it keeps, too, what the servers used meanwhile.
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

// quantiles is one quantile of everyone in each round.
func (r serverRace) quantiles(of func(*answers) []float64) timings {
	t := timings{}
	for name, a := range r.seen {
		t[name] = of(a)
	}
	return t
}

// judge compares the race with what was promised of it.
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

// judgeChecks wants 1,200,000 checks a second, which was promised of a machine
// on which the empty server answers 59,900 calls. A machine that is busy is
// slower than that by processor time, too, so that there the ratio counts.
func (r serverRace) judgeChecks(b *bars, name string) {
	const promised, emptyCalls = 1_200_000, 59_900
	if r.busy {
		b.judgeLeast(name, r.timings.ratio(emptyName, name), promised/float64(emptyCalls), "times "+emptyName)
		return
	}
	b.judgeLeast(name, 1e9/r.timings.ns(name), promised, "checks/s")
}
