//go:build linux

package uitest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	goruntime "runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience bounds each wait for a page. It is long, because the machine may be busy with
// other tests.
const patience = time.Minute

// tab is a page of the browser.
type tab struct {
	t    *testing.T
	ctx  context.Context //nolint:containedctx // chromedp identifies a tab by its context
	base string
	// keyboard: click, fill and write reach their controls with the tabulator alone.
	keyboard bool

	mu     sync.Mutex
	faults []string // guarded by mu: exceptions, and what the policy of the page forbids
}

// look is how a tab shows pages.
type look struct {
	width, height int64
	dark          bool
}

var (
	desk  = look{width: 1280, height: 900}
	phone = look{width: 390, height: 844, dark: true}
)

// newTab starts a browser with a tab on the pages at an address. The test fails if a page raises an
// exception or breaks the Content-Security-Policy.
func newTab(t *testing.T, base string, l look) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.Flag("lang", "en"), chromedp.Env("TZ=Europe/Berlin"), chromedp.WSURLReadTimeout(patience))
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	allocator, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	unknown := func(string, ...any) {} // the events of a newer browser; Run returns the errors
	ctx, cancel := chromedp.NewContext(allocator, chromedp.WithErrorf(unknown))
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, base: base}
	if err := startBrowser(ctx, ended); err != nil {
		t.Fatal(err)
	}
	chromedp.ListenTarget(ctx, b.listen)
	t.Cleanup(b.faultless)
	b.run(log.Enable(), b.looks(l), chromedp.Navigate(base))
	return b
}

// startBrowser starts the browser of a context, without the bound of b.run, which would end it. The
// kernel kills the browser together with the thread that starts it, so the thread stays until the
// browser has ended.
func startBrowser(ctx context.Context, ended <-chan struct{}) error {
	started := make(chan error)
	go func() {
		goruntime.LockOSThread()
		started <- chromedp.Run(ctx)
		<-ended
	}()
	return <-started
}

func (b *tab) looks(l look) chromedp.Action {
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	return chromedp.Tasks{
		chromedp.EmulateViewport(l.width, l.height),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
	}
}

func (b *tab) listen(event any) {
	fault := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		fault = e.ExceptionDetails.Error()
	case *page.EventJavascriptDialogOpening:
		fault = "a dialog: " + e.Message
	case *log.EventEntryAdded:
		if e.Entry.Source == log.SourceSecurity || strings.Contains(e.Entry.Text, "Content Security Policy") {
			fault = e.Entry.Text
		}
	}
	if fault != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.faults = append(b.faults, fault)
	}
}

func (b *tab) faultless() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, fault := range b.faults {
		b.t.Errorf("the page: %s", fault)
	}
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// eval returns the value of an expression.
func (b *tab) eval(expression string) (value any) {
	b.t.Helper()
	b.run(chromedp.Evaluate(expression, &value, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	return value
}

// await waits until an expression is true.
func (b *tab) await(expression string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		ok, err := b.isTrue(expression)
		if ok {
			return
		}
		if b.ctx.Err() != nil {
			b.t.Fatalf("the browser has ended, before this was true: %s", expression)
		}
		if time.Now().After(end) {
			b.t.Fatalf("never true: %s (%v)\nThe page at %v:\n%v", expression, err, b.eval("location.href"), b.eval("document.body.innerText"))
		}
	}
}

func (b *tab) isTrue(expression string) (ok bool, err error) {
	ctx, cancel := context.WithTimeout(b.ctx, 2*time.Second)
	defer cancel()
	err = chromedp.Run(ctx, chromedp.Evaluate("!!("+expression+")", &ok))
	return ok, err
}

// sees waits until the page shows a text.
func (b *tab) sees(text string) {
	b.t.Helper()
	b.await("document.body.innerText.includes(" + quote(text) + ")")
}

// lacks fails if the page shows a text.
func (b *tab) lacks(text string) {
	b.t.Helper()
	if b.eval("document.body.innerText.includes("+quote(text)+")") == true {
		b.t.Errorf("the page shows %q", text)
	}
}

// goTo opens a page by the part of its address after #.
func (b *tab) goTo(hash string) {
	b.t.Helper()
	b.eval("void (location.hash = " + quote(hash) + ")")
}

// control is an expression for the button, link or field with a name.
func control(name string) string { return named("button, a, summary, "+fields, name) }

// field is an expression for the field with a name, which a button beside it may have too.
func field(name string) string { return named(fields, name) }

const fields = "input, select, textarea"

func named(selectors, name string) string {
	return "[...document.querySelectorAll('" + selectors + "')].find(e => e.checkVisibility() && " +
		"[e.getAttribute('aria-label'), e.innerText, e.labels?.[0]?.innerText, e.labels?.[0]?.querySelector('.label')?.innerText].some(n => n?.trim() === " + quote(name) + "))"
}

// click clicks a button or a link. It does so by a script, because a page that is loaded anew
// may move the control under the mouse.
func (b *tab) click(name string) {
	b.t.Helper()
	b.await("!" + control(name) + "?.disabled && " + control(name))
	if b.keyboard {
		b.tabTo(name)
		key := " " // presses a button and changes a box
		if b.eval("document.activeElement.localName") == "a" {
			key = "\r"
		}
		b.run(chromedp.KeyEvent(key))
		return
	}
	b.eval("(() => { const e = " + control(name) + "; e.focus(); e.click() })()")
}

// fill types a text into a field, in place of its text.
func (b *tab) fill(name, text string) {
	b.t.Helper()
	b.await(field(name))
	if b.keyboard {
		b.tabUntil("document.activeElement === "+field(name), name)
		b.run(chromedp.KeyEvent("a", chromedp.KeyModifiers(input.ModifierCtrl)))
	} else {
		b.eval("(() => { const e = " + field(name) + "; e.focus(); e.select?.() })()")
	}
	b.run(input.InsertText(text))
}

// chooseRule types the name of a rule into the list of rules.
func (b *tab) chooseRule(rule string) {
	b.t.Helper()
	const list = "Rule"
	b.await(field(list))
	if b.keyboard {
		b.tabUntil("document.activeElement === "+field(list), list)
	} else {
		b.eval(field(list) + ".focus()")
	}
	b.run(chromedp.KeyEvent(rule))
	b.await(field(list) + ".value === " + quote(rule))
}

// tabTo presses the tabulator until the control with a name has the focus.
func (b *tab) tabTo(name string) {
	b.t.Helper()
	b.await(control(name))
	b.tabUntil("document.activeElement === "+control(name), name)
}

// tabUntil presses the tabulator until an expression is true.
func (b *tab) tabUntil(expression, name string) {
	b.t.Helper()
	for range 200 {
		if b.eval("!!("+expression+")") == true {
			return
		}
		b.run(chromedp.KeyEvent("\t"))
	}
	b.t.Fatalf("the tabulator does not reach %q", name)
}

// editor is an expression for the element of the editor that has the text of the user.
const editor = "(e => e?.querySelector('.cm-merge-b .cm-content') ?? e?.querySelector('.cm-content'))(document.querySelector('.editor')?.shadowRoot)"

// theirs is an expression for the text of somebody else that stands beside it.
const theirs = "document.querySelector('.editor')?.shadowRoot?.querySelector('.cm-merge-a .cm-content')"

// write pastes a text into the editor, in place of its text.
func (b *tab) write(text string) {
	b.t.Helper()
	b.await(editor)
	if b.keyboard {
		b.tabUntil("document.querySelector('.editor').shadowRoot.activeElement === "+editor, "the editor")
	} else {
		b.eval(editor + ".focus()")
	}
	b.run(chromedp.KeyEvent("a", chromedp.KeyModifiers(input.ModifierCtrl)))
	b.eval("(() => { const clipboardData = new DataTransfer(); clipboardData.setData('text/plain', " + quote(text) + "); " +
		editor + ".dispatchEvent(new ClipboardEvent('paste', {clipboardData, bubbles: true, cancelable: true})) })()")
}

func (b *tab) signIn(token string) {
	b.t.Helper()
	b.fill("Admin token", token)
	b.run(chromedp.KeyEvent("\r"))
	b.await("!document.querySelector('dialog')")
}

func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(fmt.Sprintf("%q: %v", text, err))
	}
	return string(quoted)
}

// The kernel kills a browser together with the thread that started it. Threads end when other tests
// end their servers.
func TestABrowserOutlivesTheThreadOfItsTest(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("chromium is not installed (run scripts/install-test-servers)")
	}
	var b *tab
	var thread string
	onItsThread(func() {
		thread = fmt.Sprintf("/proc/self/task/%d", syscall.Gettid())
		b = newTab(t, "about:blank", desk)
	})
	if b == nil {
		t.FailNow()
	}
	for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		if _, err := os.Stat(thread); err != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the thread does not end")
		}
	}
	b.await("document.body")
}

// onItsThread runs f on a thread that ends with it. The main thread of a process does not end.
func onItsThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		goruntime.LockOSThread()
		if syscall.Gettid() == syscall.Getpid() {
			onItsThread(f)
			goruntime.UnlockOSThread()
			return
		}
		f()
	}()
	<-done
}
