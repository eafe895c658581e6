package main

import (
	"bufio"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ratelimitcommon "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// listen serves on a free port until the test ends.
func listen(t *testing.T, serve func(net.Listener) error, stop func()) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- serve(l) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// stintProgram builds the program of this tree and returns its path.
func stintProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "stint")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/stint")
	build.Dir = ".." // the program's module
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// stintServer runs the program of this tree until the test ends.
func stintServer(t *testing.T, more ...string) *serverProcess {
	t.Helper()
	s, err := startStint(t.Context(), stintProgram(t), more...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.stop() })
	return s
}

// newTestField returns a field that closes its connections before its servers.
func newTestField(t *testing.T) *field {
	t.Helper()
	f := &field{}
	t.Cleanup(func() {
		if err := f.close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestEmptyServerAnswersAtLengthAndIsCounted(t *testing.T) {
	s := newEmptyServer()
	addr := listen(t, s.Serve, s.Stop)
	f := newTestField(t)
	conns, err := f.dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	f.add(surface{callers: 3, checks: 1}, emptyName, askEnvoy(t.Context(), conns, newKeyText(1000).list()))
	if err := f.check(); err != nil {
		t.Fatal(err)
	}
	result := f.race(options{rounds: 2, slice: time.Millisecond})
	var out strings.Builder
	result.print(&out, f.surfaces)
	if a := result.seen[emptyName]; a.Calls == 0 || a.Refused > 0 || len(a.P99) != 2 || !strings.Contains(out.String(), emptyName) {
		t.Errorf("%+v in\n%s", a, out.String())
	}

	client := ratelimitpb.NewRateLimitServiceClient(conns[0])
	empty, err := client.ShouldRateLimit(t.Context(), envoyRequest())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := proto.Size(empty), proto.Size(askEnvoyService(t)); got < want-1 || got > want+1 {
		t.Errorf("the empty server answers by %d bytes, Stint by %d", got, want)
	}
}

func envoyRequest() *ratelimitpb.RateLimitRequest {
	return &ratelimitpb.RateLimitRequest{Domain: "bench", Descriptors: []*ratelimitcommon.RateLimitDescriptor{
		{Entries: []*ratelimitcommon.RateLimitDescriptor_Entry{{Key: "user", Value: "a"}}},
	}}
}

// askEnvoyService returns the answer of Stint's own service, with the reset time of the
// middle of a window.
func askEnvoyService(t *testing.T) *ratelimitpb.RateLimitResponse {
	t.Helper()
	conns, err := newTestField(t).dial(stintServer(t).addrs["grpc"])
	if err != nil {
		t.Fatal(err)
	}
	answer, err := ratelimitpb.NewRateLimitServiceClient(conns[0]).ShouldRateLimit(t.Context(), envoyRequest())
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.GetStatuses()) != 1 || answer.GetStatuses()[0].GetDurationUntilReset() == nil {
		t.Fatalf("%v: want one status with the time of its reset", answer)
	}
	answer.GetStatuses()[0].DurationUntilReset.Seconds = 1800
	return answer
}

func TestNativeProtocolIsAskedByCallBatchAndStream(t *testing.T) {
	f := newTestField(t)
	conns, err := f.dial(stintServer(t).addrs["grpc"])
	if err != nil {
		t.Fatal(err)
	}
	streams, err := openStreams(t.Context(), conns)
	if err != nil {
		t.Fatal(err)
	}
	keys := newKeyText(2 * serverCallers * batchChecks).list()
	one := surface{callers: serverCallers, checks: 1}
	f.add(one, unaryName, askTake(t.Context(), conns, keys))
	f.add(one, takeBatchName, askTakeBatch(t.Context(), conns, keys))
	f.add(one, streamName, askStream(streams, keys))
	result := f.race(options{rounds: 1, slice: time.Millisecond})
	for name, a := range result.seen {
		if a.Calls == 0 || a.Refused > 0 {
			t.Errorf("%s: %d calls, %d of them not admitted", name, a.Calls, a.Refused)
		}
	}
}

func TestRedisProtocolIsAskedAsItIsAnswered(t *testing.T) {
	addr := stintServer(t).addrs["resp"]
	f := newTestField(t)
	keys := newKeyText(256).list()
	for name, c := range map[string]func(int) respCaller{
		throttleName: func(int) respCaller { return throttles(keys, 1) },
		pipelineName: func(int) respCaller { return throttles(keys, pipelineDepth) },
		pingName:     pings,
	} {
		if err := f.addRESPCallers(t.Context(), surface{name: name, callers: 2, checks: 1}, addr, c); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 { // all requests, and then the first again
		if err := f.check(); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(int) respCaller {
		c := throttles(keys, 1)
		c.requests = [][]byte{appendThrottle(nil, "k", allowance{1, time.Hour})}
		return c
	}
	if err := f.addRESPCallers(t.Context(), surface{name: "refused", callers: 1, checks: 1}, addr, refused); err != nil {
		t.Fatal(err)
	}
	ask := f.surfaces[len(f.surfaces)-1].ask
	if first, second := ask(0), ask(0); !first || second {
		t.Errorf("one an hour: %v, %v; want the second to count as not admitted", first, second)
	}
}

func TestServerSaysWhereItListens(t *testing.T) {
	s := serverProcess{command: exec.CommandContext(t.Context(), "server")}
	log := "time=1 level=INFO msg=listening name=grpc addr=127.0.0.1:1\nmsg=listening name=http addr=127.0.0.1:2\nmsg=ready\n"
	if err := s.listen(bufio.NewScanner(strings.NewReader(log))); err != nil || s.addrs["grpc"] != "127.0.0.1:1" || s.addrs["http"] != "127.0.0.1:2" {
		t.Errorf("%v, %v", s.addrs, err)
	}
	if err := s.listen(bufio.NewScanner(strings.NewReader("a mistake\n"))); err == nil || !strings.Contains(err.Error(), "a mistake") {
		t.Errorf("a server that ended: %v", err)
	}
}

func TestServersAreSkippedWithoutTheProgram(t *testing.T) {
	var out strings.Builder
	var b bars
	if err := overServers(t.Context(), options{stint: "nowhere"}, &out, &b); err != nil || len(b) > 0 || !strings.Contains(out.String(), "skipped") {
		t.Errorf("%v, %v, %s", err, b, out.String())
	}
}
