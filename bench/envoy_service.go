package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"text/tabwriter"

	ratelimitcommon "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/stintdev/stint/internal/testserver"
)

// The contestants for Envoy's rate limit service over Redis.
const (
	rivalService  = "envoyproxy/ratelimit"
	strictService = "Stint, strict"
	leasedService = "Stint, leased"
)

// serviceLoads are numbers of keys, which the callers divide among them. A node leases only
// keys that it is asked for often.
var serviceLoads = []int{serverKeys, serverCallers}

// serviceSlices is how many slices of other races one slice of this race lasts. Leases
// end 100 ms after they were fetched, and a service with leases must not begin anew in
// most of its slice.
const serviceSlices = 5

// overEnvoyService compares Envoy's own rate limit service with Stint, both over one Redis
// server.
func overEnvoyService(ctx context.Context, o options, out io.Writer, b *bars) (err error) {
	const part = "envoy over Redis"
	if o.lacksRedis(out, part) || o.lacksStint(out, "\n"+part) {
		return nil
	}
	rival, err := testserver.Find("ratelimit")
	if err != nil {
		return err
	}
	redis, version, err := startVersionedRedis(ctx, o.findRedis(), "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, redis.stop()) }()
	var f field
	defer func() { err = errors.Join(err, f.close()) }()
	fmt.Fprintf(out, "\n%s: %s, %s\n", part, version, o.stint)
	services, err := f.startServices(ctx, o, rival, redis)
	if err != nil {
		return err
	}
	if rival == "" {
		fmt.Fprintf(out, "%s: without %s, which is not in .cache/servers (scripts/install-ratelimit)\n", part, rivalService)
	}
	o.slice *= serviceSlices
	for _, keys := range serviceLoads {
		f.surfaces = nil
		for _, s := range services {
			if err := f.addService(ctx, s, newKeyText(keys).list()); err != nil {
				return err
			}
		}
		if err := errors.Join(f.check(), ctx.Err()); err != nil {
			return err
		}
		result := f.race(o)
		result.printServices(out, f.surfaces, keys)
		result.judgeServices(b, keys)
	}
	return nil
}

// service is a process that answers ShouldRateLimit.
type service struct {
	name    string
	process *serverProcess
	redis   *redisServer
}

// startServices starts all contestants.
func (f *field) startServices(ctx context.Context, o options, rival string, redis *redisServer) (all []service, err error) {
	store := []string{"--store", "redis://" + redis.addr() + "/0", "--store-deadline", "10s", "--store-slow", "0"}
	for _, c := range []struct {
		name  string
		start func() (*serverProcess, error)
	}{
		{rivalService, func() (*serverProcess, error) { return startRateLimit(ctx, rival, redis.addr()) }},
		{strictService, func() (*serverProcess, error) { return startStint(ctx, o.stint, store...) }},
		{leasedService, func() (*serverProcess, error) {
			return startStint(ctx, o.stint, append(store, "--envoy-consistency", "leased", "--key-prefix", "leased")...)
		}},
	} {
		if c.name == rivalService && rival == "" {
			continue
		}
		p, err := c.start()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		f.closing(p.stop)
		all = append(all, service{c.name, p, redis})
	}
	return all, nil
}

// startRateLimit starts Envoy's own service, with its default settings, on the
// configuration that Stint reads.
func startRateLimit(ctx context.Context, program, redis string) (*serverProcess, error) {
	dir, err := os.MkdirTemp("", "stint-bench-")
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config")
	err = errors.Join(os.Mkdir(config, 0o700), os.WriteFile(filepath.Join(config, "bench.yaml"), []byte(benchEnvoy), 0o600))
	env := []string{
		"RUNTIME_ROOT=" + dir, "RUNTIME_SUBDIRECTORY=", "RUNTIME_APPDIRECTORY=config", "RUNTIME_WATCH_ROOT=false",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis, "USE_STATSD=false", "LOG_LEVEL=warn",
	}
	var port string
	for _, name := range []string{"", "DEBUG_", "GRPC_"} {
		free, failed := freePort(ctx)
		err = errors.Join(err, failed)
		port = free
		env = append(env, name+"HOST=127.0.0.1", name+"PORT="+port)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &serverProcess{dir: dir, ready: "Listening for HTTP", command: exec.CommandContext(ctx, program)}
	s.command.Env = append(os.Environ(), env...)
	if err := s.start(); err != nil {
		return nil, err
	}
	s.addrs["grpc"] = net.JoinHostPort("127.0.0.1", port)
	return s, nil
}

// addService adds a contestant.
func (f *field) addService(ctx context.Context, s service, keys []string) error {
	conns, err := f.dial(s.process.addrs["grpc"])
	if err != nil {
		return err
	}
	ask, err := askEncoded(ctx, conns, keys)
	if err != nil {
		return err
	}
	f.add(surface{callers: serverCallers, checks: 1, processes: []int{s.process.pid(), s.redis.process.Process.Pid}}, s.name, ask)
	return nil
}

// askEncoded asks as Envoy does. To leave the CPUs to the servers, each caller encodes its
// request once, writes each key into it, and reads only the overall code of an answer. All
// keys are of one length.
func askEncoded(ctx context.Context, conns []*grpc.ClientConn, keys []string) (func(caller int) bool, error) {
	request, err := proto.Marshal(&ratelimitpb.RateLimitRequest{Domain: "bench", Descriptors: []*ratelimitcommon.RateLimitDescriptor{
		{Entries: []*ratelimitcommon.RateLimitDescriptor_Entry{{Key: "user", Value: keys[0]}}},
	}})
	if err != nil {
		return nil, err
	}
	place, requests, walks := bytes.Index(request, []byte(keys[0])), make([][]byte, serverCallers), walks(keys, serverCallers)
	for i := range requests {
		requests[i] = bytes.Clone(request)
	}
	admitted := []byte{1 << 3, byte(ratelimitpb.RateLimitResponse_OK)} // field 1, the overall code
	return func(caller int) bool {
		r := requests[caller]
		copy(r[place:], walks[caller].take(1)[0])
		var answer []byte
		err := conns[caller%len(conns)].Invoke(ctx, ratelimitpb.RateLimitService_ShouldRateLimit_FullMethodName, r, &answer, grpc.ForceCodec(raw{}))
		return err == nil && bytes.HasPrefix(answer, admitted)
	}, nil
}

func (r serverRace) printServices(out io.Writer, who []surface, keys int) {
	what := "requests/s"
	if r.busy {
		what = "requests/s of processor time"
	}
	first := who[0].name
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\nenvoy over Redis, %d callers, %d keys\t\n\t%s\tof %s\tp50\tp99\tCPU of server and Redis a request\tnot admitted\t\n", serverCallers, keys, what, first)
	for _, s := range who {
		a := r.seen[s.name]
		fmt.Fprintf(table, "%s\t%.0f\t%.2f\t%v\t%v\t%.2f µs\t%.2g %%\t\n", s.name, 1e9/r.timings.ns(s.name), r.timings.ratio(first, s.name),
			readable(a.P50), readable(a.P99), r.server.ns(s.name)/1000, 100*float64(a.Refused)/float64(max(a.Calls, 1)))
	}
	table.Flush()
}

// judgeServices adds the bars beside Envoy's own service, if it runs: leases on the keys
// that a node leases, strict limits on all.
func (r serverRace) judgeServices(b *bars, keys int) {
	if len(r.timings[rivalService]) == 0 {
		return
	}
	title := fmt.Sprintf(", %d keys", keys)
	b.judgeLeast(strictService+title, r.timings.ratio(rivalService, strictService), 1.6, "of "+rivalService)
	if keys < serverKeys {
		b.judgeLeast(leasedService+title, r.timings.ratio(rivalService, leasedService), 1.8, "of "+rivalService)
	}
}
