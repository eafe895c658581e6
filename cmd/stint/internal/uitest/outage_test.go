//go:build linux

package uitest

import (
	"net/http"
	"strings"
	"testing"
)

// While the server does not answer, the banner of an emergency says how old it is and counts down,
// and a change says that it may have been made.
func TestAnEmergencyIsCountedDownWithoutTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(http.MethodPut, "/v1/emergency", `{"limit":"9000/s","by":"ip","for":"1h","reason":"a flood"}`)
	b := newTab(t, w.pages()+"#/emergency", desk)
	b.signIn(operator)
	const banner = "document.getElementById('emergency').innerText"
	b.await(`/5\d min.* left\./.test(` + banner + `)`)
	b.await("!" + banner + ".includes('As of')")
	b.click("Switch it off…")
	b.fill("Reason", "it is over")
	w.server.Kill()
	b.click("Switch it off")
	b.sees("It is not known whether this was done. The server did not answer: check before you try again.")
	b.await(`/As of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+: the server has not answered since\./.test(` + banner + `)`)
	b.await(banner + ".includes('Emergency until')")
	b.sees("In force when the server answered last")
	b.audit("an emergency without the server")
	b.eval("(() => { const now = Date.now; Date.now = () => now() + 3600e3 })()")
	b.await(banner + ".includes('The emergency was to end at')")
	b.lacks("Emergency until")
	b.audit("an emergency that has ended without the server")
}

// While the store and the source of the rules fail, each control says what was not done.
func TestControlsSayWhatWasNotDoneWithoutTheStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(http.MethodPut, "/rules?canary=20%25&force=true", strings.Replace(someRules, "20/m", "19/m", 1))
	canary, b := newTab(t, w.pages()+"#/canary", desk), newTab(t, w.pages()+"#/key", phone)
	canary.signIn(admin)
	canary.click("Promote…")
	canary.fill("Reason", "it went well")
	b.signIn(operator)
	b.fill("API key", "sk_live_0")
	b.click("Look up")
	b.click("Reset…")
	b.chooseRule("orders")
	b.fill("Reason", "a fresh start")
	w.redis.Kill()

	canary.click("Promote the canary")
	canary.sees("The canary goes on. Nothing was changed: the source of the rules does not answer or fails")
	b.click("Reset")
	b.await(`/(Reset: not done|It is not known whether this was done)\. The store fails/.test(document.body.innerText)`)
	b.audit("a key without the store")
	b.click("Ban…")
	b.fill("Reason", "tries passwords")
	b.click("Ban")
	b.sees("Ban: not done. Nothing was changed: the source of the rules does not answer or fails")

	b.goTo("#/lists")
	b.fill("Entry", "192.0.2.0/24")
	b.click("Review the entry…")
	b.sees("The effects are not known, and nothing was changed. Nothing was changed: the source")
	b.audit("lists without the store")
	b.goTo("#/tiers/free/edit")
	b.write("limit: 120/m\n")
	b.sees("No mistakes.")
	b.click("Review the change…")
	b.sees("The effects are not known, and nothing was changed.")
	b.goTo("#/canary")
	b.sees("The canary was not loaded. The source of the rules does not answer or fails")
	b.goTo("#/emergency")
	b.click("Say what will happen…")
	b.fill("Reason", "a flood")
	b.click("Switch it on")
	b.sees("The emergency is on. Only this node obeys, because the source of the rules does not answer")
	b.sees("Emergency until")
	b.audit("an emergency without the store")
	b.click("Switch it off…")
	b.fill("Reason", "it is over")
	b.click("Switch it off")
	b.sees("The emergency is off. Only this node obeys")
}
