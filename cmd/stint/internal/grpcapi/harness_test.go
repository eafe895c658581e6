package grpcapi

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
	"github.com/stintdev/stint/rule"
)

// patience bounds every wait of the tests.
const patience = 20 * time.Second

// start is the time at which the stores of the tests begin: a whole minute.
const start = int64(1_700_000_040_000_000)

// fixed is a rule set that counts its outcomes.
type fixed struct {
	set     *rule.Set
	counted atomic.Int64
}

func (f *fixed) Of(rule.Attributes) decide.Rules                           { return f }
func (f *fixed) CountError(rule.Attributes)                                {}
func (f *fixed) RuleSet() *rule.Set                                        { return f.set }
func (f *fixed) Read(a rule.Attributes) (rule.Attributes, error)           { return a, nil }
func (f *fixed) Count(rule.Attributes, int64, *rule.Outcome, w3ctrace.Ref) { f.counted.Add(1) }

// running is a service on its own socket, with a client.
type running struct {
	stintv1.LimiterServiceClient

	service *Service
	server  *grpc.Server
	conn    *grpc.ClientConn
	addr    string
	now     atomic.Int64
	rules   fixed
	asked   atomic.Int64 // checks and takes
	taken   atomic.Int64 // decisions on takes
	failed  atomic.Int64
	ended   chan error // the error with which each stream ends
}

func (r *running) time() time.Time { return time.UnixMicro(r.now.Load()) }

// run starts a service with someRules over a memory store with the clock r.now.
func run(t testing.TB, o Options) *running {
	t.Helper()
	return runOver(t, nil, o)
}

// runOver starts a service with someRules over a store; nil is the store of run.
func runOver(t testing.TB, store stint.Store, o Options) *running {
	t.Helper()
	r := &running{ended: make(chan error, 1000)}
	r.now.Store(start)
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(someRules)})
	if err != nil {
		t.Fatal(err)
	}
	r.rules.set = set
	if store == nil {
		store = stint.NewMemory(stint.MemoryOptions{MaxKeys: 100_000, Clock: r.time})
	}
	o.Decider = deciderOver(store, &r.rules, func(d decide.Report) {
		r.asked.Add(int64(d.Checks + d.Takes))
		r.taken.Add(int64(d.Allowed + d.Denied))
	})
	o.Failed = func(error) { r.failed.Add(1) }
	r.service, r.server = New(o), grpc.NewServer(grpc.StreamInterceptor(r.watch))
	r.service.Register(r.server)
	listen(t, r)
	r.conn = dial(t, r.addr)
	r.LimiterServiceClient = stintv1.NewLimiterServiceClient(r.conn)
	return r
}

func deciderOver(store stint.Store, rules decide.Rules, observe func(decide.Report)) *decide.Decider {
	return decide.New(decide.Options{Store: store, Rules: func() decide.Rules { return rules }, Observe: observe})
}

// watch records how a stream ends on the server, before the client knows.
func (r *running) watch(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	err := next(service, stream)
	r.ended <- err
	return err
}

// listen serves r on a free port.
func listen(t testing.TB, r *running) {
	t.Helper()
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = socket.Addr().String()
	go func() { _ = r.server.Serve(socket) }()
	t.Cleanup(r.server.Stop)
}

func dial(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

const someRules = `rules:
  - {id: orders, match: {path: /orders}, by: [api_key], limit: 3, window: 60}
  - {id: both, match: {path: /both}, by: [api_key], limits: [{limit: 2, window: 1s}, {limit: 5, window: 1h}]}
  - {id: watched, mode: shadow, match: {path: /watched}, by: [api_key], limit: 1, window: 60}
blacklist: ["bad_*"]
whitelist: ["good_*"]
`

func perMinute(n int64) *stintv1.Limit {
	return &stintv1.Limit{Limit: n, WindowUs: time.Minute.Microseconds()}
}

// openAndClose opens a stream, sends nothing, and returns how it ends.
func (r *running) openAndClose(ctx context.Context) error {
	stream, err := r.Stream(ctx)
	if err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if _, err = stream.Recv(); errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
