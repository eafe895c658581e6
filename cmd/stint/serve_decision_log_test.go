package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	commonotlp "go.opentelemetry.io/proto/otlp/common/v1"
	logsotlp "go.opentelemetry.io/proto/otlp/logs/v1"
	traceotlp "go.opentelemetry.io/proto/otlp/trace/v1"
)

const oneAnHour = "rules: [{id: a, by: [api_key], limit: 1/h}]"

// deny sends a request, and the given number of requests that the rule oneAnHour denies.
func deny(t *testing.T, p *process, n int) {
	t.Helper()
	for range n + 1 {
		post(t, p, "/v1/check", `{"attributes":{"api_key":"customer-4711","path":"/x"}}`)
	}
}

// linesOf returns the lines of a file.
func linesOf(t *testing.T, path string) (lines []map[string]any) {
	t.Helper()
	for line := range strings.Lines(contentOf(t, path)) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		lines = append(lines, m)
	}
	return lines
}

// A file that another program renames is opened again at SIGHUP, and what has not been written
// when the server ends is written then.
func TestADecisionLogIsOpenedAgain(t *testing.T) {
	folder := t.TempDir()
	path, key := filepath.Join(folder, "decisions.jsonl"), writeFile(t, filepath.Join(folder, "key"), "0123456789abcdef\n")
	rules := writeFile(t, filepath.Join(folder, "rules.yaml"), oneAnHour)
	p := startServer(t, []string{"STINT_DECISION_LOG=" + path, "STINT_KEY_HASH_FILE=" + key}, "--rules", rules, "--decision-log-sample", "100%")
	deny(t, p, 1)
	p.awaitMetric(`stint_decision_log_lines_total{decision="denied"} 1`)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	await(t, "file", func() (bool, string) { _, err := os.Stat(path); return err == nil, "not opened again" })
	post(t, p, "/v1/check", `{"attributes":{"api_key":"customer-4711","path":"/x"}}`)
	p.signal(syscall.SIGTERM)
	if status := p.exit(); status != 0 {
		t.Errorf("status %d", status)
	}
	before, after := linesOf(t, path+".1"), linesOf(t, path)
	if len(before) != 2 || len(after) != 1 || after[0]["allowed"] != false {
		t.Fatalf("%v\n%v", before, after)
	}
	const id = "89c343b7db005ffe" // printf %s customer-4711 | openssl dgst -sha256 -hmac 0123456789abcdef
	if after[0]["id"] != id || after[0]["key"] != "cust…" {
		t.Errorf("%v, want the id %s", after[0], id)
	}
}

// A reader of standard output that stops reading neither blocks a check nor the end of the
// server.
func TestADecisionLogToAPipeThatNobodyReads(t *testing.T) {
	rules := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), oneAnHour)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	p := startProcessTo(t, writer, "serve", "--http", "127.0.0.1:0", "--grpc", "off", "--admin", "127.0.0.1:0", "--rules", rules,
		"--decision-log", "-", "--decision-log-sample", "100%", "--drain-delay", "0s", "--decision-log-rate", "100000")
	if err := writer.Close(); err != nil { // that of this process: a server that ends, ends the stream
		t.Error(err)
	}
	p.wait("msg=ready")
	body := `{"items":[` + strings.Repeat(`{"attributes":{"api_key":"`+strings.Repeat("k", 100)+`","path":"/`+strings.Repeat("x", 200)+`"}},`, 99) + `{"attributes":{"api_key":"k"}}]}`
	for range 300 { // far more than the pipe and the buffer hold
		post(t, p, "/v1/batch", body)
	}
	if text := p.metrics(); !strings.Contains(text, `stint_decision_log_dropped_total{reason="queue",rule="a"} `) || strings.Contains(text, `reason="queue",rule="a"} 0`+"\n") {
		t.Fatal("no line was dropped")
	}
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil || !strings.Contains(line, `"allowed":true`) {
		t.Errorf("%q, %v", line, err)
	}
	p.signal(syscall.SIGTERM)
	if status := p.exit(); status != 0 {
		t.Errorf("status %d", status)
	}
	if log := strings.Join(p.logged(), "\n"); !regexp.MustCompile(`the last lines are lost.* lines=[1-9]`).MatchString(log) {
		t.Errorf("the log does not say how many lines are lost:\n%s", log)
	}
}

func startProcessTo(t *testing.T, stdout *os.File, args ...string) *process {
	t.Helper()
	c := exec.Command(binary, args...)
	c.Env, c.Stdout = cleanEnvironment(), stdout
	return startCommand(t, c)
}

func TestBadDecisionLogSettingsAreRefused(t *testing.T) {
	folder := t.TempDir()
	short := writeFile(t, filepath.Join(folder, "short"), "secret")
	log := []string{"--decision-log", filepath.Join(folder, "log")}
	for want, args := range map[string][]string{
		"decision-log: open " + folder:                                               {"--decision-log", folder},
		"decision-log: otlp has no address of a collector":                           {"--decision-log", "otlp"},
		"--decision-log: \"" + filepath.Join(folder, "log") + "\" is the second one": append([]string{"--decision-log", "-"}, log...),
		`decision-log-sample: "x" is not a share`:                                    append([]string{"--decision-log-sample", "x"}, log...),
		`decision-log-sample: "1%:key" is not a known form`:                          append([]string{"--decision-log-sample", "1%:key"}, log...),
		"decision-log-sample: there is no decision log":                              {"--decision-log-sample", "2%"},
		"decision-log-rate: 0 is below 1":                                            append([]string{"--decision-log-rate", "0"}, log...),
		"decision-log-max-bytes: -1 is below 0":                                      append([]string{"--decision-log-max-bytes", "-1"}, log...),
		"decision-log-max-age: -1s is below 0":                                       append([]string{"--decision-log-max-age", "-1s"}, log...),
		"decision-log-keep: -1 is below 0":                                           append([]string{"--decision-log-keep", "-1"}, log...),
		"has 6 bytes, and at least 16 are needed":                                    {"--key-hash-file", short},
		"key-hash-file: " + short + ": has 6 bytes":                                  append([]string{"--key-hash-file", short}, log...),
		"key-hash-file: stat " + filepath.Join(folder, "none"):                       append([]string{"--key-hash-file", filepath.Join(folder, "none")}, log...),
		"key-hash-file: is given, and empty":                                         append([]string{"--key-hash-file", ""}, log...),
	} {
		t.Run(want, func(t *testing.T) {
			got := command(t, nil, append([]string{"serve"}, args...)...)
			if got.status != exitUsage || !strings.Contains(got.errors, want) || strings.Contains(got.errors, "secret is") {
				t.Errorf("status %d, %q\nwant %d with %q", got.status, got.errors, exitUsage, want)
			}
		})
	}
}

// What a server decided and logged, a replay by the same rules decides again; other rules show
// what they would have done.
func TestADecisionLogIsReplayed(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "decisions.jsonl")
	const three, one = "rules: [{id: a, match: {path_prefix: /v1/}, by: [api_key], limit: 3/h}]", "rules: [{id: a, match: {path_prefix: /v1/}, by: [api_key], limit: 1/h}]"
	rules, tighter := writeFile(t, filepath.Join(folder, "rules.yaml"), three), writeFile(t, filepath.Join(folder, "tighter.yaml"), one)
	p := startServer(t, nil, "--rules", rules, "--decision-log", path, "--decision-log-sample", "100%")
	for i := range 50 {
		for range 1 + i%5 {
			post(t, p, "/v1/check", fmt.Sprintf(`{"attributes":{"api_key":"customer-%d","path":"/v1/orders","ip":"192.0.2.1"}}`, i))
		}
	}
	post(t, p, "/v1/take", `{"key":"customer-1","limit":"1/h"}`)
	p.signal(syscall.SIGTERM)
	if status := p.exit(); status != 0 {
		t.Errorf("status %d", status)
	}
	for file, want := range map[string]struct{ allowed, denied int }{rules: {120, 30}, tighter: {50, 100}} {
		got := command(t, nil, "replay", "--rules", file, "--json", path)
		var s struct {
			Events, Allowed, Denied, Unreadable int
			DecisionLog                         struct {
				Lines   int
				LeftOut int     `json:"left_out"`
				Callers int     `json:"callers"`
				Share   float64 `json:"share_of_callers"`
			} `json:"decision_log"`
		}
		if err := json.Unmarshal([]byte(got.out), &s); err != nil {
			t.Fatalf("%v: %s%s", err, got.out, got.errors)
		}
		if l := s.DecisionLog; s.Allowed != want.allowed || s.Denied != want.denied || s.Unreadable != 0 || l.Lines != 151 || l.LeftOut != 1 || l.Callers != 50 || l.Share != 1 {
			t.Errorf("%s: %+v, want %+v", filepath.Base(file), s, want)
		}
	}
}

// The lines are log records with the same members as attributes, in the trace of the request.
// What is sent and what is dropped are all decisions.
func TestADecisionLogOverOTLP(t *testing.T) {
	rules := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), exportedRules)
	for name, overGRPC := range map[string]bool{"grpc": true, "http": false} {
		t.Run(name, func(t *testing.T) {
			c, url := startCollector(t, overGRPC)
			p := startServer(t, quick("OTEL_EXPORTER_OTLP_HEADERS=x-tenant=acme", "OTEL_SERVICE_NAME=limiter", "STINT_DECISION_LOG=otlp"),
				"--otlp", url, "--rules", rules, "--decision-log-sample", "100%")
			for range 3 {
				checkWithTrace(t, p, callersParent)
			}
			checkWithTrace(t, p, strings.TrimSuffix(callersParent, "1")+"0") // denied, and not sampled
			post(t, p, "/v1/take", `{"key":"`+plantedKey+`","limit":"1/h"}`)
			span, _ := c.span(t, "POST /v1/check")
			eventually(t, "the lines do not arrive", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return len(c.logs) == 5
			})
			p.awaitMetric(`stint_decision_log_lines_total{decision="allowed"} 4`)
			p.awaitMetric(`stint_decision_log_lines_total{decision="denied"} 1`)
			wantRecords(t, c, span)
			c.wantNoPlanted(t, p, plantedKey[:len("planted-")])
			p.signal(syscall.SIGTERM)
			if status := p.exit(); status != exitDone {
				t.Errorf("status %d", status)
			}
		})
	}
}

// wantRecords checks the records of three allowed checks in a trace, of a denied one, and of a
// take.
func wantRecords(t *testing.T, c *collector, span *traceotlp.Span) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	allowed, denied, take := c.logs[0], c.logs[3], c.logs[4]
	for _, want := range []struct {
		record   *logsotlp.LogRecord
		severity logsotlp.SeverityNumber
		body     string
	}{
		{allowed, logsotlp.SeverityNumber_SEVERITY_NUMBER_INFO, "allowed by orders/token_bucket:1h"},
		{denied, logsotlp.SeverityNumber_SEVERITY_NUMBER_WARN, "denied by orders/token_bucket:1h"},
		{take, logsotlp.SeverityNumber_SEVERITY_NUMBER_INFO, "allowed by (take)"},
	} {
		if r := want.record; r.GetSeverityNumber() != want.severity || r.GetBody().GetStringValue() != want.body || r.GetEventName() != "stint.decision" {
			t.Errorf("%v", r)
		}
	}
	if !bytes.Equal(allowed.GetTraceId(), span.GetTraceId()) || !slices.ContainsFunc(c.spans, func(s *traceotlp.Span) bool {
		return s.GetName() == "POST /v1/check" && bytes.Equal(s.GetSpanId(), allowed.GetSpanId())
	}) || len(denied.GetTraceId()) > 0 || len(denied.GetSpanId()) > 0 {
		t.Error("the records are not in the traces of their requests")
	}
	got := textsOf(denied.GetAttributes())
	for attribute, value := range map[string]string{
		"rule": "orders", "limit_name": "token_bucket:1h", "allowed": "false", "degraded": "false", "limit": "3", "remaining": "0", "cost": "1", "sampled": "true",
		"key": "planted…", "path": "/…",
	} {
		if got[attribute] != value {
			t.Errorf("%s is %q, want %q", attribute, got[attribute], value)
		}
	}
	for _, member := range []string{"t_us", "id", "api_key", "retry_after_us", "sample_rate", "limits"} {
		if !slices.ContainsFunc(denied.GetAttributes(), func(a *commonotlp.KeyValue) bool { return a.GetKey() == member }) {
			t.Errorf("the record has no attribute %s: %v", member, denied.GetAttributes())
		}
	}
}

// With the SDK disabled nothing is sent, and the server starts.
func TestADecisionLogOverADisabledSDK(t *testing.T) {
	p := startServer(t, []string{"OTEL_SDK_DISABLED=true"}, "--otlp", "http://127.0.0.1:1", "--decision-log", "otlp")
	p.wait("decision log: nothing is logged, because OTEL_SDK_DISABLED is true")
}
