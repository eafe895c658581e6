//go:build linux

package uitest

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// Escape does not close the sign-in, without which the page is empty.
func TestTheSignInStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.pages(), desk)
	b.await("document.activeElement === " + control("Admin token"))
	for range 3 {
		b.run(chromedp.KeyEvent("\x1b"))
	}
	b.await("document.querySelector('dialog').open")
	b.signIn(viewer)
	b.sees("This node, in the last 15 minutes.")
}

// A control that its own click removes leaves the focus near: a screen reader does not begin at the
// top of the document again.
func TestTheFocusStaysNearAControlThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	busy(w)
	b := newTab(t, w.pages()+"#/now?rule=orders", desk)
	b.signIn(viewer)
	b.click("All rules")
	b.await("document.activeElement.innerText === 'All rules'")
	b.goTo("#/versions?versions.filter=nobody")
	b.click("Show all")
	b.await("document.activeElement.innerText === 'Versions' && document.activeElement.localName === 'h1'")
	b.goTo("#/rules?q=nobody")
	b.click("Show all")
	b.await("document.activeElement.innerText === 'Rules' && document.activeElement.localName === 'h1'")
}

// A control that was disabled for a while has the focus again. One that the user has left has not,
// whatever changes on the page.
func TestTheFocusIsNotTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.pages()+"#/key", desk)
	b.signIn(viewer)
	b.await(control("IP address"))
	b.eval("window.field = " + control("IP address") + "; field.focus(); field.disabled = true; 0")
	b.await("document.activeElement === document.body")
	b.eval("field.disabled = false; 0")
	b.await("document.activeElement === field")
	b.eval("field.blur(); document.body.append(document.createElement('i')); 0")
	// The timer begins after that of the page, and is longer.
	b.eval("setTimeout(() => { window.over = document.activeElement.localName }, 500); 0")
	b.await("window.over")
	if at := b.eval("over"); at != "body" {
		t.Errorf("%v has the focus", at)
	}
}
