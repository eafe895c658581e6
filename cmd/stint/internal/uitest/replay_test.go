//go:build linux

package uitest

import (
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
