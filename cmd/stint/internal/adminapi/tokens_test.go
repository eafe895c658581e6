package adminapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"strings"
	"testing"

	"github.com/stintdev/stint/rule"
)

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func TestRolesHaveTheirPermissions(t *testing.T) {
	f := newFixture(t, shop)
	var err error
	f.Tokens, err = ParseTokens(rule.File{Name: "tokens", Data: []byte("# who\nvera viewer " + hash("v") + "\n\nolga operator " + hash("o") + " # night shift\nadam admin " + hash("a") + "\n")}, "root")
	if err != nil {
		t.Fatal(err)
	}
	ok := func(status int) bool { return status != 401 && status != 403 }
	for _, test := range []struct {
		method, path   string
		viewer, others bool // viewer: a token of a viewer is set; others: tokens of operators are set
	}{
		{"GET", "/rules", true, true}, {"POST", "/v1/peek", true, true}, {"GET", "/audit", true, true}, {"POST", "/rules/validate", true, true},
		{"PUT", "/rules/orders", false, true}, {"POST", "/v1/ban", false, true}, {"POST", "/v1/reset", false, true},
		{"PUT", "/rules", false, false}, {"POST", "/rules/rollback", false, false},
	} {
		for token, may := range map[string]bool{"v": test.viewer, "o": test.others, "a": true, "root": true} {
			if got := f.do(test.method, test.path, "", "Authorization", "Bearer "+token); ok(got.status) != may {
				t.Errorf("%s %s by %s: status %d", test.method, test.path, token, got.status)
			}
		}
	}
	for _, header := range [][]string{nil, {"Authorization", "Bearer x"}, {"Authorization", "Basic v"}, {"Authorization", "Bearer " + hash("a")}} {
		if got := f.do("GET", "/rules", "", header...); got.status != 401 || got.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%v: status %d", header, got.status)
		}
	}
	f.want(200, "PUT", "/rules/orders", `{"limit":"1/s"}`, "X-Stint-Token", "o", "X-Stint-Author", "adam")
	if got := f.want(200, "GET", "/rules", "", "X-Stint-Token", "v").at(t, "author"); got != "olga" {
		t.Errorf("author %v", got)
	}
	f.want(403, "PUT", "/rules/orders?force=true", `{"limit":"1/s"}`, "X-Stint-Token", "o")
	f.want(403, "POST", "/v1/ban", `{"key":"k"}`, "X-Stint-Token", "v")
	if got := f.want(200, "GET", "/audit?n=1", "", "X-Stint-Token", "v"); !strings.Contains(got.body, `"who":"vera"`) || !strings.Contains(got.body, "needs operator") {
		t.Errorf("the attempt is not on record: %s", got.body)
	}
	if got := f.want(200, "GET", "/audit?n=2", "", "X-Stint-Token", "v"); !strings.Contains(got.body, `"who":"olga"`) || !strings.Contains(got.body, `"result":"FORBIDDEN"`) {
		t.Errorf("the attempt is not on record: %s", got.body)
	}
}

func TestMistakesInTokensAreListed(t *testing.T) {
	_, err := ParseTokens(rule.File{Name: "tokens", Data: []byte("a b\nx viewer 12\ny king " + hash("k") + "\nz viewer " + hash("z") + "\nz admin " + hash("z") + "\nadmin viewer " + hash("q") + "\n")}, "root")
	for _, want := range []string{
		"tokens:1:1: the line has 2 words, want 3", "tokens:2:1: the hash of x is not a SHA-256", `tokens:3:1: "king" is not a role`, `tokens:5:1: the name "z" is in use already`, `tokens:6:1: the name "admin" is in use already`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestNoFileOfTokensAdmitsAnEmptyToken(t *testing.T) {
	for file, want := range map[string]string{
		"eve admin " + hash(""): "tokens:1:1: the hash of eve is the hash of an empty token",
		"vera viewer " + hash("v") + "\n#" + strings.Repeat("x", 1<<17) + "\nadam admin " + hash("a"): "tokens: cannot be read",
	} {
		if _, err := ParseTokens(rule.File{Name: "tokens", Data: []byte(file)}, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestEveryRequestIsRefusedWithoutTokens(t *testing.T) {
	f := newFixture(t, shop)
	var err error
	if f.Tokens, err = ParseTokens(rule.File{Name: "tokens"}, ""); err != nil {
		t.Fatal(err)
	}
	f.want(401, "GET", "/rules", "")
	f.want(401, "GET", "/rules", "", "Authorization", "Bearer ")
}

func TestTheAuditLogHasAuthorChangeAndReason(t *testing.T) {
	f := newFixture(t, shop)
	f.want(200, "PUT", "/rules/orders", `{"limit":"1/s"}`, "X-Stint-Author", "eve", "X-Stint-Comment", "too many")
	f.want(400, "PUT", "/rules/orders", `{"limmit":"1/s"}`)
	f.want(200, "PUT", "/rules/orders?dry_run", `{"limit":"2/s"}`)
	f.want(200, "POST", "/v1/reset", `{"key":"sk_live_customer","rule":"orders"}`)
	f.want(200, "POST", "/v1/ban", `{"key":"sk_live_customer"}`)
	got := f.want(200, "GET", "/audit?n=5", "")
	for _, want := range []string{
		`"who":"local:eve"`, `"what":"put rule orders"`, `"why":"too many"`, `"result":"INVALID_RULES"`, `"result":"dry run"`,
		`"what":"reset for sk_li… of rule orders"`, `"what":"put sk_li… on the deny list"`,
	} {
		if !strings.Contains(got.body, want) {
			t.Errorf("no %s in %s", want, got.body)
		}
	}
	if logs := f.logs.String(); !strings.Contains(logs, "log=audit") || strings.Contains(logs+got.body, "customer") {
		t.Error(logs)
	}
	if got := f.want(200, "GET", "/audit?n=1", "").value(t)["entries"].([]any); len(got) != 1 {
		t.Error(got)
	}
	f.want(400, "GET", "/audit?n=0", "")
}

// The level of the log does not apply to the audit log: every change is recorded.
func TestAQuietLogHasAuditRecords(t *testing.T) {
	f := newFixture(t, shop)
	var quiet bytes.Buffer
	f.API = New(Config{Rules: f.keeper, Store: f.store, Logger: slog.New(slog.NewTextHandler(&quiet, &slog.HandlerOptions{Level: slog.LevelError}))})
	f.want(200, "PUT", "/rules/orders", `{"limit":"1/s"}`, "X-Stint-Comment", "too many")
	if got := quiet.String(); !strings.Contains(got, `log=audit`) || !strings.Contains(got, `why="too many"`) || strings.Count(got, "\n") != 1 {
		t.Error(got)
	}
}

// The reason of an entry is the reason of its version, unless the request gives another.
func TestTheReasonOfABanIsOnRecord(t *testing.T) {
	f := newFixture(t, shop)
	for comment, want := range map[string]string{"": "tried passwords", "ticket 7": "ticket 7"} {
		f.want(200, "POST", "/v1/ban", `{"key":"sk_`+comment+`","reason":"tried passwords"}`, "X-Stint-Comment", comment)
		if got := f.want(200, "GET", "/audit?n=1", "").body; !strings.Contains(got, `"why":"`+want+`"`) {
			t.Error(got)
		}
		if got := f.want(200, "GET", "/rules/history?n=1", "").body; !strings.Contains(got, `"comment":"`+want+`"`) {
			t.Error(got)
		}
	}
	f.want(400, "PUT", "/lists/deny/k", `{"reason":"\u001b[2J"}`)
	f.want(400, "POST", "/v1/ban", `{"key":"k","reason":"`+strings.Repeat("x", maxWhy+1)+`"}`)
}

// Names that callers choose can neither fill the memory through the audit log, nor control the
// terminal of its reader.
func TestTheAuditLogIsBoundedAndPlain(t *testing.T) {
	f := newFixture(t, shop)
	long := strings.Repeat("é", 20_000)
	f.want(404, "POST", "/v1/reset", `{"key":"k","rule":"sk_live_`+long+`"}`, "X-Stint-Comment", "why")
	if got := f.want(200, "GET", "/audit?n=1", "").body; !strings.Contains(got, `"what":"reset for … of rule sk_live_…"`) {
		t.Error("an unknown rule, which may be a key, is not shortened: " + got)
	}
	f.want(404, "PUT", "/rules/"+long+"/override/k", "1/s")
	f.want(404, "DELETE", "/rules/"+long, "")
	for _, e := range f.want(200, "GET", "/audit?n=2", "").value(t)["entries"].([]any) {
		if what := e.(map[string]any)["what"].(string); len(what) > maxWhat || len(what) < maxWhat-9 || strings.ContainsRune(what, '\ufffd') {
			t.Errorf("%d bytes: %s", len(what), what)
		}
	}
	f.want(200, "PUT", "/rules/orders?dry_run", `{"limit":"1/s"}`, "X-Stint-Author", long[:100])
	if got := f.want(200, "GET", "/audit?n=1", "").body; !strings.Contains(got, `"who":"local"`) {
		t.Error(got)
	}
	for range maxAudit {
		f.audit.add(auditEntry{What: "again"})
	}
	if got := len(f.audit.newest(2*maxAudit, auditFilter{})); got != maxAudit {
		t.Errorf("%d entries are kept", got)
	}
	f.want(400, "PUT", "/rules/orders?comment=a%00b", `{"limit":"1/s"}`)
	f.want(400, "PUT", "/rules/orders?comment=%1b%5b2J", `{"limit":"1/s"}`)
	f.want(400, "POST", "/v1/reset?comment="+strings.Repeat("x", maxWhy+1), `{"key":"k","rule":"orders"}`)
	f.want(200, "POST", "/v1/reset?comment=asked%0Afor", `{"key":"k","rule":"orders"}`)
	if got := f.want(200, "GET", "/audit?n=1", "").body; !strings.Contains(got, `"why":"asked\nfor"`) {
		t.Error(got)
	}
}
