//go:build linux

package uitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// A link shows the same again: filters, order, range and what is open are in the address.
func TestLinksCarryTheState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--decision-log", t.TempDir()+"/decisions.jsonl")
	busy(w)
	b := newTab(t, w.pages()+"#/now", desk)
	b.signIn(admin)
	field := func(name, value string) string { return fmt.Sprintf("%s?.value === %q", control(name), value) }
	pressed := func(name string) string { return control(name) + "?.getAttribute('aria-pressed') === 'true'" }
	for hash, shows := range map[string]string{
		"#/now?rule=orders&live.sort=-Denied":                                   "document.querySelector('[aria-label=\"Rule orders\"]') && document.querySelector('th[aria-sort=descending]')",
		"#/now?nodes=all":                                                       pressed("All nodes"),
		"#/rules/orders?by=allowed":                                             pressed("Allowed"),
		"#/rules?q=login&sort=denied":                                           field("Search the rules", "login"),
		"#/versions?from=1&to=2&versions.filter=ada":                            field("Filter: Versions", "ada"),
		"#/top?by=allowed&window=1h&rule=orders":                                pressed("1 hour") + " && " + pressed("Allowed"),
		"#/nodes?nodes.filter=in+force&shards.sort=-Refused":                    field("Filter: Nodes", "in force"),
		"#/replay?source=decision_log&since=2h&until=1h&rules=draft":            field("Since", "2h") + " && " + field("Until", "1h") + " && " + field("Traffic", "decision_log") + " && " + pressed("Compare with a draft"),
		"#/key?path=%2Fv1%2Forders%2F17&method=PUT&hash=1f2e3d4c5b6a7980":       field("Path", "/v1/orders/17") + " && " + field("Method", "PUT") + " && document.querySelector('section[aria-label=\"Rules that match\"]')?.innerText.includes('orders')",
		"#/audit?who=ada&what=orders&result=done&since=24h&audit.sort=-Version": field("Who", "ada") + " && " + field("Since", "24h") + " && " + field("Result", "done"),
	} {
		b.goTo(hash)
		b.await(shows)
		if got := b.eval("location.hash"); got != hash {
			t.Errorf("%s has become %v", hash, got)
		}
	}
}

// A link to a caller has its path and the hash of its key, so the other person sees what it was
// denied and which rules match.
func TestALinkToAKeyHasItsHashAndItsPath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	busy(w)
	b := newTab(t, w.pages()+"#/key", desk)
	b.signIn(operator)
	b.fill("API key", "sk_live_0")
	b.fill("Path", "/v1/orders/17")
	b.click("Look up")
	b.sees("denied: nothing left")
	b.await(`/^#\/key\?path=%2Fv1%2Forders%2F17&hash=[0-9a-f]{16}$/.test(location.hash)`)
	b.run(chromedp.Reload())
	b.signIn(viewer)
	b.sees("Denials of sk_…")
	b.sees("costs 1, had 0 of 30 left")
	b.await("document.querySelector('section[aria-label=\"Rules that match\"]').innerText.includes('orders')")
	b.fill("API key", "sk_live_1") // another key in place of the linked one
	b.click("Look up")
	b.sees("denied: nothing left")
	b.lacks("Denials of")
}

// The decision log of the node is replayed with its old files.
func TestTheDecisionLogIsReplayedWithItsOldFiles(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	w := newWorld(t, "--decision-log", log, "--decision-log-sample", "100%", "--decision-log-max-bytes", "20000")
	busy(w)
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(20 * time.Millisecond) { // the log writes five times a second
		if old, _ := filepath.Glob(log + ".2*"); len(old) > 0 {
			break
		}
		w.check("sk_live_0", "/about")
	}
	b := newTab(t, w.pages()+"#/replay?source=decision_log&since=2h", desk)
	b.signIn(operator)
	b.await(`(() => { ` + control("Start the replay") + `?.click(); return /\d\d\d\s+of 5 callers/.test(document.body.innerText) })()`)
	b.await(`/\d+ files of the decision log/.test(document.body.innerText)`)
	b.click("Chart of orders")
	b.await("location.hash.includes('chart=orders')")
}

// A set of several files is edited one file at a time, and the others stay as they are.
func TestOneOfSeveralFilesIsEdited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const orders, logins = "# of the shop\nrules:\n  - {id: orders, match: {path_prefix: /v1/orders}, by: [api_key], limit: 20/m}\n",
		"# of the door\nrules:\n  - {id: logins, match: {path: /login}, by: [ip], limit: 5/m}\n"
	type file struct {
		Name string `json:"name"`
		Text string `json:"text"`
	}
	type set struct {
		Files []file `json:"files"`
	}
	body, err := json.Marshal(set{[]file{{"orders.yaml", orders}, {"logins.yaml", logins}}})
	if err != nil {
		t.Fatal(err)
	}
	w.do(http.MethodPut, "/rules?force=true", string(body))
	b := newTab(t, w.pages()+"#/rules/*/edit?file=logins.yaml", desk)
	b.signIn(admin)
	b.await(editor + ".innerText.includes('of the door')")
	b.write(strings.Replace(logins, "5/m", "x/m", 1))
	b.sees("logins.yaml, line 3")
	b.write(strings.Replace(logins, "5/m", "6/m", 1))
	b.sees("No mistakes.")
	b.click("orders.yaml")
	b.await(editor + ".innerText.includes('of the shop')")
	b.click("logins.yaml")
	b.await(editor + ".innerText.includes('6/m')")
	b.click("Review the change…")
	b.fill("Reason", "one of two")
	b.click("Publish all rules")
	b.await("location.hash === '#/rules'")
	var got set
	if err := json.Unmarshal([]byte(w.do(http.MethodGet, "/rules", "")), &got); err != nil || len(got.Files) != 2 || got.Files[0].Text != orders || !strings.Contains(got.Files[1].Text, "6/m") {
		t.Errorf("%+v, %v", got, err)
	}
}

// A rule whose id is also the name of an endpoint is shown and edited like others.
func TestARuleNamedLikeAnEndpointIsEdited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(http.MethodPut, "/rules/history", "{match: {path: /history}, by: [ip], limit: 7/m}")
	b := newTab(t, w.pages()+"#/rules/history", desk)
	b.signIn(operator)
	b.await("document.querySelector('pre.text').innerText.includes('limit: 7/m')")
	b.click("Edit…")
	b.await(editor + ".innerText.includes('limit: 7/m')")
	b.write("id: history\nmatch: {path: /history}\nby: [ip]\nlimit: 8/m\n")
	b.sees("No mistakes.")
	b.click("Review the change…")
	b.fill("Reason", "one more")
	b.click("Publish the rule")
	b.sees("8 a minute for each address")
}

// A mistake leads to its line.
func TestAMistakeLeadsToItsLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.pages()+"#/rules/orders/edit", desk)
	b.signIn(operator)
	b.write("# one\n# two\n" + orders + "limit: much\n# six\n# seven\n")
	b.await("[...document.querySelectorAll('.problems button')].some(e => e.innerText.startsWith('line 5'))")
	const active = "document.querySelector('.editor').shadowRoot.querySelector('.cm-activeLine').innerText"
	b.await(active + " !== 'limit: much'")
	b.eval("document.querySelector('.problems button').click()")
	b.await(active + " === 'limit: much' && document.querySelector('.editor').shadowRoot.activeElement === " + editor)
}

// The editor finds what is not in view, which the browser cannot.
func TestTheEditorFinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.pages()+"#/rules/*/edit", phone)
	b.signIn(admin)
	b.write(someRules + strings.Repeat("# more\n", 2000) + "# the needle\n")
	b.await("!" + editor + ".innerText.includes('the rules of the shop')")
	b.eval(editor + ".focus()")
	b.run(chromedp.KeyEvent("f", chromedp.KeyModifiers(input.ModifierCtrl)))
	b.await("document.querySelector('.editor').shadowRoot.activeElement?.name === 'search'")
	b.audit("the search of the editor")
	b.run(chromedp.KeyEvent("rules of the"), chromedp.KeyEvent("\r"))
	b.await(editor + ".innerText.includes('the rules of the shop')")
	b.run(chromedp.KeyEvent("\x1b"))
	b.await("document.querySelector('.editor').shadowRoot.activeElement === " + editor)
}

// A click on what has just appeared is heard.
func TestAFastClickIsHeard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.pages()+"#/nodes", desk)
	b.signIn(viewer)
	b.sees("in force")
	const fast = `new MutationObserver((_, observer) => {
		const button = [...document.querySelectorAll('button')].find(e => e.innerText === 'Show all')
		if (button) { observer.disconnect(); button.click() }
	}).observe(document.body, {subtree: true, childList: true}); 0`
	b.eval(fast)
	b.goTo("#/versions?versions.filter=nobody")
	b.await("location.hash === '#/versions'")
	b.sees("the test prepares")
}
