package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"
)

// The race of observability compares a server with the same server whose outputs are all
// switched on. Its slices are longer than a second, so that each has some of what is done
// once a second.
const observedSlice = 1500 * time.Millisecond

// collectorWork is a collector of OpenTelemetry that takes everything.
const collectorWork = "collector"

// observed marks the surfaces of the server with all outputs.
const observed = ", observed"

// overObservability measures what all outputs together cost: metrics scraped each second,
// OTLP metrics each second and traces of one request in a hundred, StatsD, and the decision
// log with one request in a hundred. Both servers count top keys, which no setting switches off.
func overObservability(ctx context.Context, o options, out io.Writer, b *bars) (err error) {
	if o.lacksStint(out, "\nobservability") {
		return nil
	}
	var f field
	defer func() { err = errors.Join(err, f.close()) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	collector, err := startHere(ctx, collectorWork)
	if err != nil {
		return err
	}
	f.closing(collector.stop)
	names, err := f.startObserved(ctx, o, collector.addrs["http"], out)
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	o.slice = max(o.slice, observedSlice)
	result := f.race(o)
	result.printObserved(out, names)
	result.judgeObserved(b, names)
	return nil
}

// judgeObserved adds the bars of time, or of the server's processor time on a busy machine.
func (r serverRace) judgeObserved(b *bars, names []string) {
	of, what := r.timings, "time"
	if r.busy {
		of, what = r.server, "processor time"
	}
	for _, name := range names {
		b.judge(name+observed+", "+what, of.ratio(name+observed, name), 1.05, "of "+name)
	}
}

// startObserved starts both servers, of which one sends to the collector at an address, and
// returns the names of the surfaces without outputs.
func (f *field) startObserved(ctx context.Context, o options, collector string, out io.Writer) (names []string, err error) {
	dir, err := os.MkdirTemp("", "stint-bench-")
	if err != nil {
		return nil, err
	}
	f.closing(func() error { return os.RemoveAll(dir) })
	quiet, err := startStint(ctx, o.stint, "--near-limit", "off", "--hot-key-rate", "0")
	if err != nil {
		return nil, err
	}
	f.closing(quiet.stop)
	datagrams, err := new(net.ListenConfig).ListenPacket(ctx, "udp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f.closing(datagrams.Close)
	go drain(datagrams)
	watched, err := prepareStint(ctx, "", o.stint, benchRules, "--otlp", "http://"+collector, "--statsd", datagrams.LocalAddr().String(),
		"--decision-log", filepath.Join(dir, "decisions.jsonl"))
	if err != nil {
		return nil, err
	}
	watched.command.Env = append(os.Environ(), "OTEL_METRIC_EXPORT_INTERVAL=1000")
	if err := watched.start(); err != nil {
		return nil, err
	}
	f.closing(watched.stop)
	fmt.Fprintf(out, "\nobservability: %s, profiles at http://%s/debug/pprof/ (no output) and http://%s/debug/pprof/ (all outputs)\n", o.stint, quiet.addrs["admin"], watched.addrs["admin"])
	go scrape(ctx, "http://"+watched.addrs["admin"]+"/metrics")
	keys := newKeyText(serverKeys).list()
	if err := f.addSurfaces(ctx, quiet, keys); err != nil {
		return nil, err
	}
	for i := range f.surfaces {
		names = append(names, f.surfaces[i].name)
	}
	if err := f.addSurfaces(ctx, watched, keys); err != nil {
		return nil, err
	}
	for i := range names {
		f.surfaces[len(names)+i].name += observed
	}
	return names, nil
}

// addSurfaces adds one of each kind of surface of a server.
func (f *field) addSurfaces(ctx context.Context, s *serverProcess, keys []string) error {
	conns, err := f.dial(s.addrs["grpc"])
	if err != nil {
		return err
	}
	one := surface{callers: serverCallers, checks: 1, processes: []int{s.pid()}}
	f.add(one, envoyName, askEnvoy(ctx, conns, keys))
	f.add(one, unaryName, askTake(ctx, conns, keys))
	f.add(one, takeBatchName, askTakeBatch(ctx, conns, keys)).checks = batchChecks
	f.addHTTP(ctx, s, keys)
	return f.addThrottles(ctx, s, keys)
}

// scrape reads metrics each second, as Prometheus does.
func scrape(ctx context.Context, url string) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			continue
		}
		if response, err := http.DefaultClient.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
	}
}

// drain reads datagrams until the socket is closed.
func drain(socket net.PacketConn) {
	for packet := make([]byte, 64<<10); ; {
		if _, _, err := socket.ReadFrom(packet); err != nil {
			return
		}
	}
}

// newCollector accepts OTLP over HTTP: an empty answer is a message without rejections.
func newCollector() *http.Server {
	return &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-protobuf")
	})}
}

func (r serverRace) printObserved(out io.Writer, names []string) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\nobservability, %d callers\t\n\tserver CPU a check\twith all outputs\tratio\tof time\tp99\twith all outputs\t\n", serverCallers)
	for _, name := range names {
		fmt.Fprintf(table, "%s\t%.2f µs\t%.2f µs\t%.3f\t%.3f\t%v\t%v\t\n", name, r.server.ns(name)/1000, r.server.ns(name+observed)/1000,
			r.server.ratio(name+observed, name), r.timings.ratio(name+observed, name), readable(r.seen[name].P99), readable(r.seen[name+observed].P99))
	}
	table.Flush()
}
