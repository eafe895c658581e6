//go:build linux

package uitest

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestScreenshots writes the pictures of docs/ui.md into the folder of the environment
// variable STINT_SCREENSHOTS. `make screenshots` runs it.
func TestScreenshots(t *testing.T) {
	folder := os.Getenv("STINT_SCREENSHOTS")
	if folder == "" {
		t.Skip("make screenshots writes pictures")
	}
	w := newWorld(t)
	w.do(http.MethodPut, "/rules/orders", "id: orders\n"+orders+"limit: 60/m\n")
	w.do(http.MethodPut, "/lists/deny/203.0.113.0%2F24", `{"for":"30d","reason":"scans for passwords"}`)
	w.do(http.MethodPut, "/lists/allow/sk_live_monitoring", `{"reason":"our own probes"}`)
	for n := range 900 { // the page Now shows how the traffic changes
		w.check("sk_live_"+strconv.Itoa(n%17/4)+"k2b7", []string{"/v1/orders/17", "/v1/orders/18", "/v1/search", "/about"}[n%7%4])
		<-time.After(time.Duration(5+n/60) * time.Millisecond)
	}
	b := newTab(t, w.pages(), look{width: 1100, height: 700})
	b.picture(folder, "sign-in")
	b.signIn(admin)
	b.sees("search")
	b.await("document.querySelector('canvas')")
	b.picture(folder, "now")
	for _, page := range pages {
		if page.name == "now" || page.name == "now-all" {
			continue
		}
		b.goTo(page.hash)
		b.sees(page.shows)
		b.picture(folder, page.name)
	}
	b.goTo("#/rules/orders/edit")
	b.write("id: orders\nmatch: {path_prefix: /v1/orders}\nby: [api_key]\nlimits: 10/m\n")
	b.sees("line 4")
	b.picture(folder, "editor")
	b.write("id: orders\nmatch: {path_prefix: /v1/orders}\nby: [api_key]\nlimit: 50/m\n")
	b.sees("No mistakes.")
	b.click("Review the change…")
	b.sees("Reason")
	b.picture(folder, "review")
	b.click("Back")
	b.sees("No mistakes.")
	w.do(http.MethodPut, "/rules/orders?comment=a+customer+needs+it", "id: orders\n"+orders+"limit: 70/m\nheaders: ietf\n")
	b.click("Review the change…")
	b.sees("Somebody else has published")
	b.await(theirs)
	b.eval("document.querySelector('.sides').scrollIntoView()")
	b.picture(folder, "conflict")
	b.click("Discard")
	b.goTo("#/key")
	b.fill("API key", "sk_live_0k2b7")
	b.fill("Path", "/v1/orders/17")
	b.click("Look up")
	b.sees("What was done to it")
	b.picture(folder, "key")
	b.goTo("#/replay")
	b.replay(recording(t))
	b.eval("document.querySelector('[aria-label=Result]').scrollIntoView()")
	b.picture(folder, "replay")
	b.goTo("#/emergency")
	b.click("Say what will happen…")
	b.sees("It ends by itself")
	b.picture(folder, "emergency")
	b.pictureOfACanary(w, folder)
	b.goTo("#/now?nodes=all")
	b.await("document.querySelector('canvas')")
	b.picture(folder, "now-all")
	b.goTo("#/now")
	b.run(b.looks(look{width: 1100, height: 700, dark: true}))
	b.await("document.querySelector('canvas')")
	b.picture(folder, "now-dark")
	b.run(b.looks(look{width: 390, height: 700}))
	b.goTo("#/rules")
	b.sees("search")
	b.picture(folder, "rules-phone")
}

// pictureOfACanary takes a picture of a canary that has met some requests, and ends it.
func (b *tab) pictureOfACanary(w *world, folder string) {
	b.t.Helper()
	w.do(http.MethodPut, "/rules?canary=30%25&soak=1h&force=true", strings.Replace(someRules, "20/m", "50/m", 1))
	for n := range 600 {
		w.check("sk_live_"+strconv.Itoa(n%83), "/v1/orders/17")
	}
	b.goTo("#/canary")
	b.await("[...document.querySelectorAll('td')].some(e => Number(e.innerText) > 100)")
	b.picture(folder, "canary")
	w.do(http.MethodPost, "/v1/canary/abort", "")
}

func (b *tab) picture(folder, name string) {
	b.t.Helper()
	b.await("!document.querySelector('.loading')")
	var picture []byte
	b.run(chromedp.CaptureScreenshot(&picture))
	if err := os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
