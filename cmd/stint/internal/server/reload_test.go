package server

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/rule"
)

func TestReloadIsWholeOrNot(t *testing.T) {
	file := rulesFile(t, orders)
	s := run(t, Config{Rules: file})
	const body = `{"attributes":{"api_key":"k","path":"/v1/orders"}}`
	deciding := func() any { return s.post("http", "/v1/check", body).decoded(t)["rule"] }

	writeFile(t, file, strings.Replace(orders, "limit: 2", "limmit: 2", 1))
	s.Reload()
	s.logs.wait(t, "rules rejected")
	if rule := deciding(); rule != "orders" {
		t.Errorf("rule %v decides, want the last good one", rule)
	}
	s.wantMetric(`stint_rules_version 1`, true)
	s.wantMetric(`stint_rules_reloads_total{result="ok"} 0`, true)

	writeFile(t, file, strings.Replace(orders, "id: orders", "id: renamed", 1))
	s.Reload()
	s.logs.wait(t, "rules reloaded")
	if rule := deciding(); rule != "renamed" {
		t.Errorf("rule %v decides after a reload", rule)
	}
	s.wantMetric(`stint_rules_version 1`, false)
	s.wantMetric(`stint_rules_reloads_total{result="ok"} 0`, false)
	s.wantMetric(`stint_decisions_total{decision="allow",rule="renamed"} 1`, true)
	if text := s.get("admin", "/metrics").body; strings.Contains(text, `rule="orders"`) {
		t.Error("the metrics of a rule that is gone are kept for good")
	}
}

func TestReloadKeepsWhatWasUsed(t *testing.T) {
	file := rulesFile(t, orders)
	s := run(t, Config{Rules: file})
	const body = `{"attributes":{"api_key":"k","path":"/v1/orders"},"cost":2}`
	s.post("http", "/v1/check", body)
	writeFile(t, file, strings.Replace(orders, "limit: 2", "limit: 3", 1))
	s.Reload()
	s.logs.wait(t, "rules reloaded")
	got := s.post("http", "/v1/check", body).decoded(t)
	if got["allowed"] != false || got["remaining"] != 1.0 {
		t.Errorf("2 of 3 are used: %v", got)
	}
}

func TestRulesThatCannotBeFollowedAreServedAndReloaded(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "rules")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "rules.yaml")
	writeFile(t, file, orders)
	m := metrics.New(metrics.Options{})
	logs := newLogBuffer()
	r, err := newRules(&Config{Rules: file, Logger: slog.New(slog.NewTextHandler(logs, nil))}, failing{}, nil, nil, nil, m)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { r.manager.Run(t.Context()); close(done) }()
	t.Cleanup(func() { <-done })
	<-r.manager.Following()
	logs.wait(t, "cannot be watched")
	if got := len(r.current.Load().set.Rules()); got != 1 {
		t.Errorf("%d rules are served", got)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, file, "rules: []\n")
	r.reload()
	logs.wait(t, "rules reloaded")
	if set, v := r.manager.Current(); v.Number != 2 || len(r.current.Load().set.Rules()) != 0 {
		t.Errorf("version %d with %d rules", v.Number, len(set.Rules()))
	}
}

// The file is removed and comes back. The metrics of the alerts show both.
func TestMetricsTellOfASourceThatFails(t *testing.T) {
	file := rulesFile(t, orders)
	s := run(t, Config{Rules: file})
	s.wantMetric(`stint_rules_source_up 1`, true)
	s.wantMetric(`stint_rules_poll_failures_total 0`, true)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	s.logs.wait(t, "rules rejected")
	s.wantMetric(`stint_rules_source_up 0`, true)
	s.wantMetric(`stint_rules_poll_failures_total 0`, false)
	writeFile(t, file, strings.Replace(orders, "limit: 2", "limit: 3", 1))
	s.logs.wait(t, "rules reloaded")
	s.wantMetric(`stint_rules_source_up 1`, true)
	s.wantMetric(`stint_rules_version 2`, true)
}

// A file with a mistake is put back as it was. The time of the last success goes on, though
// no new version came into force.
func TestMetricsTellOfRulesThatAreRejected(t *testing.T) {
	file := rulesFile(t, orders)
	s := run(t, Config{Rules: file})
	const family = "stint_rules_last_success_timestamp_seconds "
	success := func() string {
		_, rest, _ := strings.Cut(s.get("admin", "/metrics").body, "\n"+family)
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	writeFile(t, file, "rules: [")
	s.logs.wait(t, "rules rejected")
	before := success()
	writeFile(t, file, orders)
	for late := time.Now().Add(patience); success() == before; { // the check logs nothing
		if time.Now().After(late) {
			t.Fatalf("the last success stays at %s", before)
		}
	}
}

// Nodes whose files are the same show the same hash, whatever their numbers of versions.
func TestMetricsTellNodesWithOtherRules(t *testing.T) {
	hash := func(s *running) string {
		_, rest, _ := strings.Cut(s.get("admin", "/metrics").body, "\nstint_rules_hash ")
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	one, other := run(t, Config{Rules: rulesFile(t, orders)}), run(t, Config{Rules: rulesFile(t, orders)})
	if hash(one) == "" || hash(one) == "0" || hash(one) != hash(other) {
		t.Errorf("the hashes are %q and %q", hash(one), hash(other))
	}
	changed := run(t, Config{Rules: rulesFile(t, strings.Replace(orders, "limit: 2", "limit: 3", 1))})
	if hash(changed) == hash(one) || hash(run(t, Config{})) == hash(one) {
		t.Error("other rules have the same hash")
	}
}

func TestALoweredLimitKeepsWhatWasUsed(t *testing.T) {
	file := rulesFile(t, strings.Replace(orders, "limit: 2", "limit: 4", 1))
	s := run(t, Config{Rules: file})
	const body = `{"attributes":{"api_key":"k","path":"/v1/orders"},"cost":3}`
	s.post("http", "/v1/check", body)
	writeFile(t, file, orders)
	s.logs.wait(t, "rules reloaded")
	got := s.post("http", "/v1/check", strings.Replace(body, "3}", "1}", 1)).decoded(t)
	if got["limit"] != 2.0 || got["allowed"] != false {
		t.Errorf("3 are used, and the limit is 2: %v", got)
	}
}

func TestReloadOfBuiltInRulesDoesNothing(t *testing.T) {
	s := run(t, Config{})
	s.Reload()
	s.logs.wait(t, "nothing to reload")
}

func TestWrongRulesAreRefusedAtOnce(t *testing.T) {
	_, err := New(Config{Store: failing{}, Rules: rulesFile(t, "rules:\n  - {id: a, limit: 0, window: 60}\n  - {id: b}\n")})
	var problems rule.Problems
	if !errors.As(err, &problems) || len(problems) < 2 {
		t.Errorf("%v", err)
	}
}

// A file may be empty for a moment while it is written, or by mistake for longer.
func TestAnEmptiedFileKeepsTheRules(t *testing.T) {
	file := rulesFile(t, orders)
	s := run(t, Config{Rules: file})
	writeFile(t, file, "")
	s.logs.wait(t, "has become empty")
	if rule := s.post("http", "/v1/check", `{"attributes":{"api_key":"k","path":"/v1/orders"}}`).decoded(t)["rule"]; rule != "orders" {
		t.Errorf("rule %v decides, want the last good one", rule)
	}
	writeFile(t, file, "rules: []\n")
	s.logs.wait(t, "nothing is limited")
}

func TestAFileThatIsEmptyFromTheStartIsServedWithAWarning(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, "")})
	s.logs.wait(t, "nothing is limited")
	if got := s.get("http", "/readyz"); got.status != 200 {
		t.Errorf("/readyz: status %d", got.status)
	}
}

func TestEmptyRulesAreServed(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, "rules: []\n")})
	wantJSON(t, s.post("http", "/v1/check", `{"attributes":{"ip":"203.0.113.1"}}`).body, `{"allowed":true,"limits":[]}`)
	if got := s.get("http", "/readyz"); got.status != 200 {
		t.Errorf("/readyz: status %d", got.status)
	}
}

func TestBuiltInRulesLimitAnAddress(t *testing.T) {
	s := run(t, Config{})
	got := s.post("http", "/v1/check", `{"attributes":{"ip":"203.0.113.1","method":"GET","path":"/"}}`).decoded(t)
	if got["allowed"] != true || len(got["limits"].([]any)) == 0 {
		t.Errorf("%v", got)
	}
}

func TestListenersOpenAllOrNone(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s, err := New(Config{Store: failing{}, HTTP: "127.0.0.1:0", Admin: taken.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "admin: ") {
		t.Errorf("error %v", err)
	}
	if conn, err := net.Dial("tcp", s.Addr("http").String()); err == nil {
		conn.Close()
		t.Error("http stays open")
	}
}
