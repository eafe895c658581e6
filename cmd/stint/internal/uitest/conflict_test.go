//go:build linux

package uitest

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// A rule that somebody else has deleted or created meanwhile is no dead end: the text of the user
// stays, and is published by the second review.
func TestARuleIsDeletedOrCreatedWhileItIsEdited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.pages()+"#/rules/orders/edit", desk)
	b.signIn(operator)
	b.write("id: orders\n" + orders + "limit: 21/m\n")
	b.sees("No mistakes.")
	w.do(http.MethodDelete, "/rules/orders", "")
	b.click("Review the change…")
	b.sees("Somebody else has deleted this meanwhile, so your change was not published.")
	b.await(editor + ".innerText.includes('21/m')")
	b.audit("a rule that was deleted")
	b.publish("it is needed")
	b.sees("21 a minute for each API key")

	b.goTo("#/rules/carts/new")
	b.write("match: {path_prefix: /v1/carts}\nby: [api_key]\nlimit: 22/m\n")
	b.sees("No mistakes.")
	w.do(http.MethodPut, "/rules/carts", "{match: {path_prefix: /v1/carts}, by: [ip], limit: 33/m}")
	b.click("Review the change…")
	b.sees("Somebody else has created this meanwhile, so your text was not published.")
	b.await(theirs + ".innerText.includes('33/m')")
	b.await(editor + ".innerText.includes('22/m')")
	b.sees("No mistakes.")
	b.click("Review the change…")
	b.fill("Reason", "mine is right")
	b.click("Publish the new rule")
	b.await("location.hash === '#/rules/carts'")
	b.sees("22 a minute for each API key")

	b.goTo("#/tiers/gold/new")
	b.write("limit: 44/m\n")
	b.sees("No mistakes.")
	w.do(http.MethodPut, "/rules/tier/gold", "{limit: 55/m}")
	b.click("Review the change…")
	b.sees("Somebody else has created this meanwhile")
	b.sees("No mistakes.")
	b.click("Review the change…")
	b.fill("Reason", "mine is right")
	b.click("Publish the new tier")
	b.sees("44/m")
}

// A file that somebody else has removed from the set stays in the editor if the user has changed it.
func TestAFileIsRemovedWhileItIsEdited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	type file struct {
		Name string `json:"name"`
		Text string `json:"text"`
	}
	put := func(files ...file) {
		body, err := json.Marshal(map[string]any{"files": files})
		if err != nil {
			t.Fatal(err)
		}
		w.do(http.MethodPut, "/rules?force=true", string(body))
	}
	shop := file{"shop.yaml", "rules:\n  - {id: orders, match: {path_prefix: /v1/orders}, by: [api_key], limit: 20/m}\n"}
	door := file{"door.yaml", "rules:\n  - {id: logins, match: {path: /login}, by: [ip], limit: 5/m}\n"}
	put(shop, door)
	b := newTab(t, w.pages()+"#/rules/*/edit?file=door.yaml", desk)
	b.signIn(admin)
	b.write(strings.Replace(door.Text, "5/m", "6/m", 1))
	b.sees("No mistakes.")
	put(file{"shop.yaml", shop.Text + "  - {id: logins, match: {path: /login}, by: [ip], limit: 5/m}\n"})
	b.click("Review the change…")
	b.sees("The newest rules have no file door.yaml.")
	b.await(editor + ".innerText.includes('6/m')")
	b.sees("The rules have mistakes.") // the rule is in both files
	b.write("")
	b.click("shop.yaml")
	b.await(editor + ".innerText.includes('orders')")
	b.write(shop.Text + "  - {id: logins, match: {path: /login}, by: [ip], limit: 6/m}\n")
	b.sees("No mistakes.")
	b.click("Review the change…")
	b.fill("Reason", "one file is enough")
	b.click("Publish all rules")
	b.await("location.hash === '#/rules'")
	if got := w.do(http.MethodGet, "/rules", ""); !strings.Contains(got, "6/m") || strings.Contains(got, "door.yaml") {
		t.Error(got)
	}
}

// A user who leaves the page of a publication stays where they have gone, and the draft ends with it.
func TestAPublicationDoesNotCallTheUserBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var slow atomic.Bool
	leave := make(chan struct{})
	b := newTab(t, w.prefixed(func(r *http.Request) {
		if r.Method == http.MethodPut && slow.Load() {
			<-leave
		}
	})+"#/rules/orders/edit", desk)
	b.signIn(operator)
	b.write("id: orders\n" + orders + "limit: 21/m\n")
	b.sees("No mistakes.")
	b.click("Review the change…")
	b.fill("Reason", "one more")
	slow.Store(true)
	b.click("Publish the rule")
	b.sees("The server makes the change…")
	b.goTo("#/versions")
	b.sees("Every published version")
	close(leave)
	b.sees("one more") // the list is loaded anew every few seconds
	b.await("!Object.keys(localStorage).some(k => k.startsWith('stint-draft'))")
	if at := b.eval("location.hash"); at != "#/versions" {
		t.Errorf("the page is now %v", at)
	}
}
