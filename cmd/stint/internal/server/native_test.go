package server

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// httpNumbers is a decision as /v1/take and /v1/check write it.
func httpNumbers(d *stintv1.Decision) string {
	ms := func(us int64) int64 { return (us + 999) / 1000 }
	return fmt.Sprint(d.GetAllowed(), d.GetLimit(), d.GetRemaining(), ms(d.GetRetryAfterUs()), ms(d.GetResetAfterUs()), ms(d.GetDelayUs()), d.GetNever(), d.GetAtUs())
}

func jsonNumbers(body map[string]any) string {
	whole := func(name string) int64 { f, _ := body[name].(float64); return int64(f) }
	return fmt.Sprint(body["allowed"], whole("limit"), whole("remaining"), whole("retry_after_ms"), whole("reset_after_ms"), whole("delay_ms"), body["never"], whole("at_us"))
}

// TestNativeDecidesAsHTTP sends the same requests to both surfaces.
func TestNativeDecidesAsHTTP(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0"})
	client := stintv1.NewLimiterServiceClient(dialGRPC(t, s))
	minute := time.Minute.Microseconds()
	limits := []struct {
		json   string
		native *stintv1.Limit
	}{
		{`{"capacity":5,"refill_rate":1.67}`, &stintv1.Limit{Capacity: 5, RefillRate: "1.67"}},
		{`{"algorithm":"gcra","limit":3,"window":60,"burst":5}`, &stintv1.Limit{Algorithm: "gcra", Limit: 3, WindowUs: minute, Capacity: 5}},
		{`{"algorithm":"fixed_window","limit":5,"window":"1m"}`, &stintv1.Limit{Algorithm: "fixed_window", Limit: 5, WindowUs: minute}},
		{`{"algorithm":"sliding_window_counter","limit":5,"window":60,"buckets":6}`, &stintv1.Limit{Algorithm: "sliding_window_counter", Limit: 5, WindowUs: minute, Buckets: 6}},
		{`{"algorithm":"sliding_window_log","limit":5,"window":60}`, &stintv1.Limit{Algorithm: "sliding_window_log", Limit: 5, WindowUs: minute}},
		{`{"algorithm":"leaky_bucket","limit":5,"window":60,"queue":3,"max_wait":30}`, &stintv1.Limit{Algorithm: "leaky_bucket", Limit: 5, WindowUs: minute, Queue: 3, MaxWaitUs: minute / 2}},
		{`{"algorithm":"leaky_bucket","limit":5,"window":60,"queue":3}`, &stintv1.Limit{Algorithm: "leaky_bucket", Limit: 5, WindowUs: minute, Queue: 3}},
		{`{"algorithm":"quota","limit":5,"period":"month","utc_offset":"+02:00"}`, &stintv1.Limit{Algorithm: "quota", Limit: 5, Period: "month", UtcOffset: "+02:00"}},
	}
	for i, step := range []struct {
		after time.Duration
		cost  int64
	}{{0, 1}, {0, 3}, {0, 0}, {time.Second, 2}, {0, 9}, {0, 1}, {0, -2}, {7 * time.Second, 1}, {time.Hour, 5}} {
		s.clock.add(step.after)
		for _, limit := range limits {
			want := s.post("http", "/v1/take", fmt.Sprintf(`{"key":"http","limit":%s,"cost":%d}`, limit.json, step.cost)).decoded(t)
			got, err := client.Take(t.Context(), &stintv1.TakeRequest{Key: "grpc", Limits: []*stintv1.Limit{limit.native}, Cost: &step.cost})
			if err != nil {
				t.Fatal(err)
			}
			if g, w := httpNumbers(got.GetDecision()), jsonNumbers(want); g != w {
				t.Errorf("step %d, %s: %s, want %s", i, limit.json, g, w)
			}
		}
	}
	// One key, both ways.
	same := &stintv1.TakeRequest{Key: "same", Limits: []*stintv1.Limit{{Limit: 2, WindowUs: minute}}}
	if _, err := client.Take(t.Context(), same); err != nil {
		t.Fatal(err)
	}
	if got := s.post("http", "/v1/take", `{"key":"same","limit":"2/m"}`).decoded(t); got["remaining"] != 0.0 {
		t.Errorf("a key of gRPC is another one on HTTP: %v", got)
	}
}

func TestNativeChecksByTheRulesAndIsCounted(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0", Rules: rulesFile(t, `rules:
  - {id: orders, match: {path: /orders}, by: [api_key], limit: 2, window: 60}
`)})
	client := stintv1.NewLimiterServiceClient(dialGRPC(t, s))
	ask := &stintv1.CheckRequest{Attributes: map[string]string{"api_key": "k", "path": "/orders"}}
	for i := range 2 {
		got, err := client.Check(t.Context(), ask)
		want := s.post("http", "/v1/check", `{"attributes":{"api_key":"k","path":"/orders"},"cost":0}`).decoded(t)
		if err != nil || got.GetRule() != "orders" || got.GetDecision().GetRemaining() != int64(1-i) || want["remaining"] != float64(1-i) {
			t.Errorf("%d: %v, %v; HTTP says %v", i, got, err, want)
		}
	}
	if got, err := client.Check(t.Context(), ask); err != nil || got.GetDecision().GetAllowed() || got.GetDecision().GetRetryAfterUs() != 30_000_000 {
		t.Errorf("third: %v, %v", got, err)
	}
	if _, err := client.TakeBatch(t.Context(), &stintv1.TakeBatchRequest{Keys: []string{"a", "a", "b"}, Limits: []*stintv1.Limit{{Limit: 1, WindowUs: 60e6}}}); err != nil {
		t.Fatal(err)
	}
	metrics := s.get("admin", "/metrics").body
	for _, line := range []string{
		`stint_check_duration_seconds_count{surface="grpc"} 6`,
		`stint_decisions_total{decision="allow",rule="orders"} 4`, // two of the four are peeks
		`stint_decisions_total{decision="deny",rule="orders"} 1`,
		`stint_decisions_total{decision="allow",rule="(take)"} 2`,
		`stint_decisions_total{decision="deny",rule="(take)"} 1`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("no %s in\n%s", line, metrics)
		}
	}
}

func TestNativeAsksForTheToken(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0", HTTPToken: "s3cret"})
	client := stintv1.NewLimiterServiceClient(dialGRPC(t, s))
	m := &stintv1.ResetRequest{Key: "k", Limits: []*stintv1.Limit{{Rule: "orders", Limit: 1, WindowUs: 60e6}}}
	if _, err := client.Reset(t.Context(), m); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without: %v", err)
	}
	if _, err := client.Reset(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer s3cret"), m); err != nil {
		t.Errorf("with: %v", err)
	}
}

// On a listener without a token that other machines can reach, no caller may use the limits of
// rules.
func TestNativeOnAnOpenListenerRefusesNamesOfRules(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: ":0"})
	client := stintv1.NewLimiterServiceClient(dialGRPC(t, s))
	limit := &stintv1.Limit{Limit: 1, WindowUs: 60e6}
	if _, err := client.Take(t.Context(), &stintv1.TakeRequest{Key: "k", Limits: []*stintv1.Limit{limit}}); err != nil {
		t.Error(err)
	}
	if _, err := client.Reset(t.Context(), &stintv1.ResetRequest{Key: "k", Limits: []*stintv1.Limit{limit}}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("reset: %v", err)
	}
}

// Only a client certificate of the listener itself identifies a caller, whatever other
// listeners require.
func TestNativeTrustsAClientCertificate(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "authority")
	open := a.files()
	a.issue(1, open)
	mutual := open
	mutual.ClientCA = a.file
	for _, c := range []struct {
		name      string
		all, gRPC TLSFiles
		want      codes.Code
	}{
		{"all ask", mutual, TLSFiles{}, codes.OK},
		{"gRPC alone asks", TLSFiles{}, mutual, codes.OK},
		{"gRPC alone does not ask", mutual, open, codes.PermissionDenied},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := run(t, Config{GRPC: ":0", TLS: c.all, GRPCTLS: c.gRPC})
			_, port, _ := net.SplitHostPort(s.Addr("grpc").String())
			conn, err := grpc.NewClient(net.JoinHostPort("127.0.0.1", port), grpc.WithTransportCredentials(credentials.NewTLS(a.client(open))))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			m := &stintv1.ResetRequest{Key: "k", Limits: []*stintv1.Limit{{Limit: 1, WindowUs: 60e6}}}
			if _, err := stintv1.NewLimiterServiceClient(conn).Reset(patient(t), m); status.Code(err) != c.want {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestStreamsEndWithTheServer(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0"})
	stream, err := stintv1.NewLimiterServiceClient(dialGRPC(t, s)).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&stintv1.StreamRequest{Id: 3, Request: &stintv1.StreamRequest_Check{Check: &stintv1.CheckRequest{Attributes: map[string]string{"path": "/"}}}}); err != nil {
		t.Fatal(err)
	}
	if m, err := stream.Recv(); err != nil || m.GetAnswers()[0].GetId() != 3 {
		t.Fatal(m, err)
	}
	started := time.Now()
	s.stop()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "the server is stopping") {
		t.Errorf("the stream ends with %v", err)
	}
	if err := s.end(); err != nil || time.Since(started) > streamGrace {
		t.Errorf("the server ends after %v with %v", time.Since(started), err)
	}
}

func TestNativeMarksDecisionsMadeWhileTheStoreFails(t *testing.T) {
	s := guarded(t, Config{GRPC: "127.0.0.1:0"})
	client := stintv1.NewLimiterServiceClient(dialGRPC(t, s))
	for path, want := range map[string]struct{ allowed, unavailable bool }{"/open": {true, false}, "/closed": {false, true}, "/local": {true, false}} {
		got, err := client.Check(t.Context(), &stintv1.CheckRequest{Attributes: map[string]string{"api_key": "k", "path": path}})
		if d := got.GetDecision(); err != nil || !d.GetDegraded() || d.GetAllowed() != want.allowed || got.GetUnavailable() != want.unavailable {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
	got, err := client.CheckBatch(t.Context(), &stintv1.CheckBatchRequest{Names: []string{"api_key", "path"}, Values: []string{"k", "/open", "k", "/closed"}})
	if err != nil || len(got.GetFailures()) > 0 || fmt.Sprint(got.GetUnavailable(), got.GetDecisions().GetAllowed()) != "[false true] [true false]" {
		t.Errorf("batch: %v, %v", got, err)
	}
	limits := []*stintv1.Limit{{Limit: 5, WindowUs: 60e6}}
	for policy, allowed := range map[stintv1.OnStoreFailure]bool{
		stintv1.OnStoreFailure_ON_STORE_FAILURE_UNSPECIFIED: true, stintv1.OnStoreFailure_ON_STORE_FAILURE_OPEN: true,
		stintv1.OnStoreFailure_ON_STORE_FAILURE_CLOSED: false, stintv1.OnStoreFailure_ON_STORE_FAILURE_LOCAL: true,
		stintv1.OnStoreFailure_ON_STORE_FAILURE_LAST_KNOWN: true,
	} {
		got, err := client.Take(t.Context(), &stintv1.TakeRequest{Key: "k", Limits: limits, OnStoreFailure: policy})
		if d := got.GetDecision(); err != nil || !d.GetDegraded() || d.GetAllowed() != allowed {
			t.Errorf("%v: %v, %v", policy, got, err)
		}
	}
	_, err = client.GiveBack(t.Context(), &stintv1.GiveBackRequest{Key: "k", Limits: limits})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "the store fails (") {
		t.Errorf("giving back: %v", err)
	}
}
