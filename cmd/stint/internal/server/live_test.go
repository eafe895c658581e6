package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/live"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/rule"
)

// liveSeconds opens the live view, and returns its seconds and the text that follows the last one.
func liveSeconds(t *testing.T, s *running) (next func() live.Second, rest func() string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url("admin", "/v1/live"), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	lines := bufio.NewReader(answer.Body)
	next = func() (second live.Second) {
		for event := ""; ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				event = strings.TrimSpace(name)
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok && event == "second" {
				if err := json.Unmarshal([]byte(data), &second); err != nil {
					t.Fatal(err)
				}
				return second
			}
		}
	}
	return next, func() string { text, _ := io.ReadAll(lines); return string(text) }
}

func TestTheLiveViewShowsWhatIsDecided(t *testing.T) {
	// The bound on the time of a request must not end the stream.
	s := run(t, Config{BodyTimeout: 300 * time.Millisecond, Rules: rulesFile(t, `
rules:
  - {id: few, match: {path: /few}, by: [api_key], limit: 1, window: 60}
  - {id: looks, match: {path: /few}, by: [api_key], limit: 1, window: 60, mode: shadow}
`)})
	next, rest := liveSeconds(t, s)
	for range 3 {
		s.post("http", "/v1/check", `{"attributes":{"api_key":"k","path":"/few"}}`)
	}
	s.post("http", "/v1/check", `{"attributes":{"api_key":"k","path":"/other"}}`)
	s.post("http", "/v1/take", `{"key":"k","limit":"1/m"}`)
	var sum live.Second
	rules := map[string]live.Counts{}
	for sum.Allowed+sum.Denied < 5 {
		one := next()
		sum.Allowed, sum.Denied, sum.Unmatched = sum.Allowed+one.Allowed, sum.Denied+one.Denied, sum.Unmatched+one.Unmatched
		if one.Allowed > 0 && (one.CheckP99 == nil || one.StoreP99 == nil) {
			t.Errorf("no durations: %+v", one)
		}
		for _, r := range one.Rules {
			c := rules[r.Rule]
			rules[r.Rule] = live.Counts{Allowed: c.Allowed + r.Allowed, Denied: c.Denied + r.Denied}
		}
	}
	if sum.Allowed != 3 || sum.Denied != 2 || sum.Unmatched != 1 {
		t.Errorf("%+v", sum)
	}
	if rules["few"] != (live.Counts{Allowed: 1, Denied: 2}) || rules["(take)"] != (live.Counts{Allowed: 1}) || rules["looks"].Allowed != 1 {
		t.Errorf("%v", rules)
	}
	for range 2 {
		next()
	}
	if body := s.get("admin", "/nodes").body; !strings.Contains(body, `"traffic":{"time_ms":`) {
		t.Error(body)
	}
	stopped := time.Now()
	s.stop()
	if text := rest(); !strings.HasSuffix(text, "event: end\ndata: {\"reason\":\"shutdown\"}\n\n") {
		t.Errorf("%q", text)
	}
	if err := s.end(); err != nil || strings.Contains(s.logs.String(), "requests cut off") {
		t.Errorf("an open view delays the drain by %v: %v\n%s", time.Since(stopped), err, s.logs)
	}
}

func TestARunningServerReplays(t *testing.T) {
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	writeFile(t, log, `{"t_us":1700000040000000,"api_key":"k","path":"/few"}`+"\n"+`{"t_us":1700000040000001,"api_key":"k","path":"/few"}`+"\n")
	s := run(t, Config{DecisionLogFile: log, Rules: rulesFile(t, "rules:\n  - {id: few, match: {path: /few}, by: [api_key], limit: 1, window: 60}\n")})
	const form = "--x\r\nContent-Disposition: form-data; name=\"source\"\r\n\r\ndecision_log\r\n--x--\r\n"
	got := s.do(http.MethodPost, "admin", "/v1/replay", form, []string{"Content-Type", "multipart/form-data; boundary=x"})
	if got.status != http.StatusOK || !strings.Contains(got.body, "event: report\ndata: {\"complete\":true,\"files\":1,\"report\":{\"events\":2,\"keys\":1,\"allowed\":1,\"denied\":1,") {
		t.Errorf("status %d: %s", got.status, got.body)
	}
	if got := s.post("http", "/v1/check", `{"attributes":{"api_key":"k","path":"/few"}}`).decoded(t); got["allowed"] != true {
		t.Errorf("the replay has touched a live key: %v", got)
	}
}

// BenchmarkReadLive measures what the live view costs each second with 10,000 rules.
func BenchmarkReadLive(b *testing.B) {
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "  - {id: r%d, by: [api_key], limit: 10, window: 60}\n", i)
	}
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(text.String())})
	if err != nil {
		b.Fatal(err)
	}
	m, calls := metrics.New(metrics.Options{}), metrics.NewStoreCalls(false)
	counters := m.Rules(set)
	r := live.New(func(to *live.Reading) { m.ReadLive(to, []metrics.StoreReader{{Calls: calls}}, counters) })
	now := time.Now()
	r.Record(now)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Second)
		r.Record(now)
	}
}
