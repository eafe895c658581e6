package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decisionlog"
	"github.com/stintdev/stint/httplimit"
)

// decisionLog returns a log and the path of its file.
func decisionLog(t *testing.T, o decisionlog.Options) (*decisionlog.Log, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	file, err := decisionlog.Open(decisionlog.FileOptions{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	o.Sink = file
	return decisionlog.New(o), path
}

// logLine is what the tests read of a line.
type logLine struct {
	Key      string
	Trace    string `json:"trace_id"`
	Limits   []string
	Shadow   []string `json:"shadow_deny"`
	Rule     string
	Allowed  bool
	Degraded bool
	Method   string
	Path     string
	Limit    int64
	Rate     float64 `json:"sample_rate"`
}

// endLog ends the server and returns the lines of its decision log.
func (r *running) endLog(path string) (lines []logLine) {
	r.t.Helper()
	r.stop()
	if err := r.end(); err != nil {
		r.t.Error(err)
	}
	for line := range strings.Lines(readFile(r.t, path)) {
		var l logLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			r.t.Fatalf("%s: %v", line, err)
		}
		lines = append(lines, l)
	}
	return lines
}

var droppedLine = regexp.MustCompile(`(?m)^stint_decision_log_dropped_total\{reason="(\w+)",rule="([^"]*)"\} (\d+)$`)

// droppedLines returns what the metrics say was dropped of denied decisions, by rule.
func (r *running) droppedLines() map[string]int {
	r.t.Helper()
	by := map[string]int{}
	for _, m := range droppedLine.FindAllStringSubmatch(r.get("admin", "/metrics").body, -1) {
		n, err := strconv.Atoi(m[3])
		if err != nil {
			r.t.Fatal(err)
		}
		if m[1] != decisionlog.OfAllowed {
			by[m[2]] += n
		}
	}
	return by
}

// An attack on one rule hides no denial of another, and every denial of every surface is
// written or counted.
func TestEveryDenialIsLoggedOrCounted(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	defer upstream.Close()
	to, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	log, path := decisionLog(t, decisionlog.Options{Rate: 80, Sample: decisionlog.Sample{Share: 0}})
	s := run(t, Config{DecisionLog: log, RESP: "127.0.0.1:0", Gateway: "127.0.0.1:0", Upstreams: []*url.URL{to}, Rules: rulesFile(t, `
blacklist: ["banned"]
rules:
- {id: attacked, match: {path_prefix: /attacked}, by: [api_key], limit: 1/h}
- {id: quiet, match: {path_prefix: /quiet}, by: [api_key], limit: 1/h}
`)})
	var attack sync.WaitGroup
	for range 4 {
		attack.Go(func() {
			for range 75 {
				s.post("http", "/v1/check", `{"attributes":{"api_key":"k","path":"/attacked"}}`)
			}
		})
	}
	attack.Wait()
	for range 3 {
		s.post("http", "/v1/take", `{"key":"t","limit":"1/h"}`)
		s.get("http", "/v1/auth/quiet", "X-Api-Key", "k")
		s.get("gateway", "/quiet", "X-Api-Key", "k")
	}
	s.post("http", "/v1/check", `{"attributes":{"api_key":"banned","path":"/quiet"}}`)
	conn := dial(t, s.Addr("resp"))
	for range 3 {
		askRESP(t, conn, "CL.THROTTLE resp 0 1 3600", 6)
	}
	dropped := s.droppedLines()
	written := map[string]int{}
	lines := s.endLog(path)
	for _, l := range lines {
		written[l.Rule]++
		if l.Allowed || l.Rate != 1 {
			t.Errorf("%+v", l)
		}
	}
	for rule, want := range map[string]int{"attacked": 299, "quiet": 5, decisionlog.Takes: 2 + 2, "": 1} {
		if written[rule]+dropped[rule] != want || written[rule] == 0 {
			t.Errorf("rule %q: %d written, %d dropped of %d denied", rule, written[rule], dropped[rule], want)
		}
	}
	if dropped["attacked"] == 0 || dropped["quiet"] > 0 {
		t.Errorf("dropped: %v", dropped)
	}
}

// Planted keys are in no line of the decision log and in no metric, wherever requests carry
// them.
func TestThePlantedKeyIsNotInTheDecisionLog(t *testing.T) {
	const planted = "sk_live_PLANTED_0123456789"
	var sources []httplimit.Source
	for _, text := range []string{"bearer", "header:X-API-Key", "query:key", "cookie:session"} {
		source, err := httplimit.ParseSource(text)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, source)
	}
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	to, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	log, path := decisionLog(t, decisionlog.Options{Sample: decisionlog.Sample{Share: 1}, Rate: 10_000})
	s := run(t, Config{DecisionLog: log, Gateway: "127.0.0.1:0", RESP: "127.0.0.1:0", Upstreams: []*url.URL{to}, TrustedProxies: thisMachine,
		Identity: httplimit.Identity{APIKey: sources}, Rules: rulesFile(t, `
rules:
- {id: keys, by: [api_key], limit: 3/h}
- {id: headers, match: {path_prefix: /h}, by: ["header:authorization", "query:key", "cookie:session", "header:x-other"], missing: skip, limit: 3/h}
- {id: paths, mode: shadow, by: [path], limit: 3/h}
`)})
	carry := [][]string{
		{"/h", "Authorization", "Bearer " + planted}, {"/h", "X-Api-Key", planted}, {"/h?key=" + planted}, {"/h", "Cookie", "session=" + planted},
		{"/h/" + planted, "X-Api-Key", planted}, {"/h/sk%5Flive_PLANTED%5f0123456789/x", "X-Api-Key", planted}, {"/h/a;k=" + planted, "X-Api-Key", planted},
		{"/h", "X-Other", planted, "X-Api-Key", planted},
		{"/h", "Authorization", "Bearer eyJhbGciOiJIUzI1NiJ9.e30." + planted},
	}
	for _, surface := range []string{"gateway", "http"} {
		for _, c := range carry {
			target := c[0]
			if surface == "http" {
				target = "/v1/auth" + target
			}
			for range 2 {
				s.get(surface, target, c[1:]...)
			}
		}
	}
	for range 5 {
		s.post("http", "/v1/check", `{"attributes":{"api_key":"`+planted+`","path":"/h/`+planted+`","host":"`+planted+`","tier":"`+planted+`","header:x-other":"`+planted+`","ip":"192.0.2.1"}}`)
		s.post("http", "/v1/take", `{"key":"`+planted+`","limit":{"name":"`+planted+`","limit":1,"window":"1h"}}`)
	}
	conn := dial(t, s.Addr("resp"))
	for range 3 {
		askRESP(t, conn, "CL.THROTTLE "+planted+" 0 1 3600", 6)
	}
	metrics := s.get("admin", "/metrics").body
	lines := s.endLog(path)
	text := readFile(t, path)
	if len(lines) < 40 || !strings.Contains(text, `"allowed":false`) || !strings.Contains(text, `"allowed":true`) {
		t.Errorf("%d lines", len(lines))
	}
	for name, text := range map[string]string{"decision log": text, "metrics": metrics, "log": s.logs.String()} {
		for _, form := range []string{planted, "PLANTED", url.QueryEscape(planted)} {
			if i := strings.Index(text, form); i >= 0 {
				t.Errorf("the %s has %q: …%s…", name, form, text[max(0, i-300):min(len(text), i+50)])
			}
		}
	}
}

// Decisions without the store are logged whatever the sample is.
func TestDegradedDecisionsAreLogged(t *testing.T) {
	log, path := decisionLog(t, decisionlog.Options{Sample: decisionlog.Sample{Share: 0}})
	s := run(t, Config{DecisionLog: log, Store: degrading{stint.NewMemory(stint.MemoryOptions{})}, Rules: rulesFile(t, "rules: [{id: a, by: [api_key], limit: 1/h}]")})
	s.post("http", "/v1/check", `{"attributes":{"api_key":"k","path":"/x"}}`)
	lines := s.endLog(path)
	if want := (logLine{Rule: "a", Allowed: true, Degraded: true, Path: "/x", Rate: 1, Key: "…", Limits: []string{"a/token_bucket:1h"}}); len(lines) != 1 || fmt.Sprint(lines[0]) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", lines, want)
	}
}

// degrading is a store whose decisions are those of a rule that fails open.
type degrading struct{ stint.Store }

func (degrading) Take(context.Context, stint.Claim) (stint.Decision, error) {
	return stint.Decision{Allowed: true, Degraded: true}, nil
}

func (degrading) TakeGroups(_ context.Context, _ []stint.Group, out []stint.Decision) error {
	for i := range out {
		out[i] = stint.Decision{Allowed: true, Degraded: true}
	}
	return nil
}

// A request on any surface has one line, which names its rule and its trace.
func TestEverySurfaceHasALine(t *testing.T) {
	log, path := decisionLog(t, decisionlog.Options{Sample: decisionlog.Sample{Share: 1}})
	s, _ := runEnvoy(t, withGateway(t, Config{DecisionLog: log, RESP: "127.0.0.1:0", TrustedProxies: thisMachine, Rules: rulesFile(t, "rules: [{id: keys, by: [api_key], limit: 9/h}]")}))
	const trace = "0af7651916cd43dd8448eb211c80319c"
	calls := tracedCalls()
	for name, c := range calls {
		c.call(t, s, strings.Repeat(name, 3), "00-"+trace+"-b7ad6b7169203331-01") // of the key, a line has the first third
	}
	askRESP(t, dial(t, s.Addr("resp")), "CL.THROTTLE respresprespresp 9 9 3600", 6)
	lines := map[string][]logLine{}
	for _, l := range s.endLog(path) {
		name, _, _ := strings.Cut(l.Key, "…")
		lines[name] = append(lines[name], l)
	}
	rules := map[string]string{"take": decisionlog.Takes, "Take": decisionlog.Takes, "TakeB": decisionlog.Takes, "StreamT": decisionlog.Takes, "rls": "shop", "rlsJSON": "shop"}
	for name := range calls {
		got := lines[name]
		if want := cmp.Or(rules[name], "keys"); len(got) != 1 || got[0].Rule != want || got[0].Trace != trace || !got[0].Allowed {
			t.Errorf("%s has the lines %+v, want one of %s", name, got, want)
		}
	}
	if got := lines["respr"]; len(got) != 1 || got[0].Rule != decisionlog.Takes || got[0].Trace != "" || len(lines) != len(calls)+1 {
		t.Errorf("RESP has the lines %+v, all %+v", got, lines)
	}
}

// Denials of Envoy's rate limit service are lines of their domain. Limits that only observe, and
// the whole service in shadow mode, show what they would have denied.
func TestEnvoysDenialsAreLogged(t *testing.T) {
	for _, shadow := range []bool{false, true} {
		share := 0.0
		if shadow {
			share = 1
		}
		log, path := decisionLog(t, decisionlog.Options{Sample: decisionlog.Sample{Share: share}})
		s, client := runEnvoy(t, Config{DecisionLog: log, EnvoyShadow: shadow, EnvoyCompat: shadow})
		if s.droppedLines()["shop"] != 0 || !strings.Contains(s.get("admin", "/metrics").body, `stint_decision_log_dropped_total{reason="rate",rule="shop"} 0`) {
			t.Error("the domain has no series before its first line")
		}
		for range 5 {
			if _, err := client.ShouldRateLimit(patient(t), ofUser("sk_live_planted", 1)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := client.ShouldRateLimit(patient(t), &ratelimitpb.RateLimitRequest{Domain: "invented", Descriptors: ofUser("u", 1).GetDescriptors()}); err != nil {
			t.Fatal(err)
		}
		lines := s.endLog(path)
		if shadow {
			if len(lines) != 6 || !lines[4].Allowed || fmt.Sprint(lines[4].Shadow) != "[shop.user]" || lines[2].Shadow != nil || lines[5].Rule != "" {
				t.Errorf("in shadow mode: %+v", lines)
			}
			continue
		}
		if len(lines) != 2 {
			t.Fatalf("%d lines of 2 denials: %+v", len(lines), lines)
		}
		want := logLine{Rule: "shop", Limit: 3, Rate: 1, Key: "sk_li…|u…|s…", Limits: []string{"shop.user"}}
		if fmt.Sprint(lines[0]) != fmt.Sprint(want) || strings.Contains(readFile(t, path), "planted") {
			t.Errorf("%+v, want %+v", lines[0], want)
		}
	}
}
