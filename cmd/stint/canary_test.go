package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stintdev/stint/internal/redistest"
)

const (
	canaryOld = "rules:\n  - {id: a, by: [api_key], limit: 1000, window: 1h}\n  - {id: paths, by: [path], limit: 100000, window: 1h}\n"
	canaryNew = "rules:\n  - {id: a, by: [api_key], limit: 1, window: 1h}\n  - {id: paths, by: [path], limit: 2, window: 1h}\n"
)

// canaryFleet is three servers with their rules in Redis, of which the commands call the first.
type canaryFleet struct {
	*administered

	nodes []*process
	rules string // URL of the rules
	log   string // decision log of the first
}

func newCanaryFleet(t *testing.T, args ...string) *canaryFleet {
	t.Helper()
	redis := redistest.Server(t)
	f := &canaryFleet{rules: "redis://" + redis.Addr()}
	for i := range 3 {
		folder := filepath.Join(t.TempDir(), fmt.Sprint(i))
		f.nodes = append(f.nodes, startServer(t, nil, append([]string{"--rules", f.rules, "--store", f.rules, "--state-dir", folder, "--decision-log", folder + ".jsonl"}, args...)...))
		if i == 0 {
			f.log = folder + ".jsonl"
		}
	}
	f.administered = &administered{f.nodes[0], []string{"STINT_SERVER=http://" + f.nodes[0].addr("admin")}, t.TempDir()}
	f.run(exitDone, []string{"version 1"}, "rules", "apply", f.file("old.yaml", canaryOld))
	return f
}

// await waits until every node has logged a text.
func (f *canaryFleet) await(text string) {
	f.t.Helper()
	for _, n := range f.nodes {
		n.wait(text)
	}
}

// limits checks one request of each key by one call, and returns the limits of rule a that they
// met.
func limits(t *testing.T, n *process, keys []string) map[string]int64 {
	t.Helper()
	var items []string
	for _, key := range keys {
		items = append(items, fmt.Sprintf(`{"attributes":{"api_key":%q,"path":"/x","ip":"192.0.2.1"}}`, key))
	}
	var answer struct {
		Answers []struct {
			Limits []struct {
				Rule  string `json:"rule"`
				Limit int64  `json:"limit"`
			} `json:"limits"`
		} `json:"answers"`
	}
	body := posted(t, "http://"+n.addr("http")+"/v1/batch", `{"items":[`+strings.Join(items, ",")+`]}`)
	if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Answers) != len(keys) {
		t.Fatalf("%v in %.300s", err, body)
	}
	met := map[string]int64{}
	for i, one := range answer.Answers {
		for _, l := range one.Limits {
			if l.Rule == "a" {
				met[keys[i]] = l.Limit
			}
		}
	}
	return met
}

func posted(t *testing.T, url, body string) string {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%d %s, %v", r.StatusCode, text, err)
	}
	return string(text)
}

func canaryKeys(n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("sk_live_%d", i))
	}
	return keys
}

// sides splits keys by the limit of rule a that they meet.
func sides(met map[string]int64) (canary, control []string) {
	for key, limit := range met {
		if limit == 1 {
			canary = append(canary, key)
		} else {
			control = append(control, key)
		}
	}
	slices.Sort(canary)
	slices.Sort(control)
	return canary, control
}

// The denials of a rule that only a canary has are found like others.
func TestDenialsOfACanary(t *testing.T) {
	f := newCanaryFleet(t)
	f.run(exitDone, nil, "rules", "apply", "--yes", "--canary", "50%", f.file("tried.yaml",
		strings.TrimSpace(canaryOld)+"\n  - {id: tried, match: {path: /x}, by: [api_key, ip], limit: 1, window: 1h}\n"))
	keys := canaryKeys(20)
	for range 2 {
		limits(t, f.nodes[0], keys)
	}
	f.run(exitDone, []string{" tried "}, "denied", "--rule", "tried")
	redistest.Await(t, func() error { // the log is written a moment later
		text, err := os.ReadFile(f.log)
		if n := strings.Count(string(text), `"rule":"tried"`); err == nil && (n == 0 || n != strings.Count(string(text), `,"canary":2,`)) {
			err = fmt.Errorf("%d lines are of the rule of the canary:\n%s", n, text)
		}
		return err
	})
	denied := 0
	for _, key := range keys {
		got := f.run(exitDone, nil, "key", "why", "--rule", "tried", "--attribute", "api_key="+key, "--attribute", "ip=192.0.2.1")
		denied += strings.Count(got.out, " tried ")
	}
	if denied == 0 || denied == len(keys) {
		t.Errorf("%d of %d keys are denied by the rule of the canary", denied, len(keys))
	}
	f.run(exitFailed, []string{"not in the rules"}, "key", "why", "--rule", "none", "sk_live_1")
}

// Real denials abort the canary, on every node, and all nodes agree about each caller before.
func TestACanaryIsAbortedWhenItDenies(t *testing.T) {
	f := newCanaryFleet(t)
	applied := f.run(exitDone, []string{"version 2 is published as a canary", "canary: 50 % of the callers by api_key get these rules, and the others keep version 1",
		"not tried before the promotion, because callers of both sides share the counts: the limits of paths", "  paths: ", "it is promoted by hand"}, "rules", "apply", "--yes", "--canary", "50%", f.file("new.yaml", canaryNew))
	if strings.Contains(applied.out, "  paths: 100000/h → 2/h\n  paths") {
		t.Error(applied.out)
	}
	f.await(`msg="canary on" canary=2 share=0.5 by=api_key control=1`)
	if m := metricsOf(t, f.nodes[0]); !strings.Contains(m, `stint_canary_ends_total{reason="denied",result="aborted"} 0`) {
		t.Error("an alert would not notice the first canary that is aborted")
	}
	keys := canaryKeys(200)
	canary, control := sides(limits(t, f.nodes[0], keys))
	if len(canary) < 60 || len(canary) > 140 || len(canary)+len(control) != len(keys) {
		t.Fatalf("%d of %d callers are in the canary", len(canary), len(keys))
	}
	f.run(exitDone, []string{"version 2 for 50 %", "too few requests to judge"}, "rules", "canary")
	f.run(exitDone, []string{"version 2 for 50 %"}, "rules", "canary", "--source", f.rules)
	for want, args := range map[string][]string{"; these are the old rules, which all others have\n": nil, "; these are its new rules\n": {"2"}} {
		if got := f.run(exitDone, nil, append([]string{"rules", "show"}, args...)...); !strings.HasSuffix(got.errors, ", a canary for 50 % of the callers"+want) || strings.Contains(got.out, "limit: 1,") != (args != nil) {
			t.Errorf("show %v: %s%s", args, got.errors, got.out)
		}
	}
	for want, args := range map[string][]string{"version 2, the new rules of its canary": {"--rules", "live", "--against", "2"}, "version 2, the old rules beside its canary": {"--rules", "2", "--against", "live"}} {
		f.run(exitDone, []string{"\ncompared with " + want + "\n"}, append(append([]string{"replay"}, args...), sampleLog)...)
	}
	f.run(exitFailed, []string{"409", "version 2 is a canary"}, "rules", "apply", "--yes", f.file("other.yaml", adminRules))
	for i := range 15 {
		other, _ := sides(limits(t, f.nodes[i%3], keys))
		if !slices.Equal(other, canary) {
			t.Fatalf("node %d has other callers in the canary", i%3)
		}
	}
	// The surfaces of HTTP requests agree with the check API.
	for key, limit := range map[string]string{canary[0]: "1", control[0]: "1000"} {
		r, err := http.NewRequest(http.MethodGet, "http://"+f.nodes[1].addr("http")+"/v1/auth/y", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", key)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if got := answer.Header.Get("X-Ratelimit-Limit"); got != limit {
			t.Errorf("%s: %v, want a limit of %s", key, answer.Header, limit)
		}
	}
	f.await(`msg="canary ended" canary=2 version=3 promoted=false author="stint, node `)
	redistest.Await(t, func() error { // the node that aborts it says so after it is in force
		aborted := 0
		for _, n := range f.nodes {
			m := metricsOf(t, n)
			if strings.Contains(m, `stint_canary_ends_total{reason="denied",result="aborted"} 1`) && strings.Contains(m, "stint_canary_share 0\n") {
				n.wait(`msg="canary aborted" canary=2 version=3 reason="`)
				aborted++
			}
		}
		if aborted != 1 {
			return fmt.Errorf("%d nodes have aborted it", aborted)
		}
		return nil
	})
	f.run(exitDone, []string{"canary 2 aborted: ", "which is more than 5.00 % above", "CANARY for 50 % beside 1"}, "rules", "history")
	f.run(exitDone, []string{"no canary is running"}, "rules", "canary")
	if still, _ := sides(limits(t, f.nodes[2], keys)); len(still) > 0 {
		t.Errorf("%d callers still have the new limit", len(still))
	}
}

// A client could otherwise abort a canary by requests that no rule set can decide.
func TestMistakesOfCallersAreNoErrorsOfACanary(t *testing.T) {
	redis := redistest.Server(t)
	n := startServer(t, nil, "--rules", "redis://"+redis.Addr(), "--store", "redis://"+redis.Addr())
	a := &administered{n, []string{"STINT_SERVER=http://" + n.addr("admin")}, t.TempDir()}
	a.run(exitDone, nil, "rules", "apply", a.file("old.yaml", canaryOld))
	a.run(exitDone, nil, "rules", "apply", "--yes", "--canary", "50%", a.file("new.yaml", canaryNew))
	keys, long := canaryKeys(20), strings.Repeat("k", 5000)
	for _, key := range keys {
		if got := posted(t, "http://"+n.addr("http")+"/v1/batch", fmt.Sprintf(`{"items":[{"attributes":{"api_key":%q,"path":%q}}]}`, key, long)); !strings.Contains(got, "INVALID_REQUEST") {
			t.Fatal(got)
		}
	}
	r, err := http.NewRequest(http.MethodGet, "http://"+n.addr("http")+"/v1/auth/y", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", long)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusBadRequest {
		t.Errorf("a key that is too long: %s", answer.Status)
	}
	limits(t, n, keys)
	var m string
	redistest.Await(t, func() error { // the counts follow within a second
		if m = metricsOf(t, n); strings.Contains(m, `stint_canary_requests{result="allowed",side="control"} 0`) {
			return errors.New("nothing is counted yet")
		}
		return nil
	})
	for _, side := range []string{"control", "canary"} {
		if !strings.Contains(m, `stint_canary_requests{result="error",side="`+side+"\"} 0\n") {
			t.Errorf("errors of %s in\n%s", side, m)
		}
	}
}

func metricsOf(t *testing.T, n *process) string {
	t.Helper()
	r, err := http.Get("http://" + n.addr("admin") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestACanaryNeedsASharedSource(t *testing.T) {
	a := administer(t)
	old := a.file("old.yaml", canaryOld)
	a.run(exitDone, nil, "rules", "apply", old)
	a.run(exitUsage, []string{"400", "these rules are not in Redis or PostgreSQL"}, "rules", "apply", "--canary", "5%", a.file("new.yaml", canaryNew))
	a.run(exitUsage, []string{"soak and abort-above: are for a canary"}, "rules", "apply", "--soak", "5m", old)
	a.run(exitDone, []string{"no canary is running"}, "rules", "canary")
	a.run(exitFailed, []string{"no canary is on"}, "rules", "promote")
}
