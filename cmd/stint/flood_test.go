package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/internal/redistest"
)

const (
	floodedRules = "rules:\n  - {id: orders, by: [api_key], limit: 20, window: 9600h}\n"
	floodedEnvoy = "domain: flooded\ndescriptors:\n  - {key: user, rate_limit: {unit: year, requests_per_unit: 20}}\n"
)

// flooded is a server that a stranger floods with invented limits and keys.
type flooded struct {
	*process

	t     *testing.T
	n     int   // approximate number of requests to each surface
	units int64 // whole allowance of each key
	conn  *grpc.ClientConn
}

// A flood of invented limits and keys, through any surface, does not change what
// rules have counted.
func TestFloodsOfCallersLeaveRulesAlone(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *flooded{
		"memory": func(t *testing.T) *flooded {
			return &flooded{process: floodedServer(t, "--max-keys", "1000"), n: 1000, units: 10_000}
		},
		// The smallest possible budget of callers in Redis.
		"Redis": func(t *testing.T) *flooded {
			redis := redistest.Server(t)
			return &flooded{process: floodedServer(t, "--store", "redis://"+redis.Addr(), "--store-deadline", "10s", "--store-slow", "0"), n: 300, units: 100}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			f.t = t
			if testing.Short() {
				f.n /= 4
			}
			conn, err := grpc.NewClient(strings.Replace(f.addr("grpc"), "[::]", "127.0.0.1", 1), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			f.conn = conn
			f.use()
			for surface, flood := range map[string]func(){
				"/v1/take": f.byTake, "/v1/batch": f.byBatch, "gRPC take": f.byNativeTake, "gRPC batch": f.byNativeBatch,
				"gRPC stream": f.byNativeStream, "RESP": f.byRESP, "Envoy by JSON": f.byEnvoyJSON, "Envoy by gRPC": f.byEnvoy,
			} {
				flood()
				f.check(surface)
			}
			if status, _ := get(t, f.process, "/readyz"); status != http.StatusOK {
				t.Errorf("/readyz answers %d", status)
			}
			if name == "memory" {
				f.checkMetrics()
			}
		})
	}
}

// floodedServer starts a server whose gRPC listens on all addresses, so that it does
// not trust its callers.
func floodedServer(t *testing.T, args ...string) *process {
	t.Helper()
	folder := t.TempDir()
	rules, envoy := writeFile(t, filepath.Join(folder, "rules.yaml"), floodedRules), filepath.Join(folder, "envoy")
	if err := os.Mkdir(envoy, 0o750); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(envoy, "flooded.yaml"), floodedEnvoy)
	return startServer(t, nil, append([]string{"--rules", rules, "--envoy-config", envoy, "--resp", "127.0.0.1:0", "--grpc", "0.0.0.0:0"}, args...)...)
}

// countedKeys is the number of exhausted keys, and the number of partly used keys, for
// each surface that rules count.
const countedKeys = 100

// use charges the keys that check examines.
func (f *flooded) use() {
	for i := range countedKeys {
		for key, cost := range map[string]int{"used": 20, "using": 3} {
			post(f.t, f.process, "/v1/check", fmt.Sprintf(`{"attributes":{"api_key":"%s%d","path":"/"},"cost":%d}`, key, i, cost))
			f.envoy(fmt.Sprint(key, i), cost)
		}
	}
}

func (f *flooded) envoy(user string, hits int) (code string, left int) {
	f.t.Helper()
	_, body := do(f.t, http.MethodPost, "http://"+f.addr("http")+"/json",
		fmt.Sprintf(`{"domain":"flooded","descriptors":[{"entries":[{"key":"user","value":%q}],"hits_addend":%d}]}`, user, hits))
	var answer struct {
		OverallCode string `json:"overallCode"`
		Statuses    []struct {
			LimitRemaining int `json:"limitRemaining"`
		} `json:"statuses"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Statuses) != 1 {
		f.t.Fatalf("%v in %s", err, body)
	}
	return answer.OverallCode, answer.Statuses[0].LimitRemaining
}

// check verifies that exhausted keys stay denied, partly used keys keep their rest,
// and new keys are counted.
func (f *flooded) check(surface string) {
	f.t.Helper()
	for i := range countedKeys {
		for key, want := range map[string]string{"used": `"allowed":false,"limit":20,"remaining":0`, "using": `"allowed":true,"limit":20,"remaining":17`} {
			cost := map[string]int{"used": 1, "using": 0}[key]
			got := post(f.t, f.process, "/v1/check", fmt.Sprintf(`{"attributes":{"api_key":"%s%d","path":"/"},"cost":%d}`, key, i, cost))
			if !strings.Contains(got, want) || !strings.Contains(got, `"degraded":false`) {
				f.t.Fatalf("after a flood by %s, %s%d: %s, want %s", surface, key, i, got, want)
			}
		}
		if code, _ := f.envoy(fmt.Sprint("used", i), 1); code != "OVER_LIMIT" {
			f.t.Fatalf("after a flood by %s, Envoy's used%d: %s", surface, i, code)
		}
		if code, left := f.envoy(fmt.Sprint("using", i), 0); code != "OK" || left != 17 {
			f.t.Fatalf("after a flood by %s, Envoy's using%d: %s, %d left, want 17", surface, i, code, left)
		}
	}
	for _, want := range []string{`"remaining":0`, `"allowed":false`} {
		body := fmt.Sprintf(`{"attributes":{"api_key":"new after %s","path":"/"},"cost":20}`, surface)
		if got := post(f.t, f.process, "/v1/check", body); !strings.Contains(got, want) {
			f.t.Fatalf("after a flood by %s, a new key: %s, want %s", surface, got, want)
		}
	}
}

// checkMetrics verifies that no key of a rule was evicted, and that the state of
// callers' limits is within its bound.
func (f *flooded) checkMetrics() {
	_, metrics := do(f.t, http.MethodGet, "http://"+f.addr("admin")+"/metrics", "")
	for _, line := range []string{"stint_evictions_total 0", "stint_unstored_total 0", "stint_store_up 1"} {
		if !strings.Contains(metrics, "\n"+line+"\n") {
			f.t.Errorf("no line %q", line)
		}
	}
	for line := range strings.Lines(metrics) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		var n float64
		_, _ = fmt.Sscan(value, &n)
		switch {
		case name == "stint_caller_keys" && n > 500, name == "stint_caller_refused_total" && n == 0:
			f.t.Error(strings.TrimSpace(line))
		}
	}
}

// madeUp returns the ith invented limit.
func (f *flooded) madeUp(i int) string {
	return fmt.Sprintf(`{"name":"made-up-%d","algorithm":"sliding_window_log","limit":%d,"window":"9600h"}`, i, f.units)
}

// post sends a body. The server may refuse it for lack of room.
func (f *flooded) post(path, body string) {
	f.t.Helper()
	code, answer := do(f.t, http.MethodPost, "http://"+f.addr("http")+path, body)
	if code != http.StatusOK && code != http.StatusTooManyRequests && code != http.StatusServiceUnavailable && !strings.Contains(answer, "the store fails") {
		f.t.Fatalf("%s: %d %s", path, code, answer)
	}
}

func (f *flooded) byTake() {
	for i := range f.n {
		f.post("/v1/take", fmt.Sprintf(`{"key":"t%d","limit":%s,"cost":%d}`, i, f.madeUp(i), f.units))
	}
}

func (f *flooded) byBatch() {
	for range 3 {
		var items bytes.Buffer
		for i := range f.n {
			if i > 0 {
				items.WriteByte(',')
			}
			fmt.Fprintf(&items, `{"key":"b%d","limits":[%s,{"name":"orders","limit":20,"window":"%dh"}],"cost":20}`, i, f.madeUp(i), 1+i)
		}
		f.post("/v1/batch", `{"items":[`+items.String()+`]}`)
	}
}

func (f *flooded) limit(i int) *stintv1.Limit {
	return &stintv1.Limit{Name: fmt.Sprint("native-", i), Algorithm: "sliding_window_log", Limit: f.units, WindowUs: (9600 * time.Hour).Microseconds()}
}

// passed fails the test for any error except a lack of room.
func (f *flooded) passed(err error) {
	f.t.Helper()
	if err != nil && status.Code(err) != codes.ResourceExhausted && status.Code(err) != codes.Unavailable {
		f.t.Fatal(err)
	}
}

func (f *flooded) byNativeTake() {
	client := stintv1.NewLimiterServiceClient(f.conn)
	for i := range f.n {
		_, err := client.Take(f.t.Context(), &stintv1.TakeRequest{Key: fmt.Sprint("n", i), Limits: []*stintv1.Limit{f.limit(i)}, Cost: &f.units})
		f.passed(err)
	}
	_, err := client.Take(f.t.Context(), &stintv1.TakeRequest{Key: "used1", Limits: []*stintv1.Limit{{Rule: "orders", Limit: 20, WindowUs: 1_000_000}}})
	if status.Code(err) != codes.PermissionDenied {
		f.t.Errorf("a stranger speaks for a rule: %v", err)
	}
}

func (f *flooded) byNativeBatch() {
	client := stintv1.NewLimiterServiceClient(f.conn)
	for range 3 {
		m := &stintv1.TakeBatchRequest{Cost: []int64{f.units}, Consistency: []stintv1.Consistency{stintv1.Consistency_CONSISTENCY_LEASED}}
		for i := range f.n {
			m.Limits = append(m.Limits, f.limit(i))
			m.Keys, m.Limit = append(m.Keys, fmt.Sprint("nb", i)), append(m.Limit, uint32(i))
		}
		_, err := client.TakeBatch(f.t.Context(), m)
		f.passed(err)
	}
}

func (f *flooded) byNativeStream() {
	stream, err := stintv1.NewLimiterServiceClient(f.conn).Stream(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	go func() {
		for i := range f.n {
			take := &stintv1.TakeRequest{Key: fmt.Sprint("s", i), Limits: []*stintv1.Limit{f.limit(i)}, Cost: &f.units}
			_ = stream.Send(&stintv1.StreamRequest{Request: &stintv1.StreamRequest_Take{Take: take}})
		}
		_ = stream.CloseSend()
	}()
	answers := 0
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			f.t.Fatal(err)
		}
		answers += len(m.GetAnswers())
	}
	if answers != f.n {
		f.t.Errorf("%d answers on a stream, want %d", answers, f.n)
	}
}

func (f *flooded) byRESP() {
	conn, err := net.Dial("tcp", f.addr("resp"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	go func() {
		w := bufio.NewWriter(conn)
		for i := range 5 * f.n {
			fmt.Fprintf(w, "CL.THROTTLE r%d %d 1 %d %d\r\n", i, i, 30_000_000-i, 1+i)
		}
		fmt.Fprint(w, "QUIT\r\n")
		_ = w.Flush()
	}()
	if _, err := io.Copy(io.Discard, conn); err != nil {
		f.t.Fatal(err)
	}
}

// days returns the window of an override. Every second one equals the window of the
// limit in the file, with which an override must not share a state.
func days(i int) int {
	if i%2 == 0 {
		return 365
	}
	return 1 + i%400
}

func (f *flooded) byEnvoyJSON() {
	for i := range f.n {
		f.post("/json", fmt.Sprintf(`{"domain":"flooded","descriptors":[{"entries":[{"key":"user","value":"used%d"}],"limit":{"requests_per_unit":%d,"unit":"DAY","unit_multiplier":%d},"hits_addend":20}]}`,
			i, 20+i, days(i)))
	}
}

func (f *flooded) byEnvoy() {
	client := ratelimitpb.NewRateLimitServiceClient(f.conn)
	for i := range f.n {
		_, err := client.ShouldRateLimit(f.t.Context(), &ratelimitpb.RateLimitRequest{Domain: "flooded", HitsAddend: 20, Descriptors: []*commonpb.RateLimitDescriptor{{
			Entries: []*commonpb.RateLimitDescriptor_Entry{{Key: "user", Value: fmt.Sprint("using", i)}},
			Limit:   &commonpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(20 + i), Unit: typepb.RateLimitUnit_DAY, UnitMultiplier: wrapperspb.UInt32(uint32(days(i)))},
		}}})
		f.passed(err)
	}
}
