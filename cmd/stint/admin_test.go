package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// administered is a real server, with the environment in which commands call it.
type administered struct {
	*process

	env    []string
	folder string
}

func administer(t *testing.T, args ...string) *administered {
	t.Helper()
	p := startServer(t, nil, append([]string{"--state-dir", "off"}, args...)...)
	return &administered{p, []string{"STINT_SERVER=http://" + p.addr("admin")}, t.TempDir()}
}

func (a *administered) file(name, text string) string {
	a.t.Helper()
	return writeFile(a.t, filepath.Join(a.folder, name), text)
}

// run runs a command, and checks its exit status and that the output contains the texts:
// standard output if the status is 0, standard error for any other status.
func (a *administered) run(status int, want []string, args ...string) result {
	a.t.Helper()
	got := command(a.t, a.env, args...)
	text := got.out
	if status != exitDone {
		text = got.errors
	}
	if got.status != status || status != exitDone && got.out != "" {
		a.t.Errorf("%v: status %d, want %d\n%s%s", args, got.status, status, got.out, got.errors)
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			a.t.Errorf("%v: %q is not in\n%s", args, w, text)
		}
	}
	return got
}

// json runs a command with --json and returns the object that it prints.
func (a *administered) json(args ...string) (v map[string]any) {
	a.t.Helper()
	got := command(a.t, a.env, append(args, "--json")...)
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || got.status != exitDone {
		a.t.Fatalf("%v: status %d, %v in %q%s", args, got.status, err, got.out, got.errors)
	}
	return v
}

// traffic sends n requests of one caller.
func (a *administered) traffic(n int) {
	a.t.Helper()
	body := `{"attributes":{"api_key":"sk_live_somebody","path":"/"}}`
	for range n {
		r, err := http.Post("http://"+a.addr("http")+"/v1/check", "application/json", strings.NewReader(body))
		if err != nil || r.StatusCode != 200 {
			a.t.Fatal(r, err)
		}
		r.Body.Close()
	}
}

const (
	adminRules   = "tiers:\n  free: {limit: 5, window: 60}\nrules:\n  - {id: a, limit: 10, window: 60}\n  - {id: b, by: [ip], limit: 10, window: 60}\n"
	adminRaised  = "tiers:\n  free: {limit: 5, window: 60}\nrules:\n  - {id: a, limit: 20, window: 60}\n  - {id: b, by: [ip], limit: 10, window: 60}\n"
	adminRemoved = "tiers:\n  free: {limit: 5, window: 60}\nrules:\n  - {id: a, limit: 10, window: 60}\n"
)

func TestRulesAreAppliedFromTheFirstVersionOn(t *testing.T) {
	a := administer(t)
	first, raised := a.file("first.yaml", adminRules), a.file("raised.yaml", adminRaised)
	a.run(exitDone, []string{"nothing was published"}, "rules", "history")
	a.run(exitDone, []string{"dry run on version 0", "2 added (a, b)"}, "rules", "apply", "--dry-run", first)
	a.run(exitDone, []string{"version 1 is published", "tiers: 1 added (free)"}, "rules", "apply", "--comment", "the first", first)
	a.run(exitDone, []string{"nothing to change: version 1 has the same rules"}, "rules", "apply", first)
	a.run(exitDone, []string{"1 changed (a)", "\n-  - {id: a, limit: 10", "\n+  - {id: a, limit: 20"}, "rules", "diff", raised)
	if v := a.json("rules", "apply", raised); v["version"] != 2.0 || v["changed"] != true {
		t.Errorf("%v", v)
	}
	a.run(exitDone, []string{"2*  ", "1 ", "local", "the first"}, "rules", "history")
	if v := a.json("rules", "history", "-n", "1"); len(v["versions"].([]any)) != 1 || v["current"] != 2.0 {
		t.Errorf("%v", v)
	}
	a.run(exitDone, []string{"1 changed (a)"}, "rules", "diff", "1", "2")
	if v := a.json("rules", "diff", "1"); v["to"] != 2.0 || v["changed"] != true {
		t.Errorf("%v", v)
	}
	if v := a.json("rules", "diff", first); v["changed"] != true || v["from"] != 2.0 {
		t.Errorf("%v", v)
	}
	a.run(exitDone, []string{"version 3 is published", "1 changed (a)"}, "rules", "rollback", "1")
	if got := a.run(exitDone, nil, "rules", "show"); got.out != adminRules || !strings.Contains(got.errors, "version 3, by local") {
		t.Errorf("%s%s", got.out, got.errors)
	}
	if got := a.run(exitDone, nil, "rules", "show", "2"); got.out != adminRaised {
		t.Errorf("%s%s", got.out, got.errors)
	}
	a.run(exitDone, []string{"{limit: 5, window: 60}"}, "rules", "show", "--tier", "free")
	if v := a.json("rules", "show", "--rule", "a"); v["limit"] != 10.0 {
		t.Errorf("%v", v)
	}
	a.run(exitDone, []string{"{id: a, limit: 20,"}, "rules", "show", "--rule", "a", "2")
}

func TestARuleOfAnyNameIsShown(t *testing.T) {
	a := administer(t)
	for _, id := range []string{"history", "diff", "..", "."} {
		a.run(exitFailed, []string{`rule "` + id + `" is not in the rules`}, "rules", "show", "--rule", id)
		a.run(exitFailed, []string{`tier "` + id + `" is not in the rules`}, "rules", "show", "--tier", id)
	}
	a.run(exitDone, nil, "rules", "apply", a.file("rules.yaml", "rules:\n  - {id: history, limit: 10, window: 60}\n"))
	a.run(exitDone, []string{"{id: history, limit: 10, window: 60}"}, "rules", "show", "--rule", "history")
}

func TestAFolderIsAppliedAndShownAsOneSet(t *testing.T) {
	a := administer(t)
	a.file("a.yaml", "tiers:\n  free: {limit: 5, window: 60}\n")
	a.file("b.yaml", "rules:\n  - {id: a, tier: free}\n")
	a.run(exitDone, []string{"1 added (a)"}, "rules", "apply", a.folder)
	shown := a.run(exitDone, []string{"# a.yaml", "# b.yaml", "{id: a, tier: free}"}, "rules", "show")
	one := filepath.Join(t.TempDir(), "one.yaml")
	writeFile(t, one, shown.out)
	if got := a.run(exitDone, nil, "rules", "diff", one); strings.Contains(got.out, "rules: ") || strings.Contains(got.out, "tiers: ") {
		t.Errorf("the rules shown differ from those applied:\n%s", got.out)
	}
}

func TestADangerousChangeNeedsConfirmation(t *testing.T) {
	a := administer(t)
	a.run(exitDone, nil, "rules", "apply", a.file("first.yaml", adminRules))
	removed := a.file("removed.yaml", adminRemoved)
	a.run(exitFailed, []string{"-  - {id: b", "it removes 1 rule (b)", "there is no terminal", "--yes"}, "rules", "apply", removed)
	if got := a.run(exitDone, []string{"dry run on version 1"}, "rules", "apply", "--dry-run", removed); !strings.Contains(got.errors, "would need confirmation, or --yes: it removes 1 rule (b).") {
		t.Error(got.errors)
	}
	a.run(exitDone, []string{"1*"}, "rules", "history")
	a.run(exitDone, []string{"version 2 is published", "1 removed (b)"}, "rules", "apply", "--yes", removed)
	a.run(exitFailed, []string{"it removes 1 tier (free)"}, "rules", "apply", a.file("c.yaml", "rules:\n  - {id: a, limit: 10, window: 60}\n"))
	fresh := a.file("fresh.yaml", "tiers:\n  free: {limit: 5, window: 60}\nrules:\n  - {id: a, limit: 10, window: 61}\n")
	a.run(exitFailed, []string{"it resets the counts of 1 limit", " of a"}, "rules", "apply", fresh)
	a.run(exitFailed, []string{"it removes 1 rule (a) and 1 tier (free)"}, "rules", "rollback", "0")
	a.run(exitDone, []string{"version 3 is published", "default"}, "rules", "rollback", "--yes", "--comment", "again", "0")
}

func TestTheImpactIsShownAndRefused(t *testing.T) {
	a := administer(t)
	strict := a.file("strict.yaml", "rules:\n  - {id: a, limit: 1, window: 1h}\n")
	a.run(exitDone, []string{"impact: unknown, no request was allowed"}, "rules", "impact", strict)
	a.run(exitDone, nil, "rules", "apply", a.file("wide.yaml", "rules:\n  - {id: a, limit: 1000, window: 1m}\n"))
	a.traffic(120)
	a.run(exitDone, []string{"impact: denies 119 of the 120 requests", "(99.2 %), of 1 caller", "a     all"}, "rules", "impact", strict)
	if v := a.json("rules", "impact", strict); v["impact"].(map[string]any)["denied"] != 119.0 {
		t.Errorf("%v", v)
	}
	same := a.file("same.yaml", "rules:\n  - {id: a, limit: 1, window: 1m}\n")
	refused := a.run(exitFailed, []string{"impact: denies 119 of the 120", "the limit is 5.0 %", "--yes"}, "rules", "apply", same)
	if strings.Contains(refused.errors, "?force") {
		t.Errorf("a hint is for the API:\n%s", refused.errors)
	}
	if strings.Contains(refused.errors, "sk_live_somebody") {
		t.Errorf("a key is shown whole:\n%s", refused.errors)
	}
	a.run(exitDone, []string{"version 2 is published", "impact: denies 119"}, "rules", "apply", "--yes", same)
}

func TestASecondOperatorIsShownTheFirstOnesChange(t *testing.T) {
	a := administer(t)
	a.run(exitDone, nil, "rules", "apply", a.file("first.yaml", adminRules))
	raised := a.file("raised.yaml", adminRaised)
	a.run(exitDone, []string{"version 2"}, "rules", "apply", "--base", "1", raised)
	a.run(exitFailed, []string{"412", "from version 1 to 2", "+  - {id: a, limit: 20", "rules show"},
		"rules", "apply", "--yes", "--base", "1", a.file("mine.yaml", strings.ReplaceAll(adminRules, "limit: 5", "limit: 6")))
	a.run(exitDone, []string{"2*"}, "rules", "history")
	a.run(exitFailed, []string{"404"}, "rules", "apply", "--base", "9", raised)
}

func TestMistakesInRulesArePlacedInTheirFiles(t *testing.T) {
	a := administer(t)
	bad := a.file("bad.yaml", "rules:\n  - {id: a, limt: 10, window: 60}\n")
	for _, what := range []string{"apply", "diff", "impact"} {
		if got := a.run(exitUsage, []string{"bad.yaml:2:", "did you mean limit?"}, "rules", what, bad); !strings.HasPrefix(got.errors, bad+":2:") {
			t.Errorf("%s: the place does not begin the line: %s", what, got.errors)
		}
	}
	a.run(exitUsage, []string{"none.yaml"}, "rules", "apply", filepath.Join(a.folder, "none.yaml"))
	var list []map[string]any
	got := command(t, nil, "rules", "validate", "--json", bad, a.file("good.yaml", adminRules))
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || got.status != exitUsage || len(list) != 2 {
		t.Fatalf("%v, status %d: %s", err, got.status, got.out)
	}
	if p := list[0]["problems"].([]any)[0].(map[string]any); list[0]["valid"] != false || p["line"] != 2.0 || list[1]["valid"] != true || len(list[1]["limits"].([]any)) != 2 {
		t.Errorf("%v", list)
	}
}

func TestOneKeyIsAdministered(t *testing.T) {
	a := administer(t)
	a.run(exitDone, nil, "rules", "apply", a.file("rules.yaml", adminRules))
	check := func(attributes ...string) string {
		return command(t, nil, append([]string{"check", "--server", "http://" + a.addr("http")}, attributes...)...).out
	}
	check("api_key=sk_live_12345", "ip=203.0.113.9", "cost=4")
	a.run(exitDone, []string{"RULE  LIMIT", "a     token_bucket:1m  10  6"}, "key", "peek", "sk_live_12345")
	a.run(exitDone, []string{"b     token_bucket:1m  10  6"}, "key", "peek", "-a", "ip=203.0.113.9")
	if v := a.json("key", "peek", "--rule", "a", "sk_live_12345"); v["limits"].([]any)[0].(map[string]any)["remaining"] != 6.0 {
		t.Errorf("%v", v)
	}
	a.run(exitDone, []string{"8 (was 6)"}, "key", "grant", "--rule", "a", "--comment", "ticket 81", "sk_live_12345", "2")
	a.run(exitDone, []string{"8 (was 6)"}, "key", "grant", "--attribute", "ip=203.0.113.9", "--rule", "b", "2")
	a.run(exitDone, []string{"a     token_bucket:1m  10  10"}, "key", "reset", "sk_live_12345")
	a.run(exitDone, []string{"-     token_bucket:1m  5   5"}, "key", "peek", "--limit", "5/m", "user:42")

	banned := a.run(exitDone, []string{"sk_l… is banned for 1h\n", "version 2"}, "key", "ban", "--for", "1h", "--reason", "tried passwords", "sk_live_12345")
	if strings.Contains(banned.out+banned.errors, "12345") {
		t.Errorf("a key is shown whole:\n%s", banned.out)
	}
	if got := check("api_key=sk_live_12345"); !strings.HasPrefix(got, "denied: on the deny list") {
		t.Errorf("not banned: %s", got)
	}
	if got := a.run(exitDone, []string{"on the deny (blacklist) list: sk_l…, until 20", " (tried passwords)\n", "10 (on the deny list)"}, "key", "peek", "sk_live_12345"); strings.Contains(got.out, "12345") {
		t.Errorf("a key is shown whole:\n%s", got.out)
	}
	a.run(exitDone, []string{"tried passwords"}, "rules", "history")
	a.run(exitDone, []string{"sk_l… is taken off the deny list\n", "version 3"}, "key", "unban", "sk_live_12345")
	if got := check("api_key=sk_live_12345"); !strings.HasPrefix(got, "allowed") {
		t.Errorf("still banned: %s", got)
	}
	if v := a.json("key", "ban", "--rule", "a", "203.0.113.0/24"); v["changed"] != true {
		t.Errorf("%v", v)
	}
	a.run(exitDone, []string{"sk_* is banned until 2030-01-01T00:00:00Z\n"}, "key", "ban", "--until", "2030-01-01T00:00:00Z", "sk_*")
	a.run(exitUsage, []string{"key ban: 400 Bad Request: for: the end must be in the future"}, "key", "ban", "--for", "0s", "sk_live_12345")
	a.run(exitUsage, []string{"key peek: 400", "is not an address"}, "key", "peek", "--rule", "b", "somebody")
	a.run(exitUsage, []string{"key ban: 400", "would deny everyone"}, "key", "ban", "*")
	a.run(exitFailed, []string{"404", "is not in the rules"}, "key", "unban", "nobody_here")
	a.run(exitFailed, []string{"404", `"none"`}, "key", "peek", "--rule", "none", "k")
}

// A limit that does not deny by itself says so, also in answers of several servers.
func TestALimitThatDeniesNothingSaysSo(t *testing.T) {
	a := administer(t)
	a.run(exitDone, nil, "rules", "apply", a.file("rules.yaml", "rules:\n  - {id: tried, mode: shadow, by: [api_key], limit: 1/h}\n"+
		"  - {id: either, by: [api_key], combine: any, limits: [2/h, 3/d]}\n"))
	for _, command := range []string{"peek", "why"} {
		a.run(exitDone, []string{"1 (shadow: denies nothing) ", "2 (any: another limit of the rule may admit) "}, "key", command, "sk_live_12345")
	}
	both := "http://" + a.addr("admin") + ",http://" + administer(t).addr("admin")
	limits := a.json("key", "why", "sk_live_12345", "--server", both)["limits"].([]any)
	for i, marked := range []string{"shadow", "any", "any"} {
		if l := limits[i].(map[string]any); l[marked] != true || l["words"] == "" || l["words"] == nil {
			t.Errorf("%v is not %s, or lacks words", l, marked)
		}
	}
}

func TestAKeyIsReadFromStandardInput(t *testing.T) {
	a := administer(t)
	if got := a.piped("sk_live_12345\n", "key", "ban", "-"); got.status != exitDone {
		t.Fatalf("status %d: %s", got.status, got.errors)
	}
	a.run(exitDone, []string{"sk_live_12345"}, "rules", "show")
	for given, want := range map[string]string{
		"\ufeffsk_live_777\r\nrest": "sk_… is banned",
		"sk_live_888":               "sk_… is banned",
		"\nsk_live_999\n":           "key: the first line of standard input is empty",
		"":                          "key: the first line of standard input is empty",
		"sk_\xff":                   "key: is not UTF-8",
	} {
		if got := a.piped(given, "key", "ban", "-"); !strings.HasPrefix(got.out+got.errors, want) || strings.Contains(got.errors, "%!") {
			t.Errorf("%q: %s%s", given, got.out, got.errors)
		}
	}
	if shown := a.run(exitDone, []string{"- sk_live_777\n", "- sk_live_888\n"}, "rules", "show").out; strings.Contains(shown, "999") {
		t.Error(shown)
	}
}

func TestNodesAreListed(t *testing.T) {
	a := administer(t)
	a.run(exitDone, nil, "rules", "apply", a.file("rules.yaml", adminRules))
	a.run(exitDone, []string{"NODE", "STINT", "RULES", "  " + programVersion(t) + "  1      "}, "nodes")
	if v := a.json("nodes"); v["nodes"].([]any)[0].(map[string]any)["version"] != 1.0 {
		t.Errorf("%v", v)
	}
}

// programVersion returns the version of the program under test.
func programVersion(t *testing.T) string {
	t.Helper()
	version, _, _ := strings.Cut(strings.TrimPrefix(command(t, nil, "version").out, "stint "), ",")
	return version
}

func TestRolesLimitCommands(t *testing.T) {
	sum := func(token string) string {
		h := sha256.Sum256([]byte(token))
		return hex.EncodeToString(h[:])
	}
	tokens := writeFile(t, filepath.Join(t.TempDir(), "tokens"), fmt.Sprintf("vera viewer %s\nolga operator %s\nanna admin %s\n", sum("v"), sum("o"), sum("a")))
	a := administer(t, "--admin-tokens-file", tokens)
	rules, server := a.file("rules.yaml", adminRules), a.env[0]
	a.run(exitFailed, []string{"401", "STINT_TOKEN"}, "rules", "history")
	a.env = []string{server, "STINT_TOKEN=v"}
	a.run(exitDone, nil, "rules", "history")
	a.run(exitDone, nil, "rules", "diff", rules)
	a.run(exitFailed, []string{"403", "vera has the role viewer, and the request needs operator"}, "key", "ban", "k_123456")
	a.env = []string{server, "STINT_TOKEN=o"}
	a.run(exitDone, nil, "key", "ban", "k_123456")
	a.run(exitFailed, []string{"403", "olga has the role operator, and the request needs admin"}, "rules", "apply", rules)
	a.env = []string{server, "STINT_TOKEN=wrong"}
	a.run(exitDone, []string{"version 2"}, "rules", "apply", "--yes", "--token-file", writeFile(t, filepath.Join(a.folder, "token"), "a\n"), rules)
	a.env = []string{server, "STINT_TOKEN=a"}
	a.run(exitDone, []string{"anna", "olga"}, "rules", "history")
}

func TestEveryCommandShowsAnExample(t *testing.T) {
	for _, words := range []string{
		"rules", "rules validate", "rules show", "rules diff", "rules impact", "rules apply", "rules history", "rules rollback", "rules shadow",
		"rules canary", "rules promote", "rules abort",
		"key", "key peek", "key reset", "key grant", "key ban", "key unban", "key top", "key why", "denied", "nodes",
		"emergency", "emergency on", "emergency off", "emergency status",
	} {
		got := command(t, nil, append(strings.Fields(words), "--help")...)
		if got.status != exitDone || !strings.Contains(got.out, "Examples:\n  stint "+strings.Fields(words)[0]) {
			t.Errorf("%s: status %d\n%s", words, got.status, got.out)
		}
	}
}

func TestPeekTellsTheListsOfAKey(t *testing.T) {
	a := administer(t)
	a.run(exitDone, nil, "rules", "apply", a.file("rules.yaml", `
rules:
  - {id: logins, by: [ip], limit: 5, window: 60, deny: [203.0.113.9]}
  - {id: orders, by: [ip], limit: 5, window: 60, allow: ["sk_test_*"]}
allow: ["sk_internal_*"]
deny: [203.0.113.0/24, {match: sk_internal_old, until: "2001-01-01T00:00:00Z"}]
`))
	a.run(exitDone, []string{"on the allow (whitelist) list: sk_internal_*\n"}, "key", "peek", "sk_internal_old")
	a.run(exitDone, []string{"on the allow (whitelist) list of rule orders: sk_test_*\n"}, "key", "peek", "sk_test_1")
	a.run(exitDone, []string{"on the deny (blacklist) list: 203.0.113.0/24\n", "on the deny (blacklist) list of rule logins: 203.0.113.9\n"}, "key", "peek", "203.0.113.9")
	if got := a.run(exitDone, []string{"list: 203.0.113.0/24\n", "5 (on the deny list)"}, "key", "peek", "--rule", "orders", "-a", "ip=203.0.113.9"); strings.Contains(got.out, "rule logins") {
		t.Errorf("another rule's list:\n%s", got.out)
	}
	if got := a.run(exitDone, nil, "key", "peek", "--limit", "5/m", "203.0.113.9"); strings.Contains(got.out, "list") {
		t.Errorf("a limit that the caller brings has no list:\n%s", got.out)
	}
	if v := a.json("key", "peek", "sk_internal_old")["lists"].([]any)[0].(map[string]any); v["match"] != "sk_internal_*" || v["deny"] != false {
		t.Errorf("%v", v)
	}
	a.run(exitUsage, []string{"no rule counts by an API key alone: rules count by ip (give"}, "key", "peek", "sk_live_12345")
	a.run(exitDone, []string{"now:\nrule: no rule counts by an API key alone: rules count by ip (give", "--attribute NAME=VALUE"}, "key", "why", "sk_live_12345")
}
