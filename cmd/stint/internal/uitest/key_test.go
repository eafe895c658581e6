//go:build linux

package uitest

import (
	"net/http"
	"testing"
)

// The page of a key says what each limit does: one of a shadow rule denies nothing, and one of several
// of which one is enough does not deny alone. Rules that count by the path too are among them.
func TestTheVerdictsOfAKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(http.MethodPut, "/rules?force=true", `rules:
  - {id: watched, match: {path_prefix: /v1/orders}, by: [api_key], limit: 3/h, mode: shadow}
  - {id: either, match: {path_prefix: /v1/orders}, by: [api_key], combine: any, limits: [{limit: 2, window: 1h}, {limit: 500, window: 2h}]}
  - {id: paths, match: {path_prefix: /v1/orders}, by: [api_key, path], limit: 4/h}
`)
	for range 6 {
		w.check("sk_live_0", "/v1/orders/17")
	}
	b := newTab(t, w.pages()+"#/key", desk)
	b.signIn(viewer)
	b.fill("API key", "sk_live_0")
	b.fill("Path", "/v1/orders/17")
	b.click("Look up")
	row := func(rule, verdict string) {
		t.Helper()
		b.await("[...document.querySelectorAll('section[aria-label=Limits] tr')].some(e => e.innerText.startsWith(" + quote(rule) + ") && e.innerText.trimEnd().endsWith(" + quote(verdict) + "))")
	}
	row("watched", "nothing left, but shadow mode denies nothing")
	row("either", "nothing left, but another limit admits")
	row("paths", "denied: nothing left")
	b.audit("the verdicts of a key")
	b.sees("Denials")
}

// Rules that count by the path alone have one count for all callers: no action on a caller offers them.
// An operator chooses the rule if there are several.
func TestAResetIsOfTheCallerAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(http.MethodPut, "/rules?force=true", `rules:
  - {id: door, by: [path], limit: 50/h}
  - {id: mine, by: [api_key], limit: 70/h}
  - {id: address, by: [ip], limit: 80/h}
`)
	w.check("sk_live_0", "/login")
	b := newTab(t, w.pages()+"#/key", desk)
	b.signIn(operator)
	b.fill("API key", "sk_live_0")
	b.fill("Path", "/login")
	b.click("Look up")
	const offered = "[...document.querySelectorAll('select[name=rule] option')].map(o => o.value).join()"
	for _, action := range []string{"Reset…", "Temporary limit…", "Grant units…"} {
		b.click(action)
		b.await(offered + " === 'mine'")
		b.sees("Without door: all callers share that count.")
		b.click(action)
	}
	b.click("Reset…")
	b.fill("Reason", "a fresh start")
	b.click("Reset")
	b.sees("70 of 70")
	b.sees("49 of 50")
	b.audit("a reset")
	b.fill("IP address", "192.0.2.1")
	b.click("Look up")
	b.sees("80 of 80")
	b.click("Reset…")
	b.await(offered + " === ',mine,address'")
	b.chooseRule("address")
}
