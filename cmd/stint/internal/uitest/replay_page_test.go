//go:build linux

package uitest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// The rules of the replay, and those that it compares with.
const (
	replayedRules = `rules:
  - {id: orders, match: {path_prefix: /v1/orders}, by: [ip], limit: 5, window: 30}
  - {id: everything, mode: shadow, by: [ip], limit: 6, window: 60}
`
	replayedAgainst = `rules:
  - {id: orders, match: {path_prefix: /v1/orders}, by: [ip], limit: 6, window: 60}
`
)

// newReplayPage returns the path of a page that stint replay wrote.
func newReplayPage(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("chromium is not installed (run scripts/install-test-servers)")
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, text := range map[string]string{"rules.yaml": replayedRules, "new.yaml": replayedAgainst} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	report := filepath.Join(folder, "report.html")
	command := exec.CommandContext(t.Context(), path, "replay", "--rules", filepath.Join(folder, "rules.yaml"), "--against", filepath.Join(folder, "new.yaml"),
		"--html", report, "../replay/testdata/sample_access.log")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return report
}

// traffic are the requests of a page and what it writes to the console.
type traffic struct {
	mu       sync.Mutex
	requests []string // guarded by mu
	console  []string // guarded by mu
}

func (w *traffic) listen(event any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		w.requests = append(w.requests, e.Request.URL)
	case *network.EventWebSocketCreated:
		w.requests = append(w.requests, e.URL)
	case *runtime.EventConsoleAPICalled:
		w.console = append(w.console, fmt.Sprintf("%s %s", e.Type, e.Args[0].Value))
	case *log.EventEntryAdded:
		w.console = append(w.console, fmt.Sprintf("%s %s", e.Entry.Level, e.Entry.Text))
	}
}

// drawn is the number of charts whose canvas has pixels of two colors at least.
const drawn = `[...document.querySelectorAll('.chart')].filter(chart => {
	const canvas = chart.querySelector('canvas');
	if (!canvas || !canvas.width || !canvas.height) return false;
	const colors = new Set(new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer));
	return colors.size > 2;
}).length`

// The page of a replay is opened from a file. It draws its charts in both themes and on paper,
// asks the network for nothing, writes nothing to the console, and is accessible.
func TestReplayPageInABrowser(t *testing.T) {
	t.Parallel()
	file := newReplayPage(t)
	for _, l := range []struct {
		name string
		look
		ground string
	}{{"light", desk, "rgb(255, 255, 255)"}, {"dark", look{1280, 900, true}, "rgb(20, 23, 27)"}, {"phone", phone, "rgb(20, 23, 27)"}} {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			b := newTab(t, "about:blank", l.look)
			var seen traffic
			chromedp.ListenTarget(b.ctx, seen.listen)
			b.run(network.Enable(), runtime.Enable(), chromedp.Navigate("file://"+file))
			b.sees("newly denied")
			charts := b.eval("document.querySelectorAll('.chart').length")
			if n, ok := charts.(float64); !ok || n < 4 {
				t.Fatalf("the page has %v charts", charts)
			}
			b.await(fmt.Sprintf("%s === %v", drawn, charts))
			if ground := b.eval("getComputedStyle(document.body).backgroundColor"); ground != l.ground {
				t.Errorf("the ground is %v, want %s", ground, l.ground)
			}
			if b.eval("document.documentElement.scrollWidth > innerWidth") == true {
				t.Error("the page is wider than the window")
			}
			b.onPaper(charts)
			seen.mu.Lock()
			for _, request := range seen.requests {
				if request != "file://"+file {
					t.Errorf("the page requests %.100s", request)
				}
			}
			if len(seen.requests) != 1 || len(seen.console) > 0 {
				t.Errorf("%d requests; the console has %v", len(seen.requests), seen.console)
			}
			seen.mu.Unlock()
			b.audit(l.name)
		})
	}
}

// onPaper prints the page: in light colors, with the numbers of every chart.
func (b *tab) onPaper(charts any) {
	b.t.Helper()
	closed := b.eval("document.querySelectorAll('details:not([open])').length")
	b.eval(`
		window.printed = {}; addEventListener('beforeprint', () => { printed = {
			paper: document.documentElement.classList.contains('paper'), closed: document.querySelectorAll('details:not([open])').length,
			charts: ` + drawn + `, ground: getComputedStyle(document.documentElement).getPropertyValue('--ground').trim() } }); 0`)
	var pdf []byte
	b.run(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		pdf, _, err = page.PrintToPDF().WithPrintBackground(true).Do(ctx)
		return err
	}))
	if !bytes.HasPrefix(pdf, []byte("%PDF-")) || len(pdf) < 10_000 {
		b.t.Errorf("printed %d bytes", len(pdf))
	}
	if got, want := b.eval("JSON.stringify(printed)"), fmt.Sprintf(`{"paper":true,"closed":0,"charts":%v,"ground":"#fff"}`, charts); got != want {
		b.t.Errorf("on paper: %v, want %s", got, want)
	}
	b.await("!document.documentElement.classList.contains('paper')")
	if now := b.eval("document.querySelectorAll('details:not([open])').length"); now != closed {
		b.t.Errorf("%v parts are closed after printing, and %v before", now, closed)
	}
	b.await(fmt.Sprintf("%s === %v", drawn, charts))
}
