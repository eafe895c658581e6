package server

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/redisstore"
)

// flooded is the number of keys of one flood: exhausted, kept for 400 days, and more than there
// is room for.
const flooded = 1000

// floods are the surfaces by which callers bring limits. Each flood reports how
// many of its keys were refused.
func floods() map[string]func(*testing.T, *running) int {
	return map[string]func(*testing.T, *running) int{
		"/v1/take":  floodTake,
		"/v1/batch": floodBatch,
		"gRPC":      floodGRPC,
		"RESP":      floodRESP,
		"Envoy":     floodEnvoy,
	}
}

// takeAll is a take that exhausts a key by one charge. Each third key has a
// limit of its own.
func takeAll(i int) string {
	return fmt.Sprintf(`{"key":"flood-%d","limit":{"algorithm":"sliding_window_log","limit":%d,"window":"9600h"},"cost":%[2]d}`, i, 10_000-i/3)
}

func floodTake(_ *testing.T, s *running) (refused int) {
	for i := range flooded {
		if got := s.post("http", "/v1/take", takeAll(i)); strings.Contains(got.body, "CALLER_LIMITS_EXHAUSTED") {
			refused++
		}
	}
	return refused
}

func floodBatch(_ *testing.T, s *running) int {
	items := make([]string, flooded)
	for i := range items {
		items[i] = takeAll(i)
	}
	return strings.Count(s.post("http", "/v1/batch", batchOf(items...)).body, "CALLER_LIMITS_EXHAUSTED")
}

func floodGRPC(t *testing.T, s *running) (refused int) {
	client, ctx := stintv1.NewLimiterServiceClient(dialGRPC(t, s)), patient(t)
	for i := range flooded {
		limit := &stintv1.Limit{Algorithm: "fixed_window", Limit: int64(1 + i/3), WindowUs: stint.MaxWindow.Microseconds()}
		_, err := client.Take(ctx, &stintv1.TakeRequest{Key: fmt.Sprint("flood-", i), Limits: []*stintv1.Limit{limit}, Cost: &limit.Limit})
		if status.Code(err) == codes.ResourceExhausted {
			refused++
		}
	}
	return refused
}

func floodRESP(t *testing.T, s *running) (refused int) {
	conn, err := net.Dial("tcp", s.Addr("resp").String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for i := range flooded {
		fmt.Fprintf(conn, "CL.THROTTLE flood-%d 0 1 %d\r\n", i, 34_560_000-i/3)
		line, err := answers.ReadString('\n')
		for n := 0; err == nil && n < 5 && strings.HasPrefix(line, "*5"); n++ {
			_, err = answers.ReadString('\n')
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "-ERR") && !strings.Contains(line, "the store fails") {
			refused++
		}
	}
	return refused
}

func floodEnvoy(t *testing.T, s *running) (refused int) {
	client, ctx := ratelimitpb.NewRateLimitServiceClient(dialGRPC(t, s)), patient(t)
	for i := range flooded {
		request := ofUser(fmt.Sprint("flood-", i), uint32(1+i/3))
		request.Descriptors[0].Limit = &commonpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(1 + i/3), Unit: typepb.RateLimitUnit_YEAR}
		if got, err := client.ShouldRateLimit(ctx, request); err != nil {
			t.Fatal(err)
		} else if got.GetOverallCode() == ratelimitpb.RateLimitResponse_OVER_LIMIT {
			refused++
		}
	}
	return refused
}

const floodRules = `
version: 1
rules:
  - {id: known, by: api_key, limit: 3/h}
`

// A flood of callers' limits through any surface does not affect rules: counted keys keep their
// counts, and new keys are counted.
func TestFloodThroughASurfaceLeavesRulesAlone(t *testing.T) {
	address := redistest.Server(t).Addr()
	for name, flood := range floods() {
		t.Run("memory by "+name, func(t *testing.T) {
			store := stint.NewMemory(stint.MemoryOptions{MaxKeys: 10_000, CallerKeys: 200})
			floodRulesOver(t, Config{Store: store, Stats: store.Stats}, flood)
			if now := store.Stats(); now.Keys != 2+1 || now.Evictions+now.Unstored > 0 || now.Callers.Keys > 200 {
				t.Errorf("of rules and files %+v", now)
			}
		})
		t.Run("Redis by "+name, func(t *testing.T) {
			store, err := redisstore.New(redisstore.Options{Addrs: []string{address}, Prefix: strings.Trim(strings.ReplaceAll(name, "/", "-"), "-"), CallerBytes: 256 << 10})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			floodRulesOver(t, Config{Store: store}, flood)
			if now := store.Stats(); now.CallerBytes > 64<<10 {
				t.Errorf("callers take %d bytes of the 64 KiB for states that stay so long", now.CallerBytes)
			}
		})
	}
}

func floodRulesOver(t *testing.T, config Config, flood func(*testing.T, *running) int) {
	config.Rules, config.RESP = rulesFile(t, floodRules), "127.0.0.1:0"
	s, envoy := runEnvoy(t, config)
	check := func(key string, want bool) {
		t.Helper()
		got := s.post("http", "/v1/check", `{"attributes":{"api_key":"`+key+`","path":"/"}}`)
		if allowed := strings.HasPrefix(got.body, `{"allowed":true`); allowed != want || strings.Contains(got.body, `"degraded":true`) {
			t.Errorf("%s: %d, %s", key, got.status, got.body)
		}
	}
	check("old", true)
	check("old", true)
	if refused := flood(t, s); refused < flooded/2 {
		t.Errorf("%d of %d were refused", refused, flooded)
	}
	check("old", true)
	check("old", false)
	for _, want := range []bool{true, true, true, false} {
		check("new", want)
	}
	got, err := envoy.ShouldRateLimit(patient(t), ofUser("ann", 3))
	if err != nil || got.GetOverallCode() != ratelimitpb.RateLimitResponse_OK || got.GetStatuses()[0].GetLimitRemaining() != 0 {
		t.Errorf("a limit of a file: %v, %v", got, err)
	}
}
