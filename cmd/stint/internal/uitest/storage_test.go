//go:build linux

package uitest

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// A browser that refuses its storage shows the pages, and says that it keeps no draft.
func TestABrowserWithoutStorageShowsThePages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, "about:blank", desk)
	const refuse = "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('refused', 'SecurityError') }})"
	b.run(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(refuse).Do(ctx)
		return err
	}), chromedp.Navigate(w.pages()+"#/rules"))
	b.signIn(operator)
	b.sees("logins")
	b.click("Theme: system")
	b.click("Theme: light")
	b.await("document.documentElement.dataset.theme === 'dark'")
	b.goTo("#/rules/orders/edit")
	b.write(orders + "limit: 3/m\n")
	b.sees("The browser keeps no draft")
	const leaves = "(e => { dispatchEvent(e); return !e.defaultPrevented })(new Event('beforeunload', {cancelable: true}))"
	if b.eval(leaves) == true {
		t.Error("the browser does not ask before it leaves a text that is kept nowhere")
	}
	b.publish("without a draft")
	b.await(leaves) // nothing would be lost, so it asks no more
}

// Two tabs of a browser that edit the same say so: the browser keeps one draft.
func TestTwoTabsEditTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.pages()+"#/rules/orders/edit", desk)
	b.signIn(operator)
	b.write(orders + "limit: 3/m\n")
	b.sees("No mistakes.")
	b.lacks("Another tab of this browser")
	ctx, end := chromedp.NewContext(b.ctx)
	t.Cleanup(end)
	second := &tab{t: t, ctx: ctx, base: w.pages()}
	if err := chromedp.Run(ctx); err != nil {
		t.Fatal(err)
	}
	second.run(chromedp.Navigate(w.pages() + "#/rules/orders/edit"))
	second.signIn(operator)
	second.sees("This is your draft of")
	second.write(orders + "limit: 4/m\n")
	b.sees("Another tab of this browser edits the same.")
	b.audit("an editor in two tabs")
	second.publish("before the other tab")
	b.sees("Another tab of this browser has published or discarded its draft of the same.")
	b.lacks("edits the same")
	b.audit("an editor whose draft another tab has published")
	b.run(chromedp.Reload())
	b.signIn(operator)
	b.sees("This is your draft of")
	b.await(editor + ".innerText.includes('3/m')")
	b.click("Discard")
	b.await(editor + ".innerText.includes('4/m')")
	b.lacks("This is your draft of")
}

// A draft is of one server: those below other prefixes of a host have their own. A storage that is
// full loses no text that is shown.
func TestDraftsOfOtherPrefixesAreApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address := w.prefixed(func(*http.Request) {})
	b := newTab(t, address+"#/rules/orders/edit", desk)
	b.signIn(operator)
	b.write(orders + "limit: 3/m\n")
	b.sees("No mistakes.")
	b.run(chromedp.Navigate(strings.Replace(address, "/prefix/", "/other/", 1) + "#/rules"))
	b.signIn(operator)
	b.sees("logins")
	b.lacks("Drafts that are not published")
	b.eval("for (let n = 1 << 22; n > 0; n >>= 1) { try { localStorage.setItem('other ' + n, 'x'.repeat(n)) } catch {} }")
	b.goTo("#/rules/orders/edit")
	b.write(orders + "limit: 4/m\n")
	b.sees("The browser keeps no draft")
	b.click("Theme: system")
	b.await("document.documentElement.dataset.theme === 'light'")
	b.publish("without a draft")
	b.run(chromedp.Navigate(address + "#/rules"))
	b.signIn(operator)
	b.click("rule orders")
	b.await(editor + ".innerText.includes('3/m')")
}
