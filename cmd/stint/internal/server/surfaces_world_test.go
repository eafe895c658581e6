package server

import (
	"net"
	"net/http"
	"strconv"
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/remotestore"
)

// world is one server on all its listeners, and the clients of its surfaces.
type world struct {
	*running

	alone    *stint.Memory // the store of the library
	own      *stint.Memory // the store of the middleware
	resp     net.Conn
	envoy    ratelimitpb.RateLimitServiceClient
	native   stintv1.LimiterServiceClient
	stream   stintv1.LimiterService_StreamClient
	remote   *remotestore.Store
	handlers []http.Handler // behind the middleware, one for each shape
	ruled    http.Handler   // behind a decider by the rules, in a program
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s := run(t, Config{
		Rules: rulesFile(t, rulesOfShapes()), EnvoyConfig: envoyOfShapes(t),
		GRPC: "127.0.0.1:0", RESP: "127.0.0.1:0", Gateway: "127.0.0.1:0", Upstreams: echo(t),
	})
	memory := func() *stint.Memory {
		return stint.NewMemory(stint.MemoryOptions{MaxKeys: 10_000, Clock: s.clock.time})
	}
	w := &world{running: s, alone: memory(), own: memory(), resp: dial(t, s.Addr("resp"))}
	conn := dialGRPC(t, s)
	w.envoy, w.native = ratelimitpb.NewRateLimitServiceClient(conn), stintv1.NewLimiterServiceClient(conn)
	var err error
	if w.stream, err = w.native.Stream(patient(t)); err != nil {
		t.Fatal(err)
	}
	if w.remote, err = remotestore.New(remotestore.Options{Addr: s.Addr("grpc").String(), Timeout: patience}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.remote.Close() })
	for _, s := range shapes() {
		w.handlers = append(w.handlers, w.middleware(t, s.compiled(t)))
	}
	m, err := inProgram(t, rulesOfShapes(), s.clock).Middleware(httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.ruled = m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return w
}

func (w *world) middleware(t *testing.T, limits []stint.Limit) http.Handler {
	m, err := httplimit.Limit(newLimiter(t, w.own, limits), httplimit.Options{
		By:   []string{"api_key"},
		Cost: func(r *httplimit.Request) int64 { n, _ := strconv.ParseInt(r.Header.Get("X-Cost"), 10, 64); return n },
	})
	if err != nil {
		t.Fatal(err)
	}
	return m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

func newLimiter(t *testing.T, store stint.Store, limits []stint.Limit) *stint.Limiter {
	t.Helper()
	limiter, err := stint.NewLimiter(store, "surfaces", limits...)
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

func surfaces() []asker {
	says := func(text func(*shape) string) func(*shape) bool { return func(s *shape) bool { return text(s) != "" } }
	inEnvoy, inRedis := says(func(s *shape) string { return s.envoy }), says(func(s *shape) string { return s.throttle })
	return []asker{
		{name: "check", ask: askCheck},
		{name: "take", ask: askTake, back: true, late: true},
		{name: "peek and give back", ask: askByName, back: true, late: true},
		{name: "peek of the rules", ask: askPeekOfRules},
		{name: "batch of checks", ask: askCheckInBatch},
		{name: "batch of takes", ask: askTakeInBatch, back: true, late: true},
		{name: "forward auth", ask: askAuth},
		{name: "gateway", ask: askGateway},
		{name: "middleware", ask: askMiddleware},
		{name: "rules in a program", ask: askRulesInProgram},
		{name: "Envoy by JSON", ask: askEnvoyJSON, can: inEnvoy, back: true},
		{name: "Envoy by gRPC", ask: askEnvoy, can: inEnvoy, back: true},
		{name: "RESP", ask: askRedis, can: inRedis, back: true},
		{name: "native check", ask: askNativeCheck},
		{name: "native take", ask: askNativeTake, back: true, late: true},
		{name: "native peek and give back", ask: askNativeByName, back: true, late: true},
		{name: "native batch of checks", ask: askNativeChecks},
		{name: "native batch of takes", ask: askNativeTakes, back: true, late: true},
		{name: "native stream of checks", ask: askCheckInStream},
		{name: "native stream of takes", ask: askTakeInStream, back: true, late: true},
		{name: "remote store", ask: askRemote, back: true, late: true},
	}
}
