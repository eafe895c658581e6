package gateway

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/testserver"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
)

// fickle is an upstream that answers with a status that the test sets.
type fickle struct {
	status atomic.Int64
	asked  atomic.Int64
	*httptest.Server
}

func newFickle(t *testing.T) *fickle {
	t.Helper()
	f := &fickle{}
	f.status.Store(http.StatusOK)
	f.Server = serve(t, http1, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		f.asked.Add(1)
		w.WriteHeader(int(f.status.Load()))
	}))
	return f
}

func fickles(t *testing.T, n int) (all []*fickle, servers []ServerOptions) {
	t.Helper()
	for range n {
		f := newFickle(t)
		all, servers = append(all, f), append(servers, ServerOptions{URL: urlOf(t, f.URL)})
	}
	return all, servers
}

// guarded is a gateway with a clock and a log.
type guarded struct {
	*Gateway
	clock  clock
	log    bytes.Buffer
	counts map[string]*tally
	from   int          // the first client of served
	addrs  []netip.Addr // of clients that share no place in any table of witnesses
}

// tally is a counter.
type tally struct{ atomic.Int64 }

func (c *tally) Inc() { c.Add(1) }

func newGuarded(t *testing.T, o GroupOptions) *guarded {
	t.Helper()
	return newGuardedRoutes(t, o)
}

// newGuardedRoutes is newGuarded with routes.
func newGuardedRoutes(t *testing.T, o GroupOptions, routes ...RouteOptions) *guarded {
	t.Helper()
	g := &guarded{counts: map[string]*tally{}}
	for _, name := range []string{"openings", "ejections", "panics", "retries", "refused", "fallbacks", "2xx", "5xx"} {
		g.counts[name] = &tally{}
	}
	g.Gateway = newGateway(t, Options{
		Groups: []GroupOptions{o}, Routes: routes, Clock: g.clock.now, Logger: slog.New(slog.NewTextHandler(&g.log, nil)),
		RouteMetrics: func(string) RouteMetrics {
			m := noRouteMetrics("")
			m.Fallbacks = g.counts["fallbacks"]
			m.Status[2], m.Status[5] = g.counts["2xx"], g.counts["5xx"]
			return m
		},
		GroupMetrics: func(string) GroupMetrics {
			m := noGroupMetrics("")
			m.Openings, m.Ejections, m.Panics = g.counts["openings"], g.counts["ejections"], g.counts["panics"]
			m.Retries, m.RetriesRefused = g.counts["retries"], g.counts["refused"]
			return m
		},
	})
	return g
}

// ask sends a request of the client with a number, as if from a connection of its own.
func (g *guarded) ask(t *testing.T, client int, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(bounded(t), http.MethodGet, "/", http.NoBody)
	r.RemoteAddr = netip.AddrPortFrom(g.client(client), 1234).String()
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	g.ServeHTTP(w, r)
	return w
}

// client returns the address of a client.
func (g *guarded) client(number int) netip.Addr {
	next := netip.MustParseAddr("10.0.0.1")
	if n := len(g.addrs); n > 0 {
		next = g.addrs[n-1].Next()
	}
	for ; len(g.addrs) <= number; next = next.Next() {
		if !g.collides(next) {
			g.addrs = append(g.addrs, next)
		}
	}
	return g.addrs[number]
}

func (g *guarded) collides(addr netip.Addr) bool {
	return slices.ContainsFunc(g.groups[0].upstreams, func(u *upstream) bool {
		w := u.circuit.witnesses
		return w != nil && slices.ContainsFunc(g.addrs, func(a netip.Addr) bool { return w.place(a) == w.place(addr) })
	})
}

func TestCircuitOpensWhenAShareOfRequestsFails(t *testing.T) {
	upstreams, servers := fickles(t, 1)
	u := upstreams[0]
	g := newGuarded(t, GroupOptions{Servers: servers, Breaker: &breaker.Options{MinimumCalls: 4, OpenFor: 2 * time.Second}})
	u.status.Store(http.StatusBadGateway)
	for client := range 4 {
		if w := g.ask(t, client); w.Code != http.StatusBadGateway {
			t.Fatalf("client %d: got %d", client, w.Code)
		}
	}
	for client := range 10 {
		w := g.ask(t, client)
		if w.Code != http.StatusServiceUnavailable || errorCode(t, w.Body.String()) != "UPSTREAM_UNAVAILABLE" || w.Header().Get("Retry-After") != "2" {
			t.Fatalf("with an open circuit: got %d %v %s", w.Code, w.Header(), w.Body)
		}
	}
	if u.asked.Load() != 4 {
		t.Errorf("the upstream got %d requests, want 4", u.asked.Load())
	}
	if log := g.log.String(); !strings.Contains(log, `"circuit of an upstream is open"`) || !strings.Contains(log, `failures=4 responses=4 for=2s`) {
		t.Errorf("logged %s", log)
	}
	g.clock.advance(2 * time.Second)
	if w := g.ask(t, 5); w.Code != http.StatusBadGateway { // the probe
		t.Errorf("the probe: got %d", w.Code)
	}
	if w := g.ask(t, 1); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "4" {
		t.Errorf("after a failed probe: got %d, retry after %q; want 503 and 4", w.Code, w.Header().Get("Retry-After"))
	}
	u.status.Store(http.StatusOK)
	g.clock.advance(4 * time.Second)
	for client := range 5 {
		if w := g.ask(t, client); w.Code != http.StatusOK {
			t.Errorf("when it works again: got %d", w.Code)
		}
	}
}

func TestOpenCircuitLeavesTheOthersTheRequests(t *testing.T) {
	upstreams, servers := fickles(t, 2)
	g := newGuarded(t, GroupOptions{Servers: servers, Breaker: &breaker.Options{MinimumCalls: 4}})
	upstreams[0].status.Store(http.StatusInternalServerError)
	failed := 0
	for client := range 100 {
		if g.ask(t, client).Code != http.StatusOK {
			failed++
		}
	}
	if failed != 4 || upstreams[0].asked.Load() != 4 {
		t.Errorf("%d requests failed, and %d reached the broken upstream; want 4", failed, upstreams[0].asked.Load())
	}
}

// A client that sends only requests that fail, as fast as it can, opens no circuit,
// whether it is alone or not.
func TestOneClientOpensNoCircuit(t *testing.T) {
	for name, company := range map[string]bool{"alone": false, "amongOthers": true} {
		t.Run(name, func(t *testing.T) {
			upstreams, servers := fickles(t, 1)
			g := newGuarded(t, GroupOptions{Servers: servers, Breaker: &breaker.Options{}})
			for i := range 600 { // 30 s
				upstreams[0].status.Store(http.StatusInternalServerError)
				if w := g.ask(t, 0); w.Code != http.StatusInternalServerError {
					t.Fatalf("request %d: got %d %s", i, w.Code, w.Body)
				}
				if upstreams[0].status.Store(http.StatusOK); company && i%20 == 0 {
					if w := g.ask(t, 1+i%3); w.Code != http.StatusOK {
						t.Fatalf("another client: got %d", w.Code)
					}
				}
				g.clock.advance(50 * time.Millisecond)
			}
		})
	}
}

// A circuit that others have opened is closed by others, too: a client whose requests fail
// by its own choice cannot keep it open.
func TestOneClientKeepsNoCircuitOpen(t *testing.T) {
	upstreams, servers := fickles(t, 1)
	u := upstreams[0]
	g := newGuarded(t, GroupOptions{Servers: servers, Breaker: &breaker.Options{MinimumCalls: 4}})
	u.status.Store(http.StatusInternalServerError)
	for client := range 4 {
		g.ask(t, client)
	}
	const attacker = 9
	g.clock.advance(time.Second)
	g.ask(t, attacker) // the failed probe opens the circuit for two seconds
	if w := g.ask(t, 1); w.Code != http.StatusServiceUnavailable {
		t.Fatalf("after a failed probe: got %d", w.Code)
	}
	g.clock.advance(2 * time.Second)
	for range 5 {
		if w := g.ask(t, attacker); w.Code != http.StatusInternalServerError {
			t.Errorf("another probe of the same client: got %d", w.Code)
		}
	}
	u.status.Store(http.StatusOK)
	for client := range 3 {
		if w := g.ask(t, client); w.Code != http.StatusOK {
			t.Errorf("client %d: got %d", client, w.Code)
		}
	}
	if s := g.groups[0].upstreams[0].circuit.breaker.State(); s != breaker.Closed {
		t.Errorf("the circuit is %v", s)
	}
}

func TestWhatIsTheClientsDoingOpensNoCircuit(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		header []string
		want   int
	}{
		{"aDeadlineThatIsTooShort", http.StatusGatewayTimeout, []string{"X-Deadline-Ms", "90"}, http.StatusGatewayTimeout},
		{"noTimeAtAll", http.StatusOK, []string{"X-Deadline-Ms", "0"}, http.StatusGatewayTimeout},
		{"badRequests", http.StatusBadRequest, nil, http.StatusBadRequest},
		{"tooManyRequests", http.StatusTooManyRequests, nil, http.StatusTooManyRequests},
		{"methodsThatAreUnknown", http.StatusNotImplemented, nil, http.StatusNotImplemented},
		{"anInvalidHeader", http.StatusOK, []string{"X-Bad", "two\nlines"}, http.StatusBadGateway},
	} {
		t.Run(c.name, func(t *testing.T) {
			upstreams, servers := fickles(t, 1)
			upstreams[0].status.Store(int64(c.status))
			g := newGuarded(t, GroupOptions{Servers: servers, Breaker: &breaker.Options{MinimumCalls: 2}, Ejection: &EjectionOptions{Failures: 2}})
			for client := range 8 {
				if w := g.ask(t, client, c.header...); w.Code != c.want {
					t.Fatalf("got %d %s, want %d", w.Code, w.Body, c.want)
				}
			}
			if counts := g.groups[0].upstreams[0].circuit.breaker.Counts(); counts.Failures != 0 {
				t.Errorf("counted %+v", counts)
			}
		})
	}
}

// An upstream that cannot be reached needs no second witness.
func TestFailuresToConnectAlwaysCount(t *testing.T) {
	g := newGuarded(t, GroupOptions{Servers: servers(urlOf(t, "http://"+testserver.FreeAddr(t))), Breaker: &breaker.Options{MinimumCalls: 4, Window: time.Hour, OpenFor: time.Minute}})
	for range 4 {
		g.ask(t, 1)
		g.clock.advance(maxBackOff)
	}
	if s := g.groups[0].upstreams[0].circuit.breaker.State(); s != breaker.Open {
		t.Errorf("the circuit is %v", s)
	}
	if w := g.ask(t, 1); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "15" {
		t.Errorf("got %d, retry after %q", w.Code, w.Header().Get("Retry-After"))
	}
}

func TestTimeoutOfTheGroupCountsAsAFailure(t *testing.T) {
	silent := serve(t, http1, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	g := newGuarded(t, GroupOptions{Servers: servers(urlOf(t, silent.URL)), Timeout: 20 * time.Millisecond, Breaker: &breaker.Options{MinimumCalls: 2}})
	for client := range 2 {
		if w := g.ask(t, client); w.Code != http.StatusGatewayTimeout {
			t.Fatalf("got %d", w.Code)
		}
	}
	if w := g.ask(t, 2); w.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d, want an open circuit", w.Code)
	}
}

func TestWitnesses(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	w := newWitnesses()
	addr := func(text string) (counts bool) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.RemoteAddr = text
		return w.counts(peerOf(r), now)
	}
	if !addr("10.0.0.1:1") || addr("10.0.0.1:2") {
		t.Error("want the first response of a second, and no other")
	}
	if now = now.Add(time.Second - 1); addr("10.0.0.1:1") {
		t.Error("a second response counts within a second")
	}
	if now = now.Add(1); !addr("10.0.0.1:1") {
		t.Error("no response counts after a second")
	}
	now = now.Add(time.Second) // the clients so far may have the same place
	if !addr("[2001:db8::1]:1") || addr("[2001:db8::2]:1") {
		t.Error("want one response for a network of IPv6")
	}
	if now = now.Add(-time.Hour); !addr("10.0.0.1:1") || addr("10.0.0.1:1") {
		t.Error("want one response a second after the clock was set back")
	}
	counted := 0
	for i := range 100_000 {
		if addr(fmt.Sprintf("10.%d.%d.%d:1", 1+i>>16, i>>8&255, i&255)) {
			counted++
		}
	}
	if counted > len(w.latest) {
		t.Errorf("%d responses of a flood of clients count in one second, want at most %d", counted, len(w.latest))
	}
}

// However requests end, no place, probe or count is lost.
func TestManyRequestsWithEverything(t *testing.T) {
	upstreams, servers := fickles(t, 3)
	g := newGuarded(t, GroupOptions{
		Servers: servers, Breaker: &breaker.Options{MinimumCalls: 4}, Ejection: &EjectionOptions{Failures: 2},
		Bulkhead: &bulkhead.Options{Limit: 4, Queue: 8, MaxWait: 50 * time.Millisecond}, Retry: &RetryOptions{Budget: 1},
	})
	front := serve(t, http1, g)
	statuses := []int64{http.StatusOK, http.StatusServiceUnavailable, http.StatusInternalServerError}
	var group sync.WaitGroup
	for worker := range 8 {
		client := clientOf(t, http1, front)
		group.Go(func() {
			for i := range 50 {
				upstreams[(worker+i)%3].status.Store(statuses[i/10%3])
				g.clock.advance(100 * time.Millisecond)
				r, _ := http.NewRequestWithContext(bounded(t), http.MethodGet, front.URL, http.NoBody)
				if i%5 == 0 {
					r.Header.Set("X-Deadline-Ms", "1")
				}
				if res, err := client.Do(r); err == nil {
					_ = res.Body.Close()
				}
			}
		})
	}
	group.Wait()
	gr := g.groups[0]
	until(t, "all places are free", func() bool { return gr.bulkhead.Usage().InUse == 0 && gr.bulkhead.Usage().Waiting == 0 })
	for _, u := range upstreams {
		u.status.Store(http.StatusOK)
	}
	for range 10 { // more than every open period
		g.clock.advance(time.Hour)
		for client := range 6 {
			g.ask(t, client)
		}
	}
	if got := g.served(t, upstreams); got != "..." || gr.ejected.Load() != 0 {
		t.Errorf("served %s, %d ejected", got, gr.ejected.Load())
	}
	for _, u := range gr.upstreams {
		if n := u.inFlight.Load() + u.trials.Load(); n != 0 || u.circuit.breaker.State() != breaker.Closed {
			t.Errorf("%s: %d in flight, circuit %v", u.name, n, u.circuit.breaker.State())
		}
	}
}
