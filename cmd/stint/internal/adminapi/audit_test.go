package adminapi

import (
	"encoding/csv"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/rule"
)

func whats(t *testing.T, got reply) string {
	t.Helper()
	var list []string
	entries, _ := got.value(t)["entries"].([]any)
	for _, one := range entries {
		list = append(list, one.(map[string]any)["what"].(string))
	}
	return strings.Join(list, "; ")
}

func TestTheAuditLogIsFiltered(t *testing.T) {
	f := newFixture(t, shop)
	f.HashKey = func(key string) string { return "hash of " + key }
	f.time = f.time.Add(time.Minute)
	f.want(200, "POST", "/v1/reset", `{"key":"sk_live_42","rule":"orders"}`, "X-Stint-Author", "vera", "X-Stint-Comment", "Asked for it")
	f.want(200, "POST", "/v1/ban", `{"key":"sk_live_42","for":"1h"}`)
	f.want(200, "PUT", "/rules/orders/override/sk_live_42?for=2h", `{"limit":50}`)
	f.want(200, "PUT", "/rules/orders/override/sk_live_43", `{"limit":50}`)
	f.want(404, "DELETE", "/rules/none", "")
	for query, want := range map[string]string{
		"?what=put+set":                "put set",
		"?who=local:vera":              "reset for sk_… of rule orders",
		"?what=ASKED":                  "reset for sk_… of rule orders",
		"?key_hash=hash+of+sk_live_42": "put override of sk_… in rule orders; put sk_… on the deny list until 2026-03-01T13:01:00Z; reset for sk_… of rule orders",
		"?result=NOT_FOUND":            "delete rule none",
		"?until=30s":                   "put set",
		"?since=30s&what=rule+none":    "delete rule none",
		"?until=2026-03-01T12:00:30Z":  "put set",
		"?since=2026-03-01T12:05:00Z":  "",
		"?n=1":                         "delete rule none",
	} {
		if got := whats(t, f.want(200, "GET", "/audit"+query, "")); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	f.want(400, "GET", "/audit?since=yesterday", "")
	if hash := f.want(200, "POST", "/v1/peek", `{"key":"sk_live_42","rule":"orders"}`).at(t, "hash"); hash != "hash of sk_live_42" {
		t.Error(hash)
	}
}

func TestRefusedRequestsDoNotCrowdOutChanges(t *testing.T) {
	f := newFixture(t, shop)
	var err error
	f.Tokens, err = ParseTokens(rule.File{Name: "tokens", Data: []byte("v viewer " + hash("v") + "\na admin " + hash("a") + "\n")}, "")
	if err != nil {
		t.Fatal(err)
	}
	f.want(200, "PUT", "/rules/orders", `{"limit":"1/s"}`, "X-Stint-Token", "a", "X-Stint-Comment", "slower")
	for range maxAudit + 1 {
		f.want(403, "POST", "/v1/ban", `{"key":"k"}`, "X-Stint-Token", "v")
	}
	if got := f.want(200, "GET", "/audit?n=1000", "", "X-Stint-Token", "a"); !strings.Contains(got.body, `"why":"slower"`) {
		t.Error("the change is no longer on record")
	}
	got := whats(t, f.want(200, "GET", "/audit?n=1000&result=FORBIDDEN", "", "X-Stint-Token", "a"))
	if list := strings.Split(got, "; "); len(list) != maxRefused || list[0] != "POST /v1/ban refused: needs operator" {
		t.Errorf("%d entries: %s", len(list), list[0])
	}
}

func TestTheAuditLogIsExported(t *testing.T) {
	f := newFixture(t, shop)
	f.want(200, "POST", "/v1/reset", `{"key":"k","rule":"orders"}`, "X-Stint-Comment", "=HYPERLINK(\"http://evil\"), \"quoted\"")
	got := f.want(200, "GET", "/audit", "", "Accept", "text/csv")
	if kind := got.header.Get("Content-Type"); kind != "text/csv; charset=utf-8" || !strings.HasPrefix(got.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%v", got.header)
	}
	rows, err := csv.NewReader(strings.NewReader(got.body)).ReadAll()
	if err != nil || len(rows) != 3 || rows[0][0] != "time" {
		t.Fatalf("%v, %v", rows, err)
	}
	if row := rows[1]; row[0] != "2026-03-01T12:00:00Z" || row[4] != "reset for k of rule orders" && !strings.HasPrefix(row[4], "reset for ") || row[6] != "'=HYPERLINK(\"http://evil\"), \"quoted\"" {
		t.Errorf("%q", row)
	}
}

// Spreadsheets skip blanks before a formula, and some read the characters of East Asian keyboards.
func TestAnExportHasNoFormulas(t *testing.T) {
	for _, text := range []string{"=1+1", "+1", "-1", "@SUM(A1)", " =1+1", "\t=1+1", "\r=1+1", "\n=1+1", "\u00a0=1+1", "\u3000+1", "＝1+1", "＋1", "－1", "＠SUM(A1)", "\ttext"} {
		rows, err := csv.NewReader(strings.NewReader(string(auditCSV([]auditEntry{{Why: text}})))).ReadAll()
		if err != nil || len(rows) != 2 || rows[1][6] != "'"+text {
			t.Errorf("%q is exported as %q, %v", text, rows[1][6], err)
		}
	}
	for _, text := range []string{"1 = 1", "a\n=1+1", "“=1+1”", " text", ""} {
		rows, err := csv.NewReader(strings.NewReader(string(auditCSV([]auditEntry{{Why: text}})))).ReadAll()
		if err != nil || len(rows) != 2 || rows[1][6] != text {
			t.Errorf("%q is exported as %q, %v", text, rows[1][6], err)
		}
	}
}
