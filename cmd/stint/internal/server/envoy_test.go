package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/httpapi"
	"github.com/stintdev/stint/storekit"
)

const envoyFile = `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 3}
`

// runEnvoy is a server with one configuration file of Envoy's service, and a
// client of it.
func runEnvoy(t *testing.T, config Config) (*running, ratelimitpb.RateLimitServiceClient) {
	t.Helper()
	config.EnvoyConfig, config.GRPC = t.TempDir(), "127.0.0.1:0"
	writeFile(t, filepath.Join(config.EnvoyConfig, "shop.yaml"), envoyFile)
	s := run(t, config)
	return s, ratelimitpb.NewRateLimitServiceClient(dialGRPC(t, s))
}

func ofUser(user string, hits uint32) *ratelimitpb.RateLimitRequest {
	return &ratelimitpb.RateLimitRequest{Domain: "shop", HitsAddend: hits, Descriptors: []*commonpb.RateLimitDescriptor{
		{Entries: []*commonpb.RateLimitDescriptor_Entry{{Key: "user", Value: user}}},
	}}
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func TestEnvoyDecidesAsTakeDoes(t *testing.T) {
	t.Parallel()
	s, client := runEnvoy(t, Config{})
	for i, cost := range []uint32{1, 3, 2, 1, 1} {
		answer, err := client.ShouldRateLimit(patient(t), ofUser("ann", cost))
		if err != nil {
			t.Fatal(err)
		}
		took := s.post("http", "/v1/take", fmt.Sprintf(`{"key":"ann","cost":%d,"limit":{"algorithm":"fixed_window","limit":3,"window":"1m"}}`, cost)).decoded(t)
		one := answer.GetStatuses()[0]
		if allowed := answer.GetOverallCode() == ratelimitpb.RateLimitResponse_OK; allowed != took["allowed"] || float64(one.GetLimitRemaining()) != took["remaining"] {
			t.Errorf("request %d: %v, and %v", i, answer, took)
		}
		s.clock.add(10 * time.Second)
	}
}

func TestEnvoyOverJSON(t *testing.T) {
	t.Parallel()
	s, _ := runEnvoy(t, Config{EnvoyHeaders: DefaultEnvoyHeaders()})
	body := `{"domain":"shop","hitsAddend":2,"descriptors":[{"entries":[{"key":"user","value":"bob"}]}]}`
	first, second := s.post("http", "/json", body), s.post("http", "/json", body)
	if first.status != http.StatusOK || second.status != http.StatusTooManyRequests {
		t.Errorf("%d, then %d", first.status, second.status)
	}
	headers := `"responseHeadersToAdd":[{"key":"RateLimit-Limit","value":"3"},{"key":"RateLimit-Remaining","value":"1"},{"key":"RateLimit-Reset","value":"60"}]}`
	limit := `"currentLimit":{"requestsPerUnit":3,"unit":"MINUTE"},"limitRemaining":1,"durationUntilReset":"60s"}],`
	wantJSON(t, first.body, `{"overallCode":"OK","statuses":[{"code":"OK",`+limit+headers)
	wantJSON(t, second.body, `{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT",`+limit+headers)
	for body, want := range map[string]string{
		`{"domain":"","descriptors":[{}]}`:                 "rate limit domain must not be empty",
		`{"domain":"shop"}`:                                "rate limit descriptor list must not be empty",
		`{"domain":"shop","descriptors":[{"entires":[]}]}`: `unknown field "entires" (did you mean entries?)`,
		`{"domain":"shop","zzzzz":1}`:                      `unknown field "zzzzz"`,
		`{"domian":"shop"}`:                                `unknown field "domian" (did you mean domain?)`,
		`[]`:                                               "is not a rate limit request",
	} {
		if a := s.post("http", "/json", body); a.status != http.StatusBadRequest || !strings.Contains(a.errorMessage(), want) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
}

func TestEnvoyWithoutConfigurationGetsAnError(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0"})
	_, err := ratelimitpb.NewRateLimitServiceClient(dialGRPC(t, s)).ShouldRateLimit(patient(t), ofUser("x", 1))
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "--envoy-config") {
		t.Error(err)
	}
	if a := s.post("http", "/json", `{"domain":"shop","descriptors":[{}]}`); a.status != http.StatusInternalServerError || !strings.Contains(a.errorMessage(), "--envoy-config") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestABadEnvoyFileIsLoggedAndCounted(t *testing.T) {
	t.Parallel()
	s, client := runEnvoy(t, Config{})
	writeFile(t, filepath.Join(s.config.EnvoyConfig, "bad.yaml"), "domain: other\ndescriptors: [{kee: a}]\n")
	s.logs.wait(t, `bad.yaml:2:16: \"kee\" is not a key of a configuration (did you mean key?)`)
	s.logs.wait(t, "files_with_mistakes=1")
	metrics := s.get("admin", "/metrics").body
	for _, want := range []string{"stint_envoy_config_mistakes 1", `stint_rules_reloads_total{result="error"} 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if _, err := client.ShouldRateLimit(patient(t), ofUser("ann", 1)); err != nil {
		t.Error(err)
	}
	s.Reload()
	s.logs.wait(t, "nothing to reload")
}

func TestEnvoysDecisionsAreCountedByTheirLimit(t *testing.T) {
	t.Parallel()
	s, client := runEnvoy(t, Config{})
	for range 4 {
		if _, err := client.ShouldRateLimit(patient(t), ofUser("ann", 1)); err != nil {
			t.Fatal(err)
		}
	}
	metrics := s.get("admin", "/metrics").body
	for _, want := range []string{
		`stint_decisions_total{decision="allow",rule="shop.user"} 3`, `stint_decisions_total{decision="deny",rule="shop.user"} 1`,
		`stint_check_duration_seconds_count{surface="envoy"} 4`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

// brokenStore fails, or panics.
type brokenStore struct {
	stint.Store

	panics bool
}

func (b brokenStore) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	return storekit.TakeOne(ctx, b, c)
}

func (b brokenStore) TakeGroups(context.Context, []stint.Group, []stint.Decision) error {
	if b.panics {
		panic("a bug")
	}
	return &stint.Error{Code: stint.CodeUnavailable, Problem: "redis.inside refuses", Err: errors.New("refused")}
}

// Envoy's failure_mode_deny then decides whether requests pass.
func TestEnvoyGetsAnErrorWhileTheStoreFails(t *testing.T) {
	t.Parallel()
	for panics, want := range map[bool]codes.Code{false: codes.Unavailable, true: codes.Internal} {
		_, client := runEnvoy(t, Config{Store: brokenStore{panics: panics}})
		for range 2 {
			_, err := client.ShouldRateLimit(patient(t), ofUser("ann", 1))
			if status.Code(err) != want || strings.Contains(err.Error(), "inside") {
				t.Errorf("panics %t: %v", panics, err)
			}
		}
	}
}

// rawCodec sends bytes unchanged.
type rawCodec struct{}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	data, _ := v.([]byte)
	return mem.BufferSlice{mem.SliceBuffer(data)}, nil
}
func (rawCodec) Unmarshal(mem.BufferSlice, any) error { return nil }
func (rawCodec) Name() string                         { return "proto" }

var _ encoding.CodecV2 = rawCodec{}

func TestHostileMessagesStopNothing(t *testing.T) {
	t.Parallel()
	s, client := runEnvoy(t, Config{})
	conn := dialGRPC(t, s)
	for name, message := range map[string][]byte{
		"not a message":     []byte("\xff\xff\xff\xff"),
		"a cut length":      {0x0a, 0xff},
		"text that is none": {0x0a, 0x02, 0xff, 0xfe},
		"deep groups":       []byte(strings.Repeat("\x0b", 100_000)),
		"too long":          make([]byte, httpapi.MaxBody+1),
		"empty":             nil,
	} {
		err := conn.Invoke(patient(t), "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", message, new([]byte), grpc.ForceCodecV2(rawCodec{}))
		if err == nil {
			t.Errorf("%s: was answered", name)
		}
	}
	for _, bytes := range []string{"", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff", "GET / HTTP/1.1\r\n\r\n"} {
		socket, err := (&net.Dialer{}).DialContext(patient(t), "tcp", s.Addr("grpc").String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := socket.Write([]byte(bytes)); err != nil {
			t.Error(err)
		}
		socket.Close()
	}
	if _, err := client.ShouldRateLimit(patient(t), ofUser("ann", 1)); err != nil {
		t.Error(err)
	}
}

func TestEnvoyCompatReachesTheService(t *testing.T) {
	t.Parallel()
	_, client := runEnvoy(t, Config{EnvoyCompat: true, EnvoyShadow: true})
	for i, want := range []ratelimitpb.RateLimitResponse_Code{ratelimitpb.RateLimitResponse_OVER_LIMIT, ratelimitpb.RateLimitResponse_OVER_LIMIT} {
		answer, err := client.ShouldRateLimit(patient(t), ofUser("ann", uint32(4-3*i))) // the first one's overflow denies the second
		if err != nil || answer.GetOverallCode() != ratelimitpb.RateLimitResponse_OK || answer.GetStatuses()[0].GetCode() != want {
			t.Errorf("request %d: %v, %v", i, answer, err)
		}
	}
}

// policies is a store that records the policies of claims.
type policies struct {
	stint.Store

	seen chan stint.Policy
}

func (p policies) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	return storekit.TakeOne(ctx, p, c)
}

func (p policies) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	p.seen <- groups[0].Claims[0].Policy
	return p.Store.TakeGroups(ctx, groups, out)
}

func TestTheDefaultConsistencyReachesEnvoysService(t *testing.T) {
	t.Parallel()
	store := policies{stint.NewMemory(stint.MemoryOptions{}), make(chan stint.Policy, 1)}
	_, client := runEnvoy(t, Config{Store: store, EnvoyConsistency: stint.Leased})
	if _, err := client.ShouldRateLimit(patient(t), ofUser("ann", 1)); err != nil {
		t.Fatal(err)
	}
	if got, want := <-store.seen, (stint.Policy{Consistency: stint.Leased, OnFailure: stint.FailClosed}); got != want {
		t.Errorf("the claim has %v, want %v", got, want)
	}
}
