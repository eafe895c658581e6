//go:build linux

package uitest

import (
	"net/http"
	"strings"
	"testing"
)

// An admin tries a change of all rules on some callers, compares them, and promotes it.
func TestAdminRunsACanary(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.pages()+"#/rules/*/edit", desk)
	b.signIn(admin)
	b.write(strings.Replace(someRules, "20/m", "25/m", 1))
	b.sees("No mistakes.")
	b.click("Review the change…")
	b.click("Try it on some callers first (a canary)")
	b.fill("Share of the callers, in %", "30")
	b.fill("Promote by itself after", "24h")
	b.sees("No other change of the rules can be published until then.")
	b.sees("30 % of the callers")
	b.audit("start of a canary")
	b.fill("Reason", "a little more <script>alert(1)</script>")
	b.click("Start the canary")
	b.await("location.hash === '#/canary'")
	for range 5 {
		busyKeys(w, 40)
	}
	b.sees("new rules")
	b.sees("a little more <script>alert(1)</script>")
	b.await("[...document.querySelectorAll('td')].some(e => Number(e.innerText) > 20)")
	b.audit("canary")
	b.goTo("#/now")
	b.sees("is tried on 30 % of the callers.")
	b.click("Compare, promote or abort")
	b.click("Promote…")
	b.sees("is published for all callers.")
	b.audit("promotion")
	b.fill("Reason", "it went well")
	b.click("Promote the canary")
	b.sees("has the new rules for all callers.")
	b.sees("No canary is on.")
	if got := w.do(http.MethodGet, "/rules/orders", ""); !strings.Contains(got, "25/m") {
		t.Error(got)
	}
	b.goTo("#/now")
	b.lacks("is tried on")
}

// busyKeys makes one request for each of several callers.
func busyKeys(w *world, callers int) {
	w.t.Helper()
	for n := range callers {
		w.check("caller-"+string(rune('a'+n%26))+string(rune('a'+n/26)), "/v1/orders/17")
	}
}

// An operator ends a canary that another has begun, and cannot promote it.
func TestOperatorAbortsACanary(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(http.MethodPut, "/rules?canary=20%25&soak=10m&abort_above=2%25", strings.Replace(someRules, "20/m", "19/m", 1))
	b := newTab(t, w.pages()+"#/canary", phone)
	b.signIn(operator)
	b.sees("20 % of the callers")
	b.lacks("Promote…")
	b.click("Abort…")
	b.fill("Reason", "not today")
	b.click("Abort the canary")
	b.sees("has the old rules for all callers.")
	if got := w.do(http.MethodGet, "/rules/orders", ""); !strings.Contains(got, "20/m") {
		t.Error(got)
	}
}

// An operator switches an emergency on and off. Every page shows it meanwhile.
func TestOperatorSwitchesAnEmergency(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.pages()+"#/emergency", phone)
	b.signIn(operator)
	b.sees("No emergency is on")
	b.fill("Limit", "7/s")
	b.fill("For each", "no_such_attribute")
	b.click("Say what will happen…")
	b.sees("Each no_such_attribute may make 7 requests a second.")
	b.fill("Reason", "<b>flood</b>")
	b.click("Switch it on")
	b.sees("The emergency was not switched.")
	b.click("Back")
	b.fill("For each", "ip")
	b.click("Say what will happen…")
	b.sees("It ends by itself after 10m")
	b.await("document.activeElement.innerText === 'Switch the emergency on'") // a screen reader reads on from there
	b.audit("an emergency before it is switched on")
	b.fill("Reason", "<b>flood</b>")
	b.click("Switch it on")
	b.sees("The emergency is on.")
	b.goTo("#/rules")
	b.sees("Emergency until")
	b.sees("each address may make 7 requests a second. Switched on by olga: <b>flood</b>.")
	b.audit("an emergency")
	if got := w.do(http.MethodGet, "/v1/emergency", ""); !strings.Contains(got, `"limit":"7/s","by":"ip"`) {
		t.Error(got)
	}
	b.goTo("#/now")
	w.check("sk_live_0", "/v1/orders/17")
	b.await("[...document.querySelectorAll('td a')].some(e => e.innerText === 'emergency' && e.hash === '#/emergency')")
	b.click("Look at it")
	b.click("Switch it off…")
	b.fill("Reason", "it is over")
	b.click("Switch it off")
	b.sees("The emergency is off.")
	b.goTo("#/audit")
	b.sees("it is over")
	b.lacks("Emergency until")
}

// Of two operators who switch an emergency on at once, the second is told that there is one.
func TestTwoOperatorsSwitchAnEmergencyOnAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := newTab(t, w.pages()+"#/emergency", desk), newTab(t, w.pages()+"#/emergency", desk)
	for _, b := range []*tab{first, second} {
		b.signIn(operator)
		b.click("Say what will happen…")
		b.fill("Reason", "a flood")
	}
	first.click("Switch it on")
	first.sees("The emergency is on.")
	second.sees("Emergency until") // the banner of the other's, while the question stays as it was
	second.click("Switch it on")
	second.sees("The emergency was not switched. Somebody else has switched the emergency in the meantime")
	second.click("Back")
	second.click("Say what will happen…")
	second.sees("It replaces the emergency that is on: each address may make 10 requests a second.")
}

// An operator adds an entry to a list and removes it.
func TestOperatorChangesTheLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	busy(w)
	b := newTab(t, w.pages()+"#/lists", phone)
	b.signIn(operator)
	b.sees("The lists are empty.")
	b.fill("Entry", "192.0.2.0/24")
	b.fill("For", "90m")
	b.click("Review the entry…")
	b.sees("is denied by all rules, for 90m.")
	b.sees("192.0.2.0/24")
	b.audit("an entry before it is added")
	b.fill("Reason", "<i>scans</i>")
	b.click("Add the entry")
	b.sees("The entry was added.")
	b.sees("<i>scans</i>")
	b.audit("lists")
	if got := w.do(http.MethodGet, "/lists", ""); !strings.Contains(got, `"match":"192.0.2.0/24"`) || !strings.Contains(got, `"reason":"<i>scans</i>"`) {
		t.Error(got)
	}
	b.click("Remove 192.0.2.0/24 from the deny list of all rules")
	b.sees("is taken off the deny list of all rules.")
	b.await(control("Remove the entry")) // or the head of the column would be the first "Reason"
	b.fill("Reason", "they have stopped")
	b.click("Remove the entry")
	b.sees("The entry was removed.")
	b.sees("The lists are empty.")
}

// Keys that callers or operators make up are text, fit on a phone, and never get into the address.
func TestHostileKeysAreTextInTheLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.pages()+"#/lists", phone)
	b.signIn(operator)
	b.sees("The lists are empty.")
	long := "<img-src=x/onerror=alert(1)>" + strings.Repeat("k", 480)
	for _, key := range []string{long, "a/b?c#d%2f..", "..", "."} { // a browser removes the segments .. and . from a path
		b.fill("Entry", key)
		b.click("Review the entry…")
		b.fill("Reason", "</td><script>alert(2)</script>")
		b.click("Add the entry")
		b.sees("The entry was added.")
		b.await("[...document.querySelectorAll('td code')].some(e => e.innerText === " + quote(key) + ")")
	}
	b.fill("Filter: Entries of the lists", "a/b?c")
	b.await("document.querySelectorAll('tbody tr').length === 1")
	if address, _ := b.eval("location.href").(string); strings.Contains(address, "a/b") || strings.Contains(address, "a%2Fb") {
		t.Error("the address has a part of a key:", address)
	}
	b.fill("Filter: Entries of the lists", "")
	b.click("Remove .. from the deny list of all rules")
	b.await(control("Remove the entry"))
	b.fill("Reason", "a mistake")
	b.click("Remove the entry")
	b.sees("The entry was removed.")
	b.await("![...document.querySelectorAll('td code')].some(e => e.innerText === '..')")
	b.fill("Filter: Entries of the lists", "onerror")
	b.click("Remove " + long + " from the deny list of all rules")
	b.await(control("Remove the entry"))
	b.audit("the removal of a long key")
	if b.eval("document.documentElement.scrollWidth > innerWidth") == true {
		t.Error("a long key makes the page wider than the window")
	}
	b.goTo("#/key")
	b.fill("API key", "..")
	b.click("Look up")
	b.click("Temporary limit…")
	b.chooseRule("orders")
	b.fill("Reason", "a migration")
	b.click("Set the limit")
	b.sees("500 of 500")
}

// An operator changes a tier, and deletes it.
func TestOperatorChangesATier(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.pages()+"#/tiers", desk)
	b.signIn(operator)
	b.click("Edit tier free")
	b.write("limit: much\n")
	b.sees("line 1")
	b.write("limit: 120/m\n")
	b.sees("No mistakes.")
	b.click("Review the change…")
	b.fill("Reason", "a gift")
	b.lacks("Try it on some callers first") // for admins
	b.click("Publish the tier")
	b.sees("120/m")
	b.click("Delete tier pro")
	b.fill("Reason", "nobody has it")
	b.click("Delete tier pro")
	b.await("location.hash === '#/tiers'")
	b.await("!document.querySelector('main').innerText.includes('1000/m')")
}

// The page of a rule says what it denies, when it has changed and who has changed it.
func TestARulePageHasItsHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	busy(w)
	w.do(http.MethodPut, "/rules/search?comment=watch+it+%3Cb%3E", `{"match":{"path_prefix":"/v1/search"},"by":["api_key"],"limit":"1/h","mode":"shadow"}`)
	for range 20 {
		w.check("sk_live_searches", "/v1/search/shoes")
	}
	b := newTab(t, w.pages()+"#/rules/search", desk)
	b.signIn(viewer)
	b.sees("1 an hour for each API key")
	b.sees("denied if it were enforced")
	b.await("[...document.querySelectorAll('.tile')].some(e => e.innerText.includes('if it were enforced') && /9\\d(\\.\\d)? %/.test(e.innerText))")
	b.sees("watch it <b>")
	b.sees("by ada in version 3")
	b.click("Shadow")
	b.click("sk_li…")
	b.sees("give the whole key above")
	if address, _ := b.eval("location.href").(string); strings.Contains(address, "sk_") {
		t.Error(address)
	}
	b.goTo("#/rules")
	b.await("[...document.querySelectorAll('td')].some(e => e.innerText.endsWith(' ago') || e.innerText === 'now')")
	w.do(http.MethodDelete, "/rules/search?comment=nobody+searches", "")
	b.goTo("#/rules/search")
	b.sees("The rules in force have no rule “search”.")
	b.sees("nobody searches")
	b.lacks("Loading…")
	b.lacks("Last 15 minutes")
}

// Callers whose shortened keys look the same are told apart by their hashes.
func TestTheImpactTellsCallersApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	busy(w)
	b := newTab(t, w.pages()+"#/rules/orders/edit", desk)
	b.signIn(admin)
	b.write(orders + "limit: 1/h\n")
	b.sees("No mistakes.")
	b.click("Review the change…")
	b.sees("Keys with the most new denials")
	const hashes = "[...document.querySelectorAll('details tbody a code')].map(e => e.innerText)"
	b.await(hashes + ".length === 5 && new Set(" + hashes + ").size === 5")
	b.sees("30 an hour for each API key → 1 an hour for each API key")
	b.click("Try it on some callers first (a canary)") // of one rule, and not only of all rules
	b.fill("Share of the callers, in %", "40")
	b.sees("40 % of the callers")
	b.fill("Reason", "one rule alone")
	b.click("Start the canary")
	b.await("location.hash === '#/canary'")
	b.sees("by ada: one rule alone")
}

// All nodes together have a chart.
func TestAllNodesHaveAChart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	busy(w)
	b := newTab(t, w.pages()+"#/now?nodes=all", desk)
	b.signIn(viewer)
	b.sees("All nodes together")
	b.await("document.querySelector('canvas')")
	b.sees("of the 16 busiest rules of each node")
}
