package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stintdev/stint/internal/dynamotest"
)

// tableIn returns the URL of a store in a table that stint store migrate has made. The
// processes of the test have the credentials of tests.
func tableIn(t *testing.T, s *dynamotest.Server) string {
	t.Helper()
	setCredentials(t)
	if got := command(t, nil, "store", "migrate", s.URL("limits")); got.status != exitDone || !strings.Contains(got.out, "the table of dynamodb://limits?") {
		t.Fatal(got)
	}
	return s.URL("limits")
}

func setCredentials(t *testing.T) {
	t.Helper()
	for name, value := range dynamotest.Environment {
		t.Setenv(name, value)
	}
}

func TestServersShareALimitInDynamoDB(t *testing.T) {
	db := dynamotest.Dynalite(t)
	url := tableIn(t, db)
	fronts := []*process{startShared(t, url), startShared(t, url)}
	inTime(t, func(key string) (wrong string, degraded bool) {
		for i := range 5 {
			_, answer := check(t, fronts[i%2], "/closed", key)
			if isAllowed(answer) != (i < 3) {
				wrong = fmt.Sprintf("check %d of a limit of 3: %s", i, answer)
			}
			degraded = degraded || isDegraded(answer)
		}
		return wrong, degraded
	})
	for _, line := range []string{"stint_store_up 1\n", "stint_store_nodes 2\n", `stint_clock_skew_seconds{shard=""}`} {
		fronts[0].awaitMetric(line)
	}
	if log := strings.Join(fronts[0].logged(), "\n"); strings.Contains(log, "secret") || !strings.Contains(log, "dynamodb://limits?") {
		t.Error(log)
	}
	db.Kill()
	if status, answer := check(t, fronts[0], "/open", "k"); status != http.StatusOK || !isAllowed(answer) || !isDegraded(answer) {
		t.Errorf("open: %d %s", status, answer)
	}
	if status, answer := check(t, fronts[0], "/closed", "k"); status != http.StatusServiceUnavailable || isAllowed(answer) || !isDegraded(answer) {
		t.Errorf("closed: %d %s", status, answer)
	}
	fronts[0].awaitMetric("stint_store_up 0\n")
	db.Restart()
	for _, front := range fronts {
		await(t, "the table is back", func() (bool, string) { _, a := check(t, front, "/open", "k"); return !isDegraded(a), a })
	}
}

func TestStartLogsWhyDynamoDBIsNotReady(t *testing.T) {
	db := dynamotest.Dynalite(t)
	setCredentials(t)
	p := startShared(t, db.URL("absent"))
	p.wait("msg=ready")
	if log := strings.Join(p.logged(), "\n"); !strings.Contains(log, "make it by stint store migrate") {
		t.Error(log)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	p = startShared(t, db.URL("limits"))
	p.wait("msg=ready")
	if log := strings.Join(p.logged(), "\n"); !strings.Contains(log, "no credentials for the table limits") {
		t.Error(log)
	}
}

func TestWrongStoresInDynamoDB(t *testing.T) {
	setCredentials(t)
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"store", "migrate", "dynamodb://limits?region=eu-west-1&endpoint=http://127.0.0.1:1"}, exitFailed, "check the region or the endpoint"},
		{[]string{"store", "migrate", "dynamodb://limits?durable=true"}, exitUsage, "unknown parameter"},
		{[]string{"store", "migrate", "--store-password-file", "f", "dynamodb://limits"}, exitUsage, "DynamoDB has no password"},
		{[]string{"serve", "--store", "dynamodb://limits"}, exitUsage, "no region"},
		{[]string{"serve", "--store", "dynamodb://x"}, exitUsage, "does not name a table"},
		{[]string{"serve", "--store", "dynamodb://key:secret@limits"}, exitUsage, "credentials are those of the SDK"},
		{[]string{"replay", "--store", "dynamodb://limits?wait=1", "--limit", "1/s", "--by", "key", "-"}, exitUsage, "unknown parameter"},
	} {
		got := command(t, nil, c.args...)
		if got.status != c.status || !strings.Contains(got.errors, c.want) || strings.Contains(got.errors, "secret@") {
			t.Errorf("%v: status %d, %q, want %q", c.args, got.status, got.errors, c.want)
		}
	}
}

func TestReplayInDynamoDBDecidesAsInMemory(t *testing.T) {
	url := tableIn(t, dynamotest.Dynalite(t)) + "&transactions=false"
	for i, limit := range replayLimits {
		stdin := traffic(uint64(i), 40)
		want, wantSummary := replayed(t, stdin, "--limit", limit, "--by", "key")
		got, gotSummary := replayed(t, stdin, "--limit", limit, "--by", "key", "--store", url)
		if got != want || gotSummary != wantSummary {
			t.Errorf("%s: DynamoDB\n%s\nmemory\n%s", limit, gotSummary, wantSummary)
		}
	}
}

func TestValidateWarnsAboutSharedKeysOnDynamoDB(t *testing.T) {
	rules := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), sharedRules)
	const want = `rules.yaml:2:5: warning: DynamoDB makes at most 1,000 writes of one key a second: rule strict is strict, and all its callers charge the same key (set consistency: leased`
	got := command(t, nil, "rules", "validate", "--store", "dynamodb://limits", rules)
	if got.status != exitDone || !strings.Contains(got.errors, want) || strings.Count(got.errors, "warning") != 1 {
		t.Error(got)
	}
	named := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), strings.ReplaceAll(sharedRules, "/s}", "/s, store: audit}"))
	if got := command(t, nil, "rules", "validate", "--store", "redis://h,audit=dynamodb://limits", named); got.status != exitDone || !strings.Contains(got.errors, want) {
		t.Error(got)
	}
	if got := command(t, nil, "rules", "validate", "--store", "dynamodb://limits,audit=redis://h", named); got.status != exitDone || got.errors != "" {
		t.Error(got)
	}
	if got := command(t, nil, "rules", "validate", "--store", "redis://h", rules); got.status != exitDone || got.errors != "" {
		t.Error(got)
	}
	if got := command(t, nil, "rules", "validate", "--json", "--store", "dynamodb://limits", rules); strings.Count(got.out, `"what":`) != 1 {
		t.Error(got)
	}
	setCredentials(t)
	const absent = "dynamodb://limits?region=eu-west-1&endpoint=http://127.0.0.1:1"
	for stores, rules := range map[string]string{absent: rules, "memory,audit=" + absent: named} {
		p := startServer(t, []string{"STINT_STORE=" + stores}, "--rules", rules)
		p.wait("msg=ready")
		if log := strings.Join(p.logged(), "\n"); !strings.Contains(log, "DynamoDB makes at most 1,000 writes of one key a second: ") || !strings.Contains(log, "rule strict is strict") {
			t.Error(log)
		}
	}
}

// sharedRules has one strict rule whose callers share a key.
const sharedRules = `rules:
  - {id: strict, match: {path: /a}, by: [path], limit: 100/s}
  - {id: leased, match: {path: /b}, by: [path], limit: 100/s, consistency: leased}
  - {id: callers, match: {path: /c}, by: [path, api_key], limit: 100/s}
  - {id: "off", match: {path: /d}, by: [path], limit: 100/s, mode: "off"}
`
