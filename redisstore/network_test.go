package redisstore

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// ran returns how often the counting script ran on a key.
func ran(t *testing.T, server *redistest.Process, key string) int {
	t.Helper()
	n, err := strconv.Atoi("0" + server.Must("GET", key))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A call whose reply was lost has run. If it were sent again, it would be charged twice.
func TestCallWhoseReplyIsLostIsNotRepeated(t *testing.T) {
	server := redistest.Server(t)
	proxy := redistest.Proxy(t, server.Addr())
	top := newTestTopology(t, Options{Addrs: []string{proxy.Addr()}, Heartbeat: -1})
	if _, err := count(t, top, "k"); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		before := ran(t, server, "k")
		proxy.DropReplies()
		failed := make(chan error)
		go func() {
			_, err := count(t, top, "k")
			failed <- err
		}()
		eventually(t, "the call has run", func() bool { return ran(t, server, "k") > before })
		proxy.Cut()
		wantError(t, <-failed, stint.CodeTimeout, "connection")
		proxy.Heal()
		if _, err := count(t, top, "k"); err != nil {
			t.Fatal(err)
		}
		if n := ran(t, server, "k"); n != before+2 {
			t.Fatalf("round %d: two calls ran %d times", i, n-before)
		}
	}
}

func TestResetsUnderLoadRepeatNoCall(t *testing.T) {
	server := redistest.Server(t)
	proxy := redistest.Proxy(t, server.Addr())
	top := newTestTopology(t, Options{Addrs: []string{proxy.Addr()}, Heartbeat: -1})
	keys := []string{"a", "b", "c", "d"}
	stop := load(t, top, keys)
	for i := 1; i <= 30; i++ {
		goal := ran(t, server, "a") + 5
		eventually(t, "calls run", func() bool { return ran(t, server, "a") >= goal })
		proxy.Cut()
	}
	answered, unknown := stop()
	t.Log("answered", answered, "unknown", unknown)
	for i, key := range keys {
		n := int64(ran(t, server, key))
		if n < answered[i] || n > answered[i]+unknown[i] {
			t.Errorf("%s: %d calls were answered, %d may have run, and %d did", key, answered[i], unknown[i], n)
		}
	}
}

func TestRefusedConnectionsAreCertainNotToHaveCharged(t *testing.T) {
	server := redistest.Server(t)
	top := newTestTopology(t, Options{Addrs: []string{server.Addr()}, Heartbeat: -1})
	if _, err := count(t, top, "k"); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	eventually(t, "calls know that they are not sent", func() bool {
		_, err := count(t, top, "k")
		var e *stint.Error
		return asError(err, &e) && e.Code == stint.CodeUnavailable
	})
	server.Restart()
	if got, err := count(t, top, "k"); err != nil || got != "1" {
		t.Error(got, err)
	}
}

// A caller that does not wait for the connection gets an error of its own time, and not
// that the server is unavailable.
func TestCallerThatDoesNotWaitForTheConnectionGivesUp(t *testing.T) {
	server := redistest.Server(t)
	server.Freeze()
	defer server.Thaw()
	store := open(t, Options{Addrs: []string{server.Addr()}, Heartbeat: -1})
	claim := stint.Claim{Key: "k", Limit: perHour(t, 1), Cost: 1}
	for _, c := range []struct {
		within time.Duration
		code   stint.Code
	}{{time.Millisecond, stint.CodeTimeout}, {time.Hour, stint.CodeCanceled}} {
		ctx, cancel := context.WithTimeout(t.Context(), c.within)
		time.AfterFunc(20*time.Millisecond, cancel)
		_, err := store.Take(ctx, claim)
		var e *stint.Error
		if !asError(err, &e) || e.Code != c.code {
			t.Errorf("gave up with %v", err)
		}
	}
}

// A check whose answer is lost is charged once, and its error says that the outcome is
// unknown.
func TestCheckWhoseAnswerIsLostIsChargedOnce(t *testing.T) {
	eachWay(t, 1000, checkWhoseAnswerIsLostIsChargedOnce)
}

func checkWhoseAnswerIsLostIsChargedOnce(t *testing.T, l stint.Limit) {
	server := redistest.Server(t)
	proxy := redistest.Proxy(t, server.Addr())
	store := open(t, Options{Addrs: []string{proxy.Addr()}, Heartbeat: -1})
	direct := open(t, Options{Addrs: []string{server.Addr()}, Heartbeat: -1})
	claim := stint.Claim{Key: "k", Limit: l, Cost: 1}
	used := func() int64 {
		peek := claim
		peek.Cost = 0
		d, err := direct.Take(t.Context(), peek)
		if err != nil {
			t.Fatal(err)
		}
		return d.Limit - d.Remaining
	}
	for i := range int64(10) {
		if _, err := store.Take(context.Background(), claim); err != nil {
			t.Fatal(err)
		}
		proxy.DropReplies()
		failed := make(chan error)
		go func() {
			_, err := store.Take(context.Background(), claim)
			failed <- err
		}()
		eventually(t, "the check is charged", func() bool { return used() == 2*i+2 })
		proxy.Cut()
		wantError(t, <-failed, stint.CodeTimeout, "connection")
		proxy.Heal()
	}
	if n := used(); n != 20 {
		t.Errorf("20 checks, of which 10 lost their answer, were charged %d times", n)
	}
}

func TestCloseDoesNotWaitForAFrozenServer(t *testing.T) {
	eachWay(t, 1, closeDoesNotWaitForAFrozenServer)
}

func closeDoesNotWaitForAFrozenServer(t *testing.T, l stint.Limit) {
	server := redistest.Server(t)
	store := open(t, Options{Addrs: []string{server.Addr()}, Timeout: time.Minute, Heartbeat: -1})
	eventually(t, "it is connected", func() bool { return store.Stats().Up })
	server.Freeze()
	defer server.Thaw()
	claim := stint.Claim{Key: "k", Limit: l, Cost: 1}
	failed := make(chan error)
	go func() {
		_, err := store.Take(context.Background(), claim)
		failed <- err
	}()
	eventually(t, "the check is on its way", func() bool { return inUse(store.topology.nodeOf(0)) })
	start := time.Now()
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	wantError(t, <-failed, stint.CodeTimeout, "connection")
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("closing took %v", took)
	}
}

// inUse reports whether a call uses the node's conn.
func inUse(n *node) bool {
	c := n.conn.Load()
	if c == nil || !c.use.TryLock() {
		return c != nil
	}
	c.use.Unlock()
	return false
}
