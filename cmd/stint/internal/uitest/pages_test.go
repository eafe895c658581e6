//go:build linux

package uitest

import (
	"os"
	"strconv"
	"testing"
)

// pages are the pages in the order of the navigation, with a text that each shows.
var pages = []struct{ name, hash, shows string }{
	{"now", "#/now", "orders"},
	{"now-all", "#/now?nodes=all", "node"},
	{"rules", "#/rules", "orders"},
	{"rule", "#/rules/orders", "path_prefix"},
	{"tiers", "#/tiers", "1000/m"},
	{"lists", "#/lists", "Callers that pass uncounted"},
	{"canary", "#/canary", "New rules for a share"},
	{"emergency", "#/emergency", "One limit on every request"},
	{"editor", "#/rules/orders/edit", "Review the change"},
	{"versions", "#/versions?from=1&to=2", "+"},
	{"rollback", "#/versions/1/rollback", "Reason"},
	{"key", "#/key", "Look up"},
	{"top", "#/top?window=1h", "sk_"},
	{"nodes", "#/nodes", "Servers of the store"},
	{"replay", "#/replay", "Recording"},
	{"audit", "#/audit?who=ada", "put rule orders"},
}

// Each page has no violation of WCAG 2.2 AA in both themes, on a desk and on a phone.
func TestPagesAreAccessible(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	busy(w)
	w.do("PUT", "/v1/emergency", `{"limit":"1000/s","by":"ip","for":"1h"}`) // its banner is on every page
	w.do("PUT", "/lists/deny/192.0.2.1", `{"for":"1h"}`)
	for _, l := range []struct {
		name string
		look
	}{{"light", desk}, {"dark", look{1280, 900, true}}, {"phone", phone}} {
		b := newTab(t, "http://"+w.admin+"/ui/", l.look)
		b.audit(l.name + " sign-in")
		b.signIn(admin)
		for _, page := range pages {
			b.goTo(page.hash)
			b.sees(page.shows)
			b.audit(l.name + " " + page.name)
			if b.eval("document.documentElement.scrollWidth > innerWidth") == true {
				t.Errorf("%s %s is wider than the window", l.name, page.name)
			}
		}
		w.do("PUT", "/rules?canary=10%25&force=true", someRules)
		b.goTo("#/canary")
		b.sees("10 % of the callers")
		b.audit(l.name + " canary that is on")
		b.goTo("#/now")
		b.sees("is tried on 10 % of the callers.")
		b.audit(l.name + " now with a canary")
		if b.eval("document.documentElement.scrollWidth > innerWidth") == true {
			t.Errorf("%s: the page of a canary is wider than the window", l.name)
		}
		w.do("POST", "/v1/canary/abort", "")
	}
}

// What the page Now has shown stays at its place while the chart is loaded.
func TestThePageNowDoesNotShift(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	busy(w)
	for _, l := range []look{desk, phone} {
		b := newTab(t, w.pages(), l)
		b.eval(`window.shifts = []; new PerformanceObserver(list => shifts.push(...list.getEntries())).observe({type: 'layout-shift', buffered: true}); 0`)
		b.signIn(viewer)
		b.sees("orders")
		b.await("document.querySelector('canvas')")
		b.eval("new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)))") // the observer is told after the frame
		if moved, _ := b.eval("shifts.reduce((sum, s) => sum + s.value, 0)").(float64); moved > 0.01 {
			t.Errorf("%d pixels wide: the page shifts by %v: %v", l.width, moved, b.eval("shifts.flatMap(s => s.sources.map(o => `${o.node?.className} from ${o.previousRect.y} to ${o.currentRect.y}`)).join('; ')"))
		}
	}
}

// busy gives the server something to show.
func busy(w *world) {
	w.t.Helper()
	w.do("PUT", "/rules/orders", "{match: {path_prefix: /v1/orders}, by: [api_key], limit: 30/h}")
	for n := range 300 {
		w.check("sk_live_"+strconv.Itoa(n%9/2), "/v1/orders/17")
	}
}

// axe is the source of axe-core.
func axe(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../../ui/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Skip("axe-core is not installed (run scripts/install-test-servers)")
	}
	return string(text)
}

// audit has axe-core check the page.
func (b *tab) audit(what string) {
	b.t.Helper()
	b.await("!document.querySelector('.loading') || document.querySelector('dialog')")
	if b.eval("typeof axe") != "object" {
		b.eval(axe(b.t) + "; 1")
	}
	found := b.eval(`axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
		.then(r => r.violations.flatMap(v => v.nodes.map(n => v.id + ': ' + n.target.join(' ') + ': ' + n.failureSummary)).join('\n'))`)
	if found != "" {
		b.t.Errorf("%s: %v", what, found)
	}
}
