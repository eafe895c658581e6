//go:build linux

package uitest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// expire gives the user of a token another one, and returns it once the server refuses the first.
func (w *world) expire(tokens *[3]string, user int) string {
	w.t.Helper()
	old := tokens[user]
	tokens[user] += "-renewed"
	w.writeTokens(tokens[0], tokens[1], tokens[2])
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(20 * time.Millisecond) { // the server looks for changes of the file
		request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+w.admin+"/v1/whoami", nil)
		if err != nil {
			w.t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+old)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			w.t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode == http.StatusUnauthorized {
			return tokens[user]
		}
	}
	w.t.Fatal("the server accepts a token that has expired")
	return ""
}

// Whatever a user is doing when the token expires, the pages ask for another one and go on with
// all that the user wrote. Another role has its controls at once.
func TestAnExpiredTokenLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	busy(w)
	tokens := [3]string{viewer, operator, admin}
	const ofViewer, ofOperator, ofAdmin = 0, 1, 2
	b := newTab(t, w.pages()+"#/rules", desk)
	b.fill("Admin token", "another")
	b.run(chromedp.KeyEvent("\r"))
	b.sees("The server refused the token. Give the token itself")
	b.lacks("What you have written is still here")
	b.signIn(viewer)
	b.sees("logins")
	b.lacks("New rule…")
	w.expire(&tokens, ofViewer)
	b.signIn(tokens[ofOperator])
	b.sees("New rule…")
	b.sees("olga")
	b.lacks("Edit all rules…")

	// again clicks a button with an expired token, and signs in.
	again := func(button, token string) {
		t.Helper()
		b.click(button)
		b.sees("Sign in again")
		b.signIn(token)
	}
	b.goTo("#/key")
	b.fill("API key", "sk_live_0")
	b.click("Look up")
	b.click("Ban…")
	b.fill("For", "2h")
	b.fill("Reason", "tries passwords")
	again("Ban", w.expire(&tokens, ofOperator))
	b.sees("The key is banned for 2h.")
	b.sees("tries passwords")

	b.goTo("#/lists")
	b.fill("Entry", "192.0.2.0/24")
	b.fill("For", "3h")
	token := w.expire(&tokens, ofOperator)
	again("Review the entry…", token)
	b.sees("192.0.2.0/24 is denied by all rules, for 3h.")
	b.await(control("Add the entry"))
	b.fill("Reason", "scans")
	again("Add the entry", w.expire(&tokens, ofOperator))
	b.sees("The entry was added.")
	b.sees("scans")

	b.goTo("#/emergency")
	b.fill("Limit", "9000/s")
	b.click("Say what will happen…")
	b.fill("Reason", "a flood")
	again("Switch it on", w.expire(&tokens, ofOperator))
	b.sees("The emergency is on.")
	b.sees("each address may make 9,000 requests a second. Switched on by olga: a flood.")

	b.goTo("#/replay")
	b.sees("Recording")
	b.run(chromedp.SetUploadFiles("input[type=file]", []string{recording(t)}, chromedp.ByQuery))
	b.click("Compare with a draft")
	b.write(strings.Replace(someRules, "20/m", "1/m", 1))
	w.expire(&tokens, ofOperator)
	again("Start the replay", tokens[ofAdmin])
	b.sees("2 callers")

	b.goTo("#/rules/orders/edit")
	b.write(orders + "limit: 29/h\n")
	b.sees("No mistakes.")
	b.click("Review the change…")
	b.click("Try it on some callers first (a canary)")
	b.fill("Share of the callers, in %", "30")
	b.fill("Promote by itself after", "24h")
	b.sees("30 % of the callers")
	b.fill("Reason", "one less")
	again("Start the canary", w.expire(&tokens, ofAdmin))
	b.await("location.hash === '#/canary'")
	b.sees("by ada: one less")
	b.sees("for 30 % of the callers")
	b.click("Abort…")
	b.fill("Reason", "not today")
	again("Abort the canary", w.expire(&tokens, ofAdmin))
	b.sees("has the old rules for all callers.")
}
