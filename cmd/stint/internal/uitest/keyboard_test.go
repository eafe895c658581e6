//go:build linux

package uitest

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// prefixed returns the address of the pages below a prefix of a proxy, which has them below /other
// too. change changes the requests.
func (w *world) prefixed(change func(*http.Request)) string {
	w.t.Helper()
	target, err := url.Parse("http://" + w.admin)
	if err != nil {
		w.t.Fatal(err)
	}
	pass := httputil.NewSingleHostReverseProxy(target)
	pass.FlushInterval = -1
	changed := http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		change(r)
		pass.ServeHTTP(out, r)
	})
	mux := http.NewServeMux()
	for _, prefix := range []string{"/prefix", "/other"} {
		mux.Handle(prefix+"/", http.StripPrefix(prefix, changed))
	}
	proxy := httptest.NewServer(mux)
	w.t.Cleanup(proxy.Close)
	return proxy.URL + "/prefix/ui/"
}

// Every page can be used with the keyboard alone, on a narrow window, in the dark theme and below
// a prefix of a proxy, all at once.
func TestAllPagesWithTheKeyboardOnAPhoneBelowAPrefix(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	busy(w)
	b := newTab(t, w.prefixed(func(*http.Request) {}), phone)
	b.keyboard = true
	b.await("document.activeElement === " + control("Admin token"))
	b.run(input.InsertText(admin), chromedp.KeyEvent("\r"))
	for _, flow := range []struct {
		name string
		run  func(*tab)
	}{
		{"now", w.watches}, {"top", w.findsTheBusiest}, {"nodes", w.looksAtTheNodes}, {"key", w.bansAKey},
		{"rules", func(b *tab) { w.editsARule(b, "ada") }}, {"versions", w.rollsBack},
		{"audit", w.filtersTheAudit}, {"replay", func(b *tab) { b.click("Replay"); w.replays(b) }},
	} {
		flow.run(b)
		if b.eval("document.documentElement.scrollWidth > innerWidth") == true {
			t.Errorf("%s: the page is wider than the window", flow.name)
		}
		if t.Failed() {
			t.Fatalf("in %s", flow.name)
		}
	}
}

// watches opens the chart of a rule and the rates of all nodes.
func (w *world) watches(b *tab) {
	w.t.Helper()
	b.click("Now")
	for range 5 {
		w.check("sk_live_0", "/v1/orders/17")
	}
	b.click("Chart of orders")
	b.sees("Rule orders")
	b.click("All nodes")
	b.sees("of 1 node")
}

// findsTheBusiest goes from the list of keys to what was denied of one.
func (w *world) findsTheBusiest(b *tab) {
	w.t.Helper()
	b.click("Top")
	b.click("1 hour")
	b.sees("sk_…")
	b.fill("Filter: Keys with the most requests", "orders")
	b.click("sk_…")
	b.sees("Denials of sk_…")
	b.sees("costs 1, had 0 of 30 left")
}

func (w *world) looksAtTheNodes(b *tab) {
	w.t.Helper()
	b.click("Nodes")
	b.sees("in force")
	b.click("Address")
	b.await("location.hash.includes('nodes.sort=Address')")
	b.sees("call")
}

// rollsBack makes a version the newest again, although it denies much.
func (w *world) rollsBack(b *tab) {
	w.t.Helper()
	b.click("Versions")
	b.sees("in force")
	b.click("Roll back to version 1")
	b.sees("allowed before, denied now")
	b.fill("Reason", "the keyboard is enough")
	if b.eval("!!"+control("Publish although too much would be denied")) == true {
		b.click("Publish although too much would be denied")
	}
	b.click("Roll back to version 1")
	b.sees("All versions")
	b.sees("the keyboard is enough")
}

func (w *world) filtersTheAudit(b *tab) {
	w.t.Helper()
	b.click("Audit")
	b.fill("Who", "nobody")
	b.run(chromedp.KeyEvent("\r"))
	b.sees("Nobody has made such a change")
	b.fill("Who", "ada")
	b.run(chromedp.KeyEvent("\r"))
	b.sees("the keyboard is enough")
	if address, _ := b.eval("location.hash").(string); !strings.Contains(address, "who=ada") {
		w.t.Error(address)
	}
}
