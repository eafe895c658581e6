//go:build linux

package uitest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// slowBody is the body of a request over a slow line, until the line is fast.
type slowBody struct {
	io.ReadCloser

	fast *atomic.Bool
}

func (s slowBody) Read(p []byte) (int, error) {
	if !s.fast.Load() {
		<-time.After(50 * time.Millisecond)
		p = p[:min(len(p), 16<<10)]
	}
	return s.ReadCloser.Read(p)
}

// A change that takes long says so, and can be cancelled: before its effects are known, and while it
// is made.
func TestALongChangeIsCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var hangs atomic.Bool
	b := newTab(t, w.prefixed(func(r *http.Request) {
		if r.Method == http.MethodPut && hangs.Load() {
			_, _ = io.Copy(io.Discard, r.Body) // or the end of the connection would not be seen
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		}
	})+"#/rules/orders/edit", desk)
	b.signIn(operator)
	b.write("id: orders\n" + orders + "limit: 21/m\n")
	b.sees("No mistakes.")
	hangs.Store(true)
	b.click("Review the change…")
	b.sees("The server works out what the change does…")
	b.audit("a change that takes long")
	b.click("Cancel")
	b.await(editor + ".innerText.includes('21/m')")
	hangs.Store(false)
	b.click("Review the change…")
	b.fill("Reason", "one more")
	hangs.Store(true)
	b.click("Publish the rule")
	b.sees("The server makes the change…")
	b.await("document.querySelector('[role=timer]')")
	b.click("Cancel")
	b.sees("It is not known whether this was done. You have cancelled the request: look at the versions before you try again.")
	hangs.Store(false)
	b.click("Publish the rule")
	b.await("location.hash === '#/rules/orders'")
	b.sees("21 a minute for each API key")
}

// While a recording is sent, the page shows how much of it, and the user can cancel: the next
// replay need not wait for the end of the first.
func TestAnUploadShowsItsProgressAndIsCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var fast atomic.Bool
	b := newTab(t, w.prefixed(func(r *http.Request) { r.Body = slowBody{r.Body, &fast} })+"#/replay", desk)
	b.signIn(operator)
	line := `{"t":"2026-03-03T07:12:00Z","api_key":"alice","path":"/v1/orders/1","note":"` + strings.Repeat("x", 2000) + `"}` + "\n"
	path := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.WriteFile(path, []byte(strings.Repeat(line, 10_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	b.sees("Recording")
	b.run(chromedp.SetUploadFiles("input[type=file]", []string{path}, chromedp.ByQuery))
	b.click("Start the replay")
	b.await(`/[\d.]+ MiB of 19\.\d MiB sent, about \d+.* left\./.test(document.body.innerText)`)
	b.await("(e => e.value > 0 && e.value < e.max)(document.querySelector('progress'))")
	b.audit("an upload")
	b.click("Cancel")
	b.sees("The replay was cancelled and has no report.")
	fast.Store(true)
	b.click("Start the replay")
	b.sees("denied by the rules in force")
	b.sees("10,000")
}

// The draft of a replay is that of the editor: a reload loses nothing, and an admin publishes it. The
// chart of several days has their dates.
func TestTheDraftOfAReplayIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.pages()+"#/replay?rules=draft", desk)
	b.signIn(admin)
	b.write(strings.Replace(someRules, "20/m", "19/m", 1))
	b.await("Object.keys(localStorage).some(k => k.endsWith(':set'))")
	b.run(chromedp.Reload())
	b.signIn(admin)
	b.await(editor + ".innerText.includes('19/m')")
	b.eval("window.drawn = []; (draw => { CanvasRenderingContext2D.prototype.fillText = function (text, ...at) { drawn.push(text); return draw.call(this, text, ...at) } })(CanvasRenderingContext2D.prototype.fillText)")
	path := filepath.Join(t.TempDir(), "days.jsonl")
	var text strings.Builder
	for day := range 5 {
		fmt.Fprintf(&text, `{"t":"2026-03-%02dT07:12:00Z","api_key":"alice","path":"/v1/orders/1"}`+"\n", day+2)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	b.run(chromedp.SetUploadFiles("input[type=file]", []string{path}, chromedp.ByQuery))
	b.click("Start the replay")
	b.sees("denied by the draft")
	b.await(`drawn.some(text => /^03-0[34] \d\d:\d\d$/.test(text))`)
	b.click("Review and publish it")
	b.sees("This is your draft of")
	b.await(editor + ".innerText.includes('19/m')")
	b.click("Review the change…")
	b.fill("Reason", "the replay shows that nobody notices")
	b.click("Publish all rules")
	b.await("location.hash === '#/rules'")
	b.lacks("Drafts that are not published")
}

// An operator, who cannot publish all rules, sees that the browser keeps the draft of a replay, finds it
// again, and discards it.
func TestAnOperatorDiscardsTheDraftOfAReplay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.pages()+"#/replay?rules=draft", desk)
	b.signIn(operator)
	b.write(strings.Replace(someRules, "20/m", "19/m", 1))
	const kept = "Object.keys(localStorage).some(k => k.endsWith(':set'))"
	b.await(kept)
	b.sees("is kept in this browser")
	b.lacks("Review and publish it")
	b.goTo("#/rules")
	b.click("all rules")
	b.await(editor + ".innerText.includes('19/m')")
	b.audit("the draft of a replay")
	b.click("Discard")
	b.await(editor + "?.innerText.includes('20/m')")
	b.await("!" + kept)
}
