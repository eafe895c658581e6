//go:build linux

package uitest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

func (w *world) pages() string { return "http://" + w.admin + "/ui/" }

const orders = "match: {path_prefix: /v1/orders}\nby: [api_key]\n"

// An operator edits a rule: mistakes are shown at their lines, the effects come before the
// publication, and the history has the reason.
func TestOperatorEditsARule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	busy(w)
	b := newTab(t, w.pages(), phone)
	b.signIn(operator)
	w.editsARule(b, "olga")
}

func (w *world) editsARule(b *tab, who string) {
	t := w.t
	t.Helper()
	b.click("Rules")
	b.click("orders")
	b.sees("30 an hour for each API key")
	b.click("Edit…")
	b.write(orders + "limit: much\n")
	b.sees("line 3")
	b.await("document.querySelector('.editor').shadowRoot.querySelector('.cm-lint-marker-error')")
	b.write(orders + "limit: 2/m\n")
	b.sees("No mistakes.")
	b.click("Review the change…")
	b.sees("allowed before, denied now")
	b.sees("30/h")
	b.audit("effects of a change")
	b.fill("Reason", "weniger für alle <script>alert(1)</script>")
	b.click("Publish the rule")
	b.await("location.hash === '#/rules/orders'")
	b.sees("2 a minute for each API key")
	if got := w.do(http.MethodGet, "/rules/history?n=1", ""); !strings.Contains(got, `"author":"`+who+`","comment":"weniger für alle <script>alert(1)</script>"`) {
		t.Error(got)
	}
	b.click("Versions")
	b.sees("<script>alert(1)</script>")
}

// Two operators edit one rule at the same time: the second gets the change of the first
// beside its own, merged.
func TestTwoOperatorsEditAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.pages()+"#/rules/orders/edit", desk)
	b.signIn(operator)
	b.write("id: orders\n" + orders + "limit: 20/m\nheaders: ietf\n")
	b.sees("No mistakes.")
	other := newTab(t, w.pages()+"#/rules/orders/edit", phone)
	other.signIn(admin)
	other.write("id: orders\nmatch: {path_prefix: /v2/orders}\nby: [api_key]\nlimit: 20/m\n")
	other.publish("the first one")
	b.click("Review the change…")
	b.sees("Somebody else has published a change meanwhile")
	b.sees("Their change")
	b.sees("They do not touch the same lines.")
	b.sees("version 2 by ada")
	b.sees("the first one")
	b.sees("by olga")
	b.await(theirs + ".innerText.includes('/v2/orders') && !" + theirs + ".innerText.includes('headers: ietf')")
	b.await(editor + ".innerText.includes('/v2/orders')")
	b.await(editor + ".innerText.includes('headers: ietf')")
	b.audit("merged")
	b.publish("both")
	got := w.do(http.MethodGet, "/rules/orders", "")
	if !strings.Contains(got, "/v2/orders") || !strings.Contains(got, "ietf") {
		t.Error(got)
	}
}

// publish publishes the text of the editor.
func (b *tab) publish(reason string) {
	b.t.Helper()
	b.sees("No mistakes.")
	b.click("Review the change…")
	b.fill("Reason", reason)
	b.click("Publish the rule")
	b.await("location.hash === '#/rules/orders'")
}

// A rollback is published on the rules whose effects were shown, or not at all.
func TestARollbackIsOvertaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(http.MethodPut, "/rules/orders", "id: orders\n"+orders+"limit: 30/m\n")
	b := newTab(t, w.pages()+"#/versions/1/rollback", desk)
	b.signIn(admin)
	b.sees("30 a minute for each API key → 20 a minute for each API key")
	b.fill("Reason", "too many orders")
	w.do(http.MethodPut, "/rules/orders", "id: orders\n"+orders+"limit: 40/m\n")
	b.click("Roll back to version 1")
	b.sees("Somebody else has published a change meanwhile, so nothing was rolled back.")
	b.sees("40 a minute for each API key → 20 a minute for each API key")
	b.audit("a rollback that was overtaken")
	b.click("Roll back to version 1")
	b.sees("All versions")
	b.sees("too many orders")
	if got := w.do(http.MethodGet, "/rules/orders", ""); !strings.Contains(got, "20/m") {
		t.Error(got)
	}
}

// Where both changed the same lines, the editor keeps those of the user, and takes the others
// on demand: the text of the other is beside that of the user, or in one column on a phone.
func TestConflictIsSolvedByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.pages()+"#/rules/orders/edit", desk)
	b.signIn(operator)
	const deleted = "document.querySelector('.editor').shadowRoot.querySelector('.cm-deletedChunk')"
	const take = "[...document.querySelector('.editor').shadowRoot.querySelectorAll('button[name=reject]')]"
	for n, l := range []look{desk, phone} {
		b.run(b.looks(l))
		b.goTo("#/rules/orders/edit")
		b.write(fmt.Sprintf("id: orders\n%slimit: 7%d/m\n", orders, n))
		b.sees("No mistakes.")
		w.do(http.MethodPut, "/rules/orders", fmt.Sprintf("id: orders\n%slimit: 8%d/m\n", orders, n))
		b.click("Review the change…")
		b.sees("In one place both changed the same lines")
		b.sees("the test prepares") // the reason of the other
		b.audit("a conflict")
		b.await(fmt.Sprintf("(%s ?? %s).innerText.includes('8%d/m')", theirs, deleted, n))
		b.await(fmt.Sprintf("%s.innerText.includes('7%d/m')", editor, n))
		b.run(b.looks([]look{phone, desk}[n])) // the text stays when the window is turned
		b.await(fmt.Sprintf("(%s ?? %s).innerText.includes('8%d/m') && (!!%s === %v)", theirs, deleted, n, theirs, n == 1))
		b.await(fmt.Sprintf("%s.innerText.includes('7%d/m')", editor, n))
		b.run(b.looks(l))
		b.await(fmt.Sprintf("!!%s === %v && %s.length === 1", theirs, n == 0, take))
		b.eval(take + "[0].focus()")
		b.run(chromedp.KeyEvent("\r"))
		b.sees("Nothing is changed yet.")
		b.click("Close")
	}
}

// Values that callers choose are text, whatever they contain.
func TestCallersCannotAddMarkup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 30 {
		w.check("<img src=x onerror=alert(1)>", "/v1/orders/<script>alert(2)</script>")
	}
	w.do(http.MethodPost, "/v1/ban?comment=%3Cscript%3Ealert(3)%3C/script%3E", `{"key":"<b>bold"}`)
	long := strings.Repeat("long.", 12) + "name"
	w.do(http.MethodPut, "/rules/"+long, `{match: {path: "/<script>alert(4)</script>/`+strings.Repeat("x", 80)+`", headers: {x-tenant: "<b>bold</b>"}}, by: ["header:x-tenant"], limit: 3/m}`)
	b := newTab(t, w.pages()+"#/rules", desk)
	b.signIn(admin)
	b.sees("<b>bold</b>")
	b.await("(e => e.scrollWidth <= e.clientWidth)(document.querySelector('[role=region][aria-label=Rules]'))")
	b.goTo("#/rules/" + long)
	b.sees("header:x-tenant <b>bold</b>")
	b.goTo("#/top")
	b.click("<img src…")
	b.sees("/v1/orders/<script>alert(2)<")
	b.goTo("#/audit")
	b.sees("<script>alert(3)</script>")
	b.goTo("#/audit?key_hash=%3Cscript%3E&who=%3Cb%3E")
	b.sees("<script>")
	b.goTo("#/nodes")
	b.sees("in force")
	b.goTo("#/%3Cscript%3E")
	b.sees("There is no page “<script>”.")
	b.await("document.querySelectorAll('#app script, #app img, #app b').length === 0")
}

// Listing and searching 10,000 rules takes at most three times as long as 100.
func TestManyRulesAreListedAsFastAsFew(t *testing.T) {
	w := newWorld(t)
	b := newTab(t, w.pages()+"#/versions", desk)
	b.signIn(viewer)
	few, many := w.timeToList(b, 100), w.timeToList(b, 10_000)
	t.Logf("100 rules: %.0f ms, 10,000 rules: %.0f ms", few, many)
	if many > 3*few {
		t.Errorf("to list and search 10,000 rules took %.0f ms, 100 rules %.0f ms", many, few)
	}
}

// timeToList publishes a number of rules, and returns the milliseconds that the page needs at
// best to list them and to find one.
func (w *world) timeToList(b *tab, rules int) (best float64) {
	w.t.Helper()
	var text strings.Builder
	text.WriteString("rules:\n")
	for n := range rules {
		fmt.Fprintf(&text, "- {id: rule-%d, match: {path: /p%d}, by: [api_key], limit: %d/m}\n", n, n, n+1)
	}
	w.do(http.MethodPut, "/rules?force=true", text.String())
	const listAndFind = `(async () => {
		const shows = async (text) => { while (!document.body.innerText.includes(text)) await new Promise(requestAnimationFrame) }
		location.hash = '#/versions'
		await shows('Every published version')
		const began = performance.now()
		location.hash = '#/rules'
		await shows('rule-42')
		location.hash = '#/rules?q=rule-77'
		await shows('path /p77')
		await shows(' of ')
		return performance.now() - began
	})()`
	for n := range 7 {
		if took, _ := b.eval(listAndFind).(float64); n == 0 || took < best {
			best = took
		}
	}
	return best
}

// A draft survives a reload and an expired token.
func TestDraftIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.pages()+"#/rules/orders/edit", desk)
	b.signIn(operator)
	b.write(orders + "limit: 3/m\n")
	b.sees("No mistakes.")
	b.run(chromedp.Reload())
	b.signIn(operator)
	b.sees("This is your draft of")
	b.await(editor + ".innerText.includes('3/m')")

	w.writeTokens(viewer, "another-token-of-olga", admin)
	b.await("!document.querySelector('dialog')")
	const asked = "document.querySelector('dialog')"
	for end := time.Now().Add(patience); time.Now().Before(end); { // the server reads the file again when it changes
		b.click("Review the change…")
		b.await(asked + " || " + control("Back"))
		if b.eval("!!"+asked) == true {
			break
		}
		b.click("Back")
	}
	b.sees("Sign in again")
	b.audit("second sign-in")
	b.signIn("another-token-of-olga")
	b.fill("Reason", "after the token")
	b.click("Publish the rule")
	b.await("location.hash === '#/rules/orders'")
	b.sees("3 a minute for each API key")
}

// A viewer sees no control that writes.
func TestViewerSeesNoControlThatWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	busy(w)
	b := newTab(t, w.pages(), desk)
	b.signIn(viewer)
	for _, page := range []struct{ hash, shows string }{{"#/rules", "orders"}, {"#/rules/orders", "30 an hour"}, {"#/versions", "version"}, {"#/versions/1", "the rules of the shop"},
		{"#/tiers", "1000/m"}, {"#/lists", "The lists are empty."}, {"#/canary", "No canary is on."}, {"#/emergency", "No emergency is on"}} {
		b.goTo(page.hash)
		b.sees(page.shows)
		for _, control := range []string{"Edit", "Delete", "New rule…", "Roll back", "Publish", "Add an entry", "Remove", "New tier", "Promote…", "Abort", "Switch one on"} {
			b.lacks(control)
		}
	}
	b.goTo("#/key")
	b.fill("API key", "sk_live_0")
	b.click("Look up")
	b.sees("Last denials")
	b.lacks("Ban")
	b.eval("localStorage.setItem('stint-draft:/ui/:rule orders', JSON.stringify({base: [], etag: '', files: [{name: 'orders', text: 'of another'}], reason: '', saved: new Date().toISOString()}))")
	b.goTo("#/rules")
	b.sees("logins")
	b.lacks("Drafts that are not published")
	for _, hash := range []string{"#/rules/orders/edit", "#/rules/orders/new", "#/rules/orders/delete", "#/rules/*/edit", "#/rules/*/new", "#/tiers/free/edit", "#/tiers/x/new", "#/tiers/free/delete", "#/versions/1/rollback"} { // links of others
		b.goTo(hash)
		b.sees("and vera has the role viewer")
		b.audit(hash)
		if controls := b.eval("[...document.querySelectorAll('main button, main input, main select, main textarea, .editor')].map(e => e.outerHTML).join()"); controls != "" {
			t.Errorf("%s: a viewer sees %v", hash, controls)
		}
	}
}

// An operator who follows a link to what only an admin may change is told so. Whoever signs in again
// with a lesser role finds the text again after the next sign-in.
func TestALesserRoleLosesNoText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tokens := [3]string{viewer, operator, admin}
	b := newTab(t, w.pages()+"#/rules/*/edit", desk)
	b.signIn(operator)
	b.sees("This page needs the role admin, and olga has the role operator.")
	b.goTo("#/rules/orders/edit")
	b.write(orders + "limit: 3/m\n")
	b.sees("No mistakes.")
	w.expire(&tokens, 1)
	b.click("Review the change…")
	b.sees("Sign in again")
	b.signIn(viewer)
	b.sees("This page needs the role operator, and vera has the role viewer.")
	b.lacks("Review the change…")
	w.expire(&tokens, 0)
	b.sees("Sign in again") // the banner of the emergency is asked for every few seconds
	b.signIn(tokens[1])
	b.sees("The effects are not known, and nothing was changed.") // the viewer was refused
	b.click("Close")
	b.await(editor + ".innerText.includes('3/m')")
	b.publish("after another role")
	b.sees("3 a minute for each API key")
}

// An operator looks a key up, bans it and unbans it. The address never has the key.
func TestOperatorBansAKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	busy(w)
	b := newTab(t, w.pages()+"#/now", phone)
	b.signIn(operator)
	w.bansAKey(b)
}

func (w *world) bansAKey(b *tab) {
	t := w.t
	t.Helper()
	b.click("Key")
	b.fill("API key", "sk_live_0")
	b.fill("Path", "/v1/orders/17")
	b.click("Look up")
	b.sees("denied: nothing left")
	b.sees("costs 1, had 0 of 30 left")
	b.sees("counts by api_key")
	b.click("Ban…")
	b.fill("Reason", "tries passwords")
	b.click("Ban")
	b.sees("The key is banned for 1h.")
	b.sees("denied by a list")
	b.sees("does not count: the deny list decides")
	b.click("Unban…")
	b.fill("Reason", "a mistake")
	b.click("Unban")
	b.sees("The key is not banned any more.")
	b.click("Reset…")
	b.chooseRule("orders")
	b.fill("Reason", "a fresh start")
	b.click("Reset")
	b.sees("30 of 30")
	b.click("Temporary limit…")
	b.chooseRule("orders")
	b.fill("Limit", "500/m")
	b.fill("Reason", "a migration")
	b.click("Set the limit")
	b.sees("500 of 500")
	b.sees("a mistake") // in the history of the key
	b.audit("key")
	if address, _ := b.eval("location.href").(string); strings.Contains(address, "sk_live") {
		t.Error(address)
	}
	b.click("Audit")
	b.sees("tries passwords")
	b.lacks("sk_live_0")
}

// The live view shows what the node counts, says when the server is gone, and goes on when it
// is there again.
func TestLiveViewSurvivesARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.pages(), desk)
	b.signIn(viewer)
	b.await("document.querySelector('canvas')")
	if size, _ := b.eval(`performance.getEntries().filter(e => 'encodedBodySize' in e && !e.name.includes('/v1/')).reduce((sum, e) => sum + e.encodedBodySize, 0)`).(float64); size < 10<<10 || size > 60<<10 {
		t.Errorf("the first page fetches %v bytes, want at most 60 KiB", size)
	}
	busy(w)
	b.sees("orders")
	w.server.Kill()
	b.sees("The live view is interrupted:")
	b.click("Versions")
	b.sees("The page was not loaded, and nothing was changed.")
	b.audit("a page that was not loaded")
	w.start()
	b.click("Try again")
	b.sees("Every published version")
	b.click("Now")
	b.await("document.querySelector('canvas') && !document.body.innerText.includes('The live view is interrupted:')")
	b.lacks("Sign in again")
}

// An operator replays a recording by the rules in force and by a draft.
func TestOperatorReplaysARecording(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.pages()+"#/replay", phone)
	b.signIn(operator)
	w.replays(b)
}

func (w *world) replays(b *tab) {
	t := w.t
	t.Helper()
	w.check("carol", "/v1/orders/1") // for the impact on the requests of the last minutes
	b.replay(recording(t))
	b.sees("denied anew")
	b.sees("2 callers")
	b.sees("The draft now")
	b.sees("allowed before, denied now")
	b.audit("report of a replay")
	before := w.do(http.MethodPost, "/v1/peek", `{"key":"alice","rule":"orders"}`)
	if !strings.Contains(before, `"remaining":20`) {
		t.Errorf("the replay touched a live key: %s", before)
	}
}

// recording writes a file with 200 requests of two callers in ten seconds, and returns its path.
func recording(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for n := range 200 {
		fmt.Fprintf(&text, `{"t":"2026-03-03T07:12:%02d.%03dZ","api_key":%q,"path":"/v1/orders/1"}`+"\n", n/20, n%20*50, []string{"alice", "bob"}[n%2])
	}
	path := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// replay replays a recording, with a draft that denies all orders but one a minute.
func (b *tab) replay(path string) {
	b.t.Helper()
	b.sees("Recording")
	b.run(chromedp.SetUploadFiles("input[type=file]", []string{path}, chromedp.ByQuery))
	b.click("Compare with a draft")
	b.write(strings.Replace(someRules, "20/m", "1/m", 1))
	b.click("Start the replay")
	b.sees("denied by the draft")
}
