//go:build linux

package uitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/internal/testserver"
)

// traffic makes requests of a number of callers, with a pause after each, until the test ends. It
// does not care whether they are answered.
func (w *world) traffic(callers int, pause time.Duration) {
	done := make(chan struct{})
	ended := make(chan struct{})
	w.t.Cleanup(func() { close(done); <-ended })
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-time.After(pause):
			}
			body := fmt.Appendf(nil, `{"attributes":{"api_key":"sk_live_%d","path":%q,"method":"POST","ip":"192.0.2.%d"}}`, n%callers, []string{"/v1/orders/1", "/login"}[n%2], n%callers)
			response, err := http.Post("http://"+w.http+"/v1/check", "application/json", bytes.NewReader(body))
			if err == nil {
				_ = response.Body.Close()
			}
		}
	}()
}

// self returns what the server says of itself.
func (w *world) self() *ruleset.NodeStatus {
	w.t.Helper()
	var body struct{ Nodes []ruleset.Node }
	if err := json.Unmarshal([]byte(w.do(http.MethodGet, "/nodes?self", "")), &body); err != nil || len(body.Nodes) != 1 || body.Nodes[0].Status == nil {
		w.t.Fatalf("%+v %v", body, err)
	}
	return body.Nodes[0].Status
}

// While the store fails, a banner says so: which server, by which policy requests are decided,
// since when, and what share of them. The page of the nodes has the errors and the circuit, also
// when the source of the rules fails too. When the store is back, the banner goes.
func TestAStoreThatFailsIsShown(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	store := cluster.Nodes[1]
	// A busy machine is slow, which is no failure here.
	w := newWorld(t, "--store", "redis-cluster://"+strings.Join(cluster.Addrs(), ","), "--store-slow", "0", "--store-deadline", "1s")
	w.do(http.MethodPut, "/rules?force=true", someRules+"    on_store_failure: closed\n") // of logins
	w.traffic(50, 20*time.Millisecond)
	b := newTab(t, w.pages(), desk)
	b.signIn(viewer)
	b.sees("logins")
	b.lacks("Degraded since")
	b.goTo("#/nodes")
	b.await(`[...document.querySelectorAll('td')].some(e => /^-?\d+\.\d ms$/.test(e.innerText))`) // the clock of the server
	b.lacks("store unavailable")

	store.Kill()
	b.goTo("#/now")
	b.sees("Degraded since")
	b.sees(store.Addr() + " since")
	for _, other := range []*redistest.Process{cluster.Nodes[0], cluster.Nodes[2]} {
		b.lacks(other.Addr() + " since")
	}
	b.sees("circuit open")
	b.await(`/\d+ claims? allowed \(open\), \d+ claims? denied \(closed\) in 10 seconds/.test(document.body.innerText)`)
	b.await(`/since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+: [\d.]+ % of the requests of the last 10 seconds/.test(document.querySelector('.box.bad').innerText)`)
	if said := b.eval("document.querySelector('[role=alert]').innerText.match(/claim|%/)"); said != nil {
		t.Errorf("a screen reader reads numbers out each second: %v", said)
	}
	b.await("document.querySelector('[role=alert] time').title.endsWith('UTC')")
	b.audit("a banner")
	other := *w
	other.admin, other.http, other.state, other.options = testserver.FreeAddr(t), testserver.FreeAddr(t), t.TempDir(), []string{"--store", "memory"}
	other.start()
	b.run(chromedp.Navigate(other.pages()))
	b.signIn(viewer)
	b.sees("1 node of 2 decides requests without the store.")
	b.lacks("Degraded since")
	b.click("Look at all nodes")
	b.await(`/\S+ is degraded since \d{4}.*: [\d.]+ % of the requests/.test(document.querySelector('.box.bad').innerText)`)
	b.sees(store.Addr() + " since")
	b.sees("unmatched")
	b.audit("a banner of another node")
	b.run(chromedp.Navigate(w.pages() + "#/nodes"))
	b.signIn(viewer)
	b.sees("store unavailable")
	status := w.self()
	if status.StoreUp || status.LastError == nil || len(status.Breakers) != 3 {
		t.Fatalf("%+v", status)
	}
	at := slices.IndexFunc(status.Breakers, func(b ruleset.NodeBreaker) bool { return b.Shard == store.Addr() })
	if at < 0 || status.Breakers[at].Opens == 0 || status.Breakers[at].Refused == 0 {
		t.Fatalf("%+v", status.Breakers)
	}
	b.await("[...document.querySelectorAll('td .badge')].some(e => e.innerText === 'open')")
	b.sees(status.LastError.Kind)
	b.await(`[...document.querySelectorAll('td')].some(e => parseInt(e.innerText.replace(/,/g, '')) >= ` + fmt.Sprint(status.Breakers[at].Refused) + ` && e.innerText.endsWith('calls'))`)
	b.audit("nodes without a store")

	w.redis.Freeze() // the source of the rules
	b.sees("The other nodes are not known")
	b.sees("store unavailable")
	w.redis.Thaw()
	store.Restart()
	b.await("!document.body.innerText.includes('The other nodes are not known')")
	b.await("!document.body.innerText.includes('store unavailable')")
	b.goTo("#/now")
	b.await("document.querySelector('canvas') && !document.body.innerText.includes('Degraded since')")
}

// The page of the nodes shows how full the memory of a node is, and what it has leased.
func TestNodesShowMemoryAndLeases(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--store", "memory", "--max-keys", "10000")
	for n := range 100 {
		w.check(fmt.Sprint("key-", n), "/v1/orders/1")
	}
	b := newTab(t, w.pages()+"#/nodes", desk)
	b.signIn(viewer)
	b.sees("1 %: 100 of 10,000 keys")
	b.sees("No node reports servers of a store")

	w = newWorld(t)
	w.do(http.MethodPut, "/rules/orders", "{match: {path_prefix: /v1/orders}, by: [api_key], limit: 10000/m, consistency: leased}")
	w.traffic(5, time.Millisecond) // only busy keys are leased
	b = newTab(t, w.pages()+"#/nodes", desk)
	b.signIn(viewer)
	b.await(`/[1-9]\d* tokens? of [1-5] keys?/.test(document.body.innerText)`)
}

// While a node runs other rules than the others, the pages say so.
func TestVersionsThatDifferAreShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := *w
	other.admin, other.http, other.state = testserver.FreeAddr(t), testserver.FreeAddr(t), t.TempDir()
	other.start()
	now, nodes := newTab(t, w.pages()+"#/now", desk), newTab(t, w.pages()+"#/nodes", phone)
	now.signIn(viewer)
	nodes.signIn(viewer)
	nodes.await("document.querySelectorAll('section, .table')[0].querySelectorAll('tbody tr').length === 2")
	now.lacks("The nodes run different rules")
	other.server.Freeze()
	w.do(http.MethodPut, "/rules/orders", "id: orders\n"+orders+"limit: 30/m\n")
	nodes.sees("The nodes run different rules.")
	now.sees("The nodes run different rules: versions 2, 1.")
	now.audit("versions that differ")
	other.server.Thaw()
	now.await("!document.body.innerText.includes('The nodes run different rules')")
	nodes.await("!document.body.innerText.includes('The nodes run different rules')")
}
