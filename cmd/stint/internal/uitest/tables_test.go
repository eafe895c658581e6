//go:build linux

package uitest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// The list of the rules stays while another search or order is loaded: the page does not jump at each
// letter. Numbers have their units.
func TestASearchDoesNotEmptyTheList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.check("sk_live_0", "/v1/orders/17")
	b := newTab(t, w.pages()+"#/rules", desk)
	b.signIn(viewer)
	b.sees("3 rules")
	b.sees("< 0.1/s")
	b.eval(`window.emptied = 0; new MutationObserver(() => { if (!document.querySelector('tbody')) emptied++ }).observe(document.body, {subtree: true, childList: true}); 0`)
	for _, letter := range "orders" {
		b.eval("document.querySelector('[type=search]').focus()")
		b.run(chromedp.KeyEvent(string(letter)))
	}
	b.sees("1 of 3 rules")
	b.eval("(e => { e.value = 'changed'; e.dispatchEvent(new Event('change', {bubbles: true})) })(document.querySelector('select'))")
	b.await("location.hash.includes('sort=changed')")
	b.sees("1 of 3 rules")
	if n := b.eval("emptied"); n != 0.0 {
		t.Errorf("the list was empty %v times", n)
	}
	b.goTo("#/versions")
	b.sees("1 row")
}

// The pointer reads a chart: the time with its zone and in UTC, and the numbers with their unit. Nothing
// moves for that.
func TestAChartIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	busy(w)
	b := newTab(t, w.pages(), phone)
	b.signIn(viewer)
	b.await("document.querySelector('canvas')")
	const box = "document.querySelector('.chart').getBoundingClientRect().height"
	height := b.eval(box)
	var at []float64
	b.run(chromedp.Evaluate("(r => [r.right - 3, r.y + r.height / 2])(document.querySelector('.u-over').getBoundingClientRect())", &at))
	b.run(chromedp.MouseEvent("mouseMoved", at[0], at[1]))
	b.await(`/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d CE\S+ \(\d\d:\d\d:\d\d UTC\): allowed [\d.]+, denied [\d.]+, shadow 0, degraded 0 a second$/.test(document.querySelector('.reading')?.innerText)`)
	b.audit("a chart that is read")
	if now := b.eval(box); now != height {
		t.Errorf("the chart had %v pixels and has %v", height, now)
	}
	b.run(chromedp.MouseEvent("mouseMoved", 5, 5))
	b.await("!document.querySelector('.reading')")
}

// A long text that somebody wrote moves nothing off the screen, and is no wider than a phone.
func TestLongTextsAreCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, why := strings.Repeat("r", 64), strings.Repeat("why", 600)
	w.do(http.MethodPut, "/rules/"+id+"?comment="+why, `{match: {path: "/`+strings.Repeat("x", 400)+`", headers: {x-tenant: "`+strings.Repeat("h", 500)+`"}}, by: ["header:x-tenant"], limit: 3/m}`)
	b := newTab(t, w.pages()+"#/rules", phone)
	b.signIn(admin)
	b.sees("Show all 1800 characters")
	b.await("document.querySelector('tbody tr:last-child').offsetHeight < 700 && document.querySelector('.lead').offsetHeight < 300")
	b.click("Show all 1800 characters")
	b.sees(why)
	b.audit("a long reason")
	for _, page := range []struct{ hash, shows string }{{"#/versions/1/rollback", "no limit"}, {"#/versions", "Show all 1800 characters"}, {"#/audit", "Show all 1800 characters"}, {"#/rules/" + id, "3 a minute"}} {
		b.goTo(page.hash)
		b.sees(page.shows)
		if b.eval("document.documentElement.scrollWidth > innerWidth") == true {
			t.Errorf("%s is wider than the window", page.hash)
		}
	}
}

// The rows of a live table stay at their places while the pointer is on one of them.
func TestRowsDoNotMoveUnderThePointer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 9 {
		w.check("sk_live_0", "/v1/orders/17")
	}
	w.check("sk_live_0", "/v1/search/shoes")
	b := newTab(t, w.pages(), desk)
	b.signIn(viewer)
	const first = "document.querySelector('section[aria-label=Rules] tbody tr td').innerText"
	const searches = "[...document.querySelectorAll('section[aria-label=Rules] tbody tr')].find(e => e.innerText.startsWith('search'))"
	b.await(first + " === 'orders' && " + searches)
	const body = "document.querySelector('section[aria-label=Rules] tbody')"
	b.eval(body + ".dispatchEvent(new MouseEvent('mouseenter'))")
	for range 60 {
		w.check("sk_live_0", "/v1/search/shoes")
	}
	b.await("parseFloat(" + searches + ".children[1].innerText) >= 1")
	if got := b.eval(first); got != "orders" {
		t.Errorf("the first row is now %v", got)
	}
	b.eval(body + ".dispatchEvent(new MouseEvent('mouseleave'))")
	b.await(first + " === 'search'")
}

// Browsers have no clipboard interface for pages over plain HTTP, and tables are copied there too.
func TestTablesAreCopiedWithoutTheClipboardInterface(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.pages()+"#/versions", desk)
	b.signIn(viewer)
	b.sees("in force")
	b.eval("Object.defineProperty(navigator, 'clipboard', {value: undefined}); addEventListener('copy', e => { window.copied = e.clipboardData.getData('text/plain') }); 0")
	b.keyboard = true
	b.click("Copy")
	b.sees("Copied")
	if got, _ := b.eval("copied").(string); !strings.HasPrefix(got, "Version\tTime\tWho\tReason\n1\t") {
		t.Errorf("%q", got)
	}
}

// A page that does not understand an answer, such as that of another version of the server, says so.
func TestAPageThatFailsSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.prefixed(func(r *http.Request) {
		if r.URL.Path == "/nodes" {
			r.URL.Path = "/v1/whoami"
		}
	})+"#/nodes", desk)
	b.signIn(viewer)
	b.sees("The page cannot be shown. Versions and Audit say what was changed.")
	b.audit("a page that fails")
	b.goTo("#/versions")
	b.sees("in force")
}
