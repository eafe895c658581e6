package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	collectorlogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonotlp "go.opentelemetry.io/proto/otlp/common/v1"
	logsotlp "go.opentelemetry.io/proto/otlp/logs/v1"
	metricsotlp "go.opentelemetry.io/proto/otlp/metrics/v1"
	traceotlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/internal/testserver"
)

const (
	exportedRules = "rules:\n  - {id: orders, by: [api_key], limit: 3, window: 1h}\n"
	plantedKey    = "planted-key-0123456789"
	callersTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	callersSpan   = "00f067aa0ba902b7"
	callersParent = "00-" + callersTrace + "-" + callersSpan + "-01"
)

// collector receives OTLP by the services of its published protocol.
type collector struct {
	collectortrace.UnimplementedTraceServiceServer

	mu      sync.Mutex
	spans   []*traceotlp.Span
	logs    []*logsotlp.LogRecord
	totals  map[string]string // the last value of each counter
	headers map[string]bool   // values of the field x-tenant
	raw     []byte            // all that was received
}

type metricsCollector struct {
	collectormetrics.UnimplementedMetricsServiceServer

	*collector
}

type logsCollector struct {
	collectorlogs.UnimplementedLogsServiceServer

	*collector
}

// Export implements the service of logs.
func (c logsCollector) Export(ctx context.Context, r *collectorlogs.ExportLogsServiceRequest) (*collectorlogs.ExportLogsServiceResponse, error) {
	c.receiveLogs(r, tenant(ctx))
	return &collectorlogs.ExportLogsServiceResponse{}, nil
}

// Export implements the service of traces.
func (c *collector) Export(ctx context.Context, r *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	c.receiveTraces(r, tenant(ctx))
	return &collectortrace.ExportTraceServiceResponse{}, nil
}

// Export implements the service of metrics.
func (c metricsCollector) Export(ctx context.Context, r *collectormetrics.ExportMetricsServiceRequest) (*collectormetrics.ExportMetricsServiceResponse, error) {
	c.receiveMetrics(r, tenant(ctx))
	return &collectormetrics.ExportMetricsServiceResponse{}, nil
}

func tenant(ctx context.Context) string {
	fields, _ := metadata.FromIncomingContext(ctx)
	return strings.Join(fields["x-tenant"], ",")
}

func (c *collector) receiveTraces(r *collectortrace.ExportTraceServiceRequest, tenant string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(r, tenant)
	for _, resource := range r.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
}

func (c *collector) receiveLogs(r *collectorlogs.ExportLogsServiceRequest, tenant string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(r, tenant)
	for _, resource := range r.GetResourceLogs() {
		for _, scope := range resource.GetScopeLogs() {
			c.logs = append(c.logs, scope.GetLogRecords()...)
		}
	}
}

func (c *collector) receiveMetrics(r *collectormetrics.ExportMetricsServiceRequest, tenant string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(r, tenant)
	for _, resource := range r.GetResourceMetrics() {
		for _, scope := range resource.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				c.receiveSum(m)
			}
		}
	}
}

func (c *collector) receiveSum(m *metricsotlp.Metric) {
	if !strings.HasPrefix(m.GetName(), "stint_") || !strings.HasSuffix(m.GetName(), "_total") {
		return
	}
	for _, point := range m.GetSum().GetDataPoints() {
		value := point.GetAsDouble()
		if _, whole := point.GetValue().(*metricsotlp.NumberDataPoint_AsInt); whole {
			value = float64(point.GetAsInt())
		}
		c.totals[seriesOf(m.GetName(), textsOf(point.GetAttributes()))] = strconv.FormatFloat(value, 'g', -1, 64)
	}
}

func (c *collector) note(m proto.Message, tenant string) {
	c.headers[tenant] = true
	raw, _ := proto.Marshal(m) // it has just been read
	c.raw = append(c.raw, raw...)
}

func textsOf(attributes []*commonotlp.KeyValue) map[string]string {
	texts := map[string]string{}
	for _, a := range attributes {
		switch v := a.GetValue().GetValue().(type) {
		case *commonotlp.AnyValue_StringValue:
			texts[a.GetKey()] = v.StringValue
		case *commonotlp.AnyValue_BoolValue:
			texts[a.GetKey()] = strconv.FormatBool(v.BoolValue)
		case *commonotlp.AnyValue_IntValue:
			texts[a.GetKey()] = strconv.FormatInt(v.IntValue, 10)
		}
	}
	return texts
}

// seriesOf returns a series as /metrics writes it.
func seriesOf(name string, labels map[string]string) string {
	var pairs []string
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, fmt.Sprintf("%s=%q", label, labels[label]))
	}
	if pairs == nil {
		return name
	}
	return name + "{" + strings.Join(pairs, ",") + "}"
}

// span returns the first span of that name, once the collector has it.
func (c *collector) span(t *testing.T, name string) (*traceotlp.Span, map[string]string) {
	t.Helper()
	var found *traceotlp.Span
	eventually(t, "no span "+name, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, s := range c.spans {
			if s.GetName() == name {
				found = s
				return true
			}
		}
		return false
	})
	return found, textsOf(found.GetAttributes())
}

func eventually(t *testing.T, problem string, done func() bool) {
	t.Helper()
	late := time.After(20 * time.Second)
	for !done() {
		select {
		case <-late:
			t.Fatal(problem)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// startCollector starts a collector and returns the URL for --otlp.
func startCollector(t *testing.T, overGRPC bool) (*collector, string) {
	t.Helper()
	c := &collector{totals: map[string]string{}, headers: map[string]bool{}}
	if overGRPC {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer()
		collectortrace.RegisterTraceServiceServer(s, c)
		collectormetrics.RegisterMetricsServiceServer(s, metricsCollector{collector: c})
		collectorlogs.RegisterLogsServiceServer(s, logsCollector{collector: c})
		go func() { _ = s.Serve(l) }()
		t.Cleanup(s.Stop)
		return c, "grpc://" + l.Addr().String()
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var err error
		switch r.URL.Path {
		case "/v1/traces":
			request := &collectortrace.ExportTraceServiceRequest{}
			err = proto.Unmarshal(body, request)
			c.receiveTraces(request, r.Header.Get("X-Tenant"))
		case "/v1/metrics":
			request := &collectormetrics.ExportMetricsServiceRequest{}
			err = proto.Unmarshal(body, request)
			c.receiveMetrics(request, r.Header.Get("X-Tenant"))
		case "/v1/logs":
			request := &collectorlogs.ExportLogsServiceRequest{}
			err = proto.Unmarshal(body, request)
			c.receiveLogs(request, r.Header.Get("X-Tenant"))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
		if err != nil {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.Close)
	return c, s.URL
}

// quick has the exporters send several times a second.
func quick(more ...string) []string {
	return append([]string{"OTEL_METRIC_EXPORT_INTERVAL=100", "OTEL_BSP_SCHEDULE_DELAY=100"}, more...)
}

// totalsOf returns the counters in /metrics of the server. Those of the program's runtime
// change between two reads.
func totalsOf(t *testing.T, p *process) map[string]string {
	t.Helper()
	_, text := do(t, http.MethodGet, "http://"+p.addr("admin")+"/metrics", "")
	totals := map[string]string{}
	for line := range strings.Lines(text) {
		i := strings.LastIndexByte(line, ' ')
		if name, _, _ := strings.Cut(line[:i], "{"); strings.HasPrefix(line, "stint_") && strings.HasSuffix(name, "_total") {
			totals[line[:i]] = strings.TrimSpace(line[i+1:])
		}
	}
	return totals
}

// checkWithTrace sends a check with a trace context, and the planted key in all places.
func checkWithTrace(t *testing.T, p *process, parent string) {
	t.Helper()
	body := `{"attributes":{"api_key":"` + plantedKey + `","path":"/` + plantedKey + `"}}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.addr("http")+"/v1/check?key="+plantedKey, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Traceparent", parent)
	r.Header.Set("X-Api-Key", plantedKey)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("status %d", answer.StatusCode)
	}
}

// Every surface is traced below the span of its caller, metrics arrive with the totals of
// /metrics, and nothing that is sent has a key.
func TestOTLP(t *testing.T) {
	rules := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), exportedRules)
	for name, overGRPC := range map[string]bool{"grpc": true, "http": false} {
		t.Run(name, func(t *testing.T) {
			c, url := startCollector(t, overGRPC)
			parents := make(chan string, 1)
			upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { parents <- r.Header.Get("Traceparent") }))
			t.Cleanup(upstream.Close)
			store := memoryStore
			if overGRPC {
				store = "redis://" + redistest.Server(t).Addr()
			}
			p := startServer(t, quick("OTEL_EXPORTER_OTLP_HEADERS=x-tenant=acme", "OTEL_SERVICE_NAME=limiter", "OTEL_TRACES_SAMPLER=parentbased_always_off"),
				"--otlp", url, "--rules", rules, "--store", store, "--store-deadline", "10s", "--gateway", "127.0.0.1:0", "--upstream", upstream.URL)

			for range 3 {
				checkWithTrace(t, p, callersParent)
			}
			span, attributes := c.span(t, "POST /v1/check")
			wantParent(t, span, callersSpan)
			want := map[string]string{"stint.rule": "orders", "stint.allowed": "true", "stint.degraded": "false", "http.response.status_code": "200"}
			for attribute, value := range want {
				if attributes[attribute] != value {
					t.Errorf("%s is %q, want %q in %v", attribute, attributes[attribute], value, attributes)
				}
			}
			if attributes["stint.limit"] == "" {
				t.Error("there is no name of a limit")
			}
			decision, _ := c.span(t, "decide")
			wantParent(t, decision, hex.EncodeToString(span.GetSpanId()))

			if store != memoryStore {
				call, attributes := c.span(t, "store call")
				wantParent(t, call, hex.EncodeToString(decision.GetSpanId()))
				if attributes["stint.result"] != "ok" || attributes["stint.store"] != "guard" {
					t.Errorf("the store call has %v", attributes)
				}
			}

			throughGateway(t, p)
			toUpstream, _ := c.span(t, "upstream default")
			if got := <-parents; got != "00-"+callersTrace+"-"+hex.EncodeToString(toUpstream.GetSpanId())+"-01" {
				t.Errorf("the upstream got %q", got)
			}
			overNative(t, p)
			native, _ := c.span(t, "stint.v1.LimiterService/Check")
			wantParent(t, native, callersSpan)
			overStream(t, p)
			messages, _ := c.span(t, "stint.v1.LimiterService/Stream")
			wantParent(t, messages, callersSpan)

			checkWithTrace(t, p, strings.TrimSuffix(callersParent, "1")+"0") // denied, and not sampled
			totals := totalsOf(t, p)
			eventually(t, "the totals do not arrive", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return maps.Equal(totals, c.totals)
			})
			c.wantNoKey(t, p)
		})
	}
}

func wantParent(t *testing.T, s *traceotlp.Span, parent string) {
	t.Helper()
	if trace, got := hex.EncodeToString(s.GetTraceId()), hex.EncodeToString(s.GetParentSpanId()); trace != callersTrace || got != parent {
		t.Errorf("%s: trace %s, parent %s, want %s and %s", s.GetName(), trace, got, callersTrace, parent)
	}
}

func throughGateway(t *testing.T, p *process) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.addr("gateway")+"/"+plantedKey+"?q="+plantedKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Traceparent", callersParent)
	r.Header.Set("Authorization", "Bearer "+plantedKey+"-2")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("status %d", answer.StatusCode)
	}
}

func overNative(t *testing.T, p *process) {
	t.Helper()
	conn, err := grpc.NewClient(p.addr("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", callersParent, "x-api-key", plantedKey)
	request := &stintv1.CheckRequest{Attributes: map[string]string{"api_key": plantedKey + "-3"}}
	if _, err := stintv1.NewLimiterServiceClient(conn).Check(ctx, request); err != nil {
		t.Fatal(err)
	}
}

// overStream sends a check in a stream with a trace context.
func overStream(t *testing.T, p *process) {
	t.Helper()
	conn, err := grpc.NewClient(p.addr("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := stintv1.NewLimiterServiceClient(conn).Stream(metadata.AppendToOutgoingContext(t.Context(), "traceparent", callersParent))
	if err != nil {
		t.Fatal(err)
	}
	check := &stintv1.CheckRequest{Attributes: map[string]string{"api_key": plantedKey + "-4"}}
	if err := stream.Send(&stintv1.StreamRequest{Request: &stintv1.StreamRequest_Check{Check: check}}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
}

// wantNoKey fails if the planted key is in what was sent or logged.
func (c *collector) wantNoKey(t *testing.T, p *process) {
	t.Helper()
	c.wantNoPlanted(t, p, "planted")
}

// wantNoPlanted fails if a part of the planted key is in what was sent or logged.
func (c *collector) wantNoPlanted(t *testing.T, p *process, part string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.Contains(string(c.raw), part) || strings.Contains(strings.Join(p.logged(), "\n"), part) {
		t.Error("a key was sent or logged")
	}
	if !c.headers["acme"] || len(c.headers) != 1 {
		t.Errorf("the field x-tenant was %v", c.headers)
	}
	if !strings.Contains(string(c.raw), "limiter") {
		t.Error("the name of the service is missing")
	}
}

// Strangers who mark all requests as sampled are recorded up to the bound.
func TestMarkedRequestsAreRecordedWithinABound(t *testing.T) {
	c, url := startCollector(t, true)
	p := startServer(t, quick(), "--otlp", url)
	began := time.Now()
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 200 {
				checkWithTrace(t, p, callersParent)
			}
		})
	}
	wait.Wait()
	seconds := int(time.Since(began)/time.Second) + 2
	var dropped int
	eventually(t, "recorded and dropped requests are not all", func() bool {
		dropped, _ = strconv.Atoi(totalsOf(t, p)[`stint_traces_dropped_total{reason="caller"}`])
		c.mu.Lock()
		defer c.mu.Unlock()
		recorded := 0
		for _, s := range c.spans {
			if s.GetName() == "POST /v1/check" {
				recorded++
			}
		}
		if recorded > 100*seconds {
			t.Fatalf("%d requests are recorded in %d s", recorded, seconds)
		}
		return recorded+dropped == 1600
	})
	if dropped == 0 && seconds < 10 {
		t.Error("the bound dropped nothing")
	}
}

// A collector that is dead, or that takes connections and never answers, keeps no request
// and not the end of the server. It is logged once for each kind of what is sent.
func TestDeadAndHangingCollectors(t *testing.T) { //nolint:tparallel // only its subtests wait
	hanging, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hanging.Close() })
	dead := testserver.FreeAddr(t)
	for name, url := range map[string]string{
		"dead http": "http://" + dead, "dead grpc": "grpc://" + dead,
		"hanging http": "http://" + hanging.Addr().String(), "hanging grpc": "grpc://" + hanging.Addr().String(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startServer(t, quick("OTEL_EXPORTER_OTLP_TIMEOUT=200", "OTEL_METRIC_EXPORT_TIMEOUT=200", "OTEL_BSP_EXPORT_TIMEOUT=200", "OTEL_BLRP_EXPORT_TIMEOUT=200"), "--otlp", url, "--decision-log", "otlp", "--decision-log-sample", "100%")
			for range 300 {
				checkWithTrace(t, p, callersParent)
			}
			p.wait("does not take metrics")
			p.wait("does not take spans")
			p.wait("does not take logs")
			eventually(t, "lost lines are not counted", func() bool {
				return slices.ContainsFunc(slices.Collect(maps.Keys(totalsOf(t, p))), func(series string) bool {
					return strings.HasPrefix(series, "stint_decision_log_dropped_total") && totalsOf(t, p)[series] != "0"
				})
			})
			eventually(t, "undelivered spans are not counted", func() bool {
				n, _ := strconv.Atoi(totalsOf(t, p)[`stint_traces_dropped_total{reason="undelivered"}`])
				return n > 0
			})
			checkWithTrace(t, p, callersParent)
			p.signal(syscall.SIGTERM)
			began := time.Now()
			if status := p.exit(); status != exitDone || time.Since(began) > 10*time.Second {
				t.Errorf("status %d after %v", status, time.Since(began))
			}
			log := strings.Join(p.logged(), "\n")
			for _, what := range []string{"does not take metrics", "does not take spans", "does not take logs"} {
				if n := strings.Count(log, what); n != 1 {
					t.Errorf("%d lines with %q", n, what)
				}
			}
		})
	}
}

// A collector that comes late has all counts.
func TestTotalsSurviveADeadCollector(t *testing.T) {
	c, url := startCollector(t, false)
	target := strings.TrimPrefix(url, "http://")
	address := testserver.FreeAddr(t)
	p := startServer(t, quick("OTEL_EXPORTER_OTLP_ENDPOINT=http://"+address, "OTEL_TRACES_EXPORTER=none"))
	for range 5 {
		checkWithTrace(t, p, callersParent)
	}
	p.wait("does not take metrics")
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = http.Serve(l, forward(target)) }()
	t.Cleanup(func() { l.Close() })
	p.wait("takes metrics again")
	totals := totalsOf(t, p)
	eventually(t, "the totals do not arrive", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return maps.Equal(totals, c.totals)
	})
}

// forward passes requests on to a collector.
func forward(to string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, _ := http.NewRequestWithContext(r.Context(), r.Method, "http://"+to+r.URL.Path, r.Body)
		answer, err := http.DefaultClient.Do(out)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	})
}

func TestBadExportSettingsAreRefused(t *testing.T) {
	empty := writeFile(t, filepath.Join(t.TempDir(), "empty.pem"), "")
	for name, c := range map[string]struct {
		env, args []string
		want      string
	}{
		"otlp without a host":     {nil, []string{"--otlp", "http://"}, "otlp: "},
		"otlp of another scheme":  {nil, []string{"--otlp", "ftp://h"}, `otlp: "ftp" is not a scheme`},
		"otlp with a password":    {nil, []string{"--otlp", "http://u:secret@h"}, "otlp: the URL has a user"},
		"otlp without a scheme":   {nil, []string{"--otlp", "localhost:4318"}, "otlp: "},
		"otlp of a wrong port":    {nil, []string{"--otlp", "http://h:70000"}, "otlp: "},
		"endpoint":                {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=h:1"}, nil, "OTEL_EXPORTER_OTLP_ENDPOINT: "},
		"endpoint of a signal":    {[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=ftp://h"}, nil, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "},
		"protocol":                {[]string{"OTEL_EXPORTER_OTLP_PROTOCOL=http/json"}, []string{"--otlp", "http://h"}, "OTEL_EXPORTER_OTLP_PROTOCOL: "},
		"timeout":                 {[]string{"OTEL_EXPORTER_OTLP_TIMEOUT=10s"}, []string{"--otlp", "http://h"}, "OTEL_EXPORTER_OTLP_TIMEOUT: "},
		"headers":                 {[]string{"OTEL_EXPORTER_OTLP_HEADERS=secret"}, []string{"--otlp", "http://h"}, "OTEL_EXPORTER_OTLP_HEADERS: "},
		"authorities":             {[]string{"OTEL_EXPORTER_OTLP_CERTIFICATE=/nowhere"}, []string{"--otlp", "https://h"}, "OTEL_EXPORTER_OTLP_CERTIFICATE: "},
		"authorities of a signal": {[]string{"OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE=" + empty}, []string{"--otlp", "https://h"}, "OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE: "},
		"certificate, no key":     {[]string{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=" + empty}, []string{"--otlp", "https://h"}, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: "},
		"certificate and no pair": {[]string{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=" + empty, "OTEL_EXPORTER_OTLP_CLIENT_KEY=" + empty}, []string{"--otlp", "https://h"}, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: "},
		"attributes":              {[]string{"OTEL_RESOURCE_ATTRIBUTES=x"}, []string{"--otlp", "http://h"}, "OTEL_RESOURCE_ATTRIBUTES: "},
		"sampler":                 {[]string{"OTEL_TRACES_SAMPLER=xray"}, []string{"--otlp", "http://h"}, "OTEL_TRACES_SAMPLER: "},
		"share of the sampler":    {[]string{"OTEL_TRACES_SAMPLER_ARG=2"}, []string{"--otlp", "http://h"}, "OTEL_TRACES_SAMPLER_ARG: "},
		"timeout of logs":         {[]string{"OTEL_BLRP_EXPORT_TIMEOUT=0"}, []string{"--otlp", "http://h"}, "OTEL_BLRP_EXPORT_TIMEOUT: "},
		"headers of logs":         {[]string{"OTEL_EXPORTER_OTLP_LOGS_HEADERS=secret"}, []string{"--otlp", "http://h"}, "OTEL_EXPORTER_OTLP_LOGS_HEADERS: "},
		"endpoint of logs":        {[]string{"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT=ftp://h"}, nil, "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: "},
		"exporter of logs":        {[]string{"OTEL_LOGS_EXPORTER=console"}, []string{"--otlp", "http://h"}, "OTEL_LOGS_EXPORTER: "},
		"no logs are exported":    {[]string{"OTEL_LOGS_EXPORTER=none"}, []string{"--otlp", "http://h", "--decision-log", "otlp"}, "decision-log: otlp sends logs, and OTEL_LOGS_EXPORTER is none"},
		"logs without a target":   {nil, []string{"--decision-log", "otlp"}, "decision-log: otlp has no address of a collector"},
		"logs without theirs":     {[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://h"}, []string{"--decision-log", "otlp"}, "decision-log: otlp has no address of a collector"},
		"exporter":                {[]string{"OTEL_METRICS_EXPORTER=console"}, []string{"--otlp", "http://h"}, "OTEL_METRICS_EXPORTER: "},
		"disabled, and otlp bad":  {[]string{"OTEL_SDK_DISABLED=true"}, []string{"--otlp", "h"}, "otlp: "},
		"statsd without a port":   {nil, []string{"--statsd", "localhost"}, "statsd: "},
		"statsd over tcp":         {nil, []string{"--statsd", "tcp://h:8125"}, "statsd: "},
		"statsd of no path":       {nil, []string{"--statsd", "unix://run/x"}, "statsd: "},
		"statsd of unknown tags":  {nil, []string{"--statsd", "h:8125?tags=some"}, "statsd: "},
		"statsd with a parameter": {nil, []string{"--statsd", "h:8125?tag=none"}, "statsd: "},
	} {
		t.Run(name, func(t *testing.T) {
			got := command(t, c.env, append([]string{"serve"}, c.args...)...)
			if got.status != exitUsage || !strings.Contains(got.errors, c.want) || strings.Contains(got.errors, "secret") {
				t.Errorf("status %d, %q\nwant %d with %q", got.status, got.errors, exitUsage, c.want)
			}
		})
	}
}

// The differences that StatsD gets add up to /metrics, and nothing of them is a key.
func TestStatsD(t *testing.T) {
	folder, err := os.MkdirTemp("", "statsd") //nolint:usetesting // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	for _, network := range []string{"udp", "unixgram"} {
		t.Run(network, func(t *testing.T) {
			address, flag := "127.0.0.1:0", ""
			if network == "unixgram" {
				address = filepath.Join(folder, "dsd.socket")
				flag = "unix://" + address
			}
			socket, err := net.ListenPacket(network, address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { socket.Close() })
			if flag == "" {
				flag = socket.LocalAddr().String()
			}
			rules := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), exportedRules)
			p := startServer(t, nil, "--statsd", flag, "--rules", rules)
			for range 5 {
				checkWithTrace(t, p, callersParent)
			}
			totals := totalsOf(t, p)
			received := make(chan map[string]float64)
			go func() { received <- receiveCounters(t, socket) }()
			p.signal(syscall.SIGTERM)
			if status := p.exit(); status != exitDone {
				t.Errorf("status %d", status)
			}
			_ = socket.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
			got := <-received
			for series, total := range totals {
				if want, _ := strconv.ParseFloat(total, 64); got[series] != want {
					t.Errorf("%s: got %v, want %s", series, got[series], total)
				}
			}
			if got[`stint_decisions_total{decision="deny",rule="orders"}`] != 2 {
				t.Errorf("got %v", got)
			}
		})
	}
}

// receiveCounters adds up the counters in the datagrams of DogStatsD until the deadline of
// the socket.
func receiveCounters(t *testing.T, socket net.PacketConn) map[string]float64 {
	sums := map[string]float64{}
	for packet := make([]byte, 64<<10); ; {
		n, _, err := socket.ReadFrom(packet)
		if err != nil {
			return sums
		}
		if strings.Contains(string(packet[:n]), "planted") {
			t.Error("a key was sent")
		}
		for line := range strings.SplitSeq(string(packet[:n]), "\n") {
			name, rest, _ := strings.Cut(line, ":")
			parts := strings.Split(rest, "|")
			if len(parts) < 2 || parts[1] != "c" {
				continue
			}
			labels := map[string]string{}
			if len(parts) == 3 {
				for tag := range strings.SplitSeq(strings.TrimPrefix(parts[2], "#"), ",") {
					name, value, _ := strings.Cut(tag, ":")
					labels[name] = value
				}
			}
			delta, err := strconv.ParseFloat(parts[0], 64)
			if err != nil {
				t.Errorf("%q: %v", line, err)
			}
			sums[seriesOf(name, labels)] += delta
		}
	}
}
