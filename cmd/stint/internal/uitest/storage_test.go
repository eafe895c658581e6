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
	b.publish("without a draft")
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
