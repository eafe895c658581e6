//go:build linux

package proxytest

import (
	"bufio"
	"maps"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stintdev/stint/cmd/stint/internal/processtest"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/internal/testserver"
)

// countedDomain has descriptors with and without values, nested ones, one in shadow mode and
// one without a bound. No window ends during the test.
const countedDomain = `
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 20}}
  - {key: user, value: gold, rate_limit: {unit: year, requests_per_unit: 50}}
  - {key: plan, value: free, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 12}}
  - {key: once, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: free, rate_limit: {unlimited: true}}
  - key: path
    value: /login
    descriptors:
      - {key: remote_address, rate_limit: {unit: year, requests_per_unit: 7}}
`

// hits are the counters of Envoy's service by their names in StatsD.
type hits struct {
	mu     sync.Mutex
	counts map[string]int
}

// add reads lines of StatsD, such as "ratelimit.service.rate_limit.shop.user.near_limit:3|c".
// It leaves out other counters, and the tags that one of the services may add.
func (h *hits) add(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		count, kind, _ := strings.Cut(value, "|")
		n, err := strconv.Atoi(count)
		if strings.HasPrefix(name, "ratelimit.service.rate_limit.") && strings.HasPrefix(kind, "c") && err == nil && n != 0 {
			h.counts[name] += n
		}
	}
}

func (h *hits) all() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.counts)
}

// TestCountersOfHitsAreThoseOfEnvoysService sends the same requests to envoyproxy/ratelimit
// and to Stint, and compares what they send to StatsD.
func TestCountersOfHitsAreThoseOfEnvoysService(t *testing.T) {
	rival := testserver.Pinned(t, "ratelimit")
	ours, stint, stintAddr := stintWithStatsD(t)
	theirs, theirAddr := envoysService(t, rival)
	seed := rand.Uint64()
	t.Log("seed ", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	us, them := rateLimitClient(t, stintAddr), rateLimitClient(t, theirAddr)
	for n := range 400 {
		r := randomRequest(random)
		got, err1 := us.ShouldRateLimit(t.Context(), r)
		want, err2 := them.ShouldRateLimit(t.Context(), r)
		if err1 != nil || err2 != nil || got.GetOverallCode() != want.GetOverallCode() {
			t.Fatalf("request %d %v: Stint answers %v, %v, and Envoy's service %v, %v", n, r, got, err1, want, err2)
		}
	}
	if err := stint.Signal(syscall.SIGTERM); err != nil { // it sends the last differences at its end
		t.Fatal(err)
	}
	<-stint.Exited()
	for end := time.Now().Add(patience); !maps.Equal(ours.all(), theirs.all()); <-time.After(50 * time.Millisecond) {
		if time.Now().After(end) {
			break
		}
	}
	got, want := ours.all(), theirs.all()
	for name := range maps.Keys(joined(got, want)) {
		if got[name] != want[name] {
			t.Errorf("%s is %d, and %d of Envoy's service", name, got[name], want[name])
		}
	}
	for _, kind := range []string{"plan_free.shadow_mode", "user.near_limit", "user.within_limit", "user_gold.total_hits", "path_/login.remote_address.over_limit"} {
		if want["ratelimit.service.rate_limit.shop."+kind] == 0 {
			t.Errorf("the requests count no %s: %v", kind, want)
		}
	}
}

const patience = 20 * time.Second

func joined(a, b map[string]int) map[string]int {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// randomRequest has one to three descriptors of a few callers, with hits of their own or of
// the request.
func randomRequest(random *rand.Rand) *ratelimitpb.RateLimitRequest {
	entry := func(key, value string) *commonpb.RateLimitDescriptor_Entry {
		return &commonpb.RateLimitDescriptor_Entry{Key: key, Value: value}
	}
	r := &ratelimitpb.RateLimitRequest{Domain: "shop", HitsAddend: uint32(random.IntN(6))}
	for range 1 + random.IntN(3) {
		caller := strconv.Itoa(random.IntN(4))
		entries := [][]*commonpb.RateLimitDescriptor_Entry{
			{entry("user", caller)}, {entry("user", "gold")}, {entry("plan", "free")}, {entry("once", caller)}, {entry("free", caller)},
			{entry("path", "/login"), entry("remote_address", caller)}, {entry("unknown", caller)},
		}
		d := &commonpb.RateLimitDescriptor{Entries: entries[random.IntN(len(entries))]}
		if random.IntN(4) == 0 {
			d.HitsAddend = wrapperspb.UInt64(uint64(random.IntN(9)))
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

func rateLimitClient(t *testing.T, addr string) ratelimitpb.RateLimitServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return ratelimitpb.NewRateLimitServiceClient(conn)
}

// stintWithStatsD starts Stint in the way of Envoy's service, and collects its datagrams.
func stintWithStatsD(t *testing.T) (*hits, *processtest.Process, string) {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	h := &hits{counts: map[string]int{}}
	go func() {
		for packet := make([]byte, 64<<10); ; {
			n, _, err := socket.ReadFrom(packet)
			if err != nil {
				return
			}
			h.add(string(packet[:n]))
		}
	}()
	domain, addr := folder(t), testserver.FreeAddr(t)
	write(t, filepath.Join(domain, "shop.yaml"), countedDomain)
	p := serveRules(t, addr, "rules: []", "--envoy-config", domain, "--envoy-compat", "--statsd", socket.LocalAddr().String())
	return h, p, grpcHost + ":" + port(addr)
}

// envoysService starts envoyproxy/ratelimit over a Redis server, and collects the lines that it
// sends over TCP.
func envoysService(t *testing.T, program string) (h *hits, addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	h = &hits{counts: map[string]int{}}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					h.add(lines.Text())
				}
			}()
		}
	}()
	root := folder(t)
	write(t, filepath.Join(root, "shop.yaml"), countedDomain)
	http, debug, addr := testserver.FreeAddr(t), testserver.FreeAddr(t), testserver.FreeAddr(t)
	for name, value := range map[string]string{
		"RUNTIME_ROOT": filepath.Dir(root), "RUNTIME_SUBDIRECTORY": "", "RUNTIME_APPDIRECTORY": filepath.Base(root), "RUNTIME_WATCH_ROOT": "false",
		"REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": redistest.Server(t).Addr(), "LOG_LEVEL": "warn",
		"HOST": "127.0.0.1", "PORT": port(http), "DEBUG_HOST": "127.0.0.1", "DEBUG_PORT": port(debug), "GRPC_HOST": "127.0.0.1", "GRPC_PORT": port(addr),
		"USE_STATSD": "true", "STATSD_HOST": "127.0.0.1", "STATSD_PORT": port(l.Addr().String()), "GOSTATS_FLUSH_INTERVAL_SECONDS": "1",
	} {
		t.Setenv(name, value)
	}
	processtest.Start(t, addr, program)
	return h, addr
}
