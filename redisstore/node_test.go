package redisstore

import (
	"cmp"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// counting adds its argument to its key, so that the server has the number of runs.
var counting = newScript(`return tostring(redis.call('INCRBY', KEYS[1], ARGV[1]))`)

func newTestTopology(t *testing.T, o Options) *topology {
	t.Helper()
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second) // for machines that are busy with other tests
	if err := o.setDefaults(); err != nil {
		t.Fatal(err)
	}
	top := newTopology(&o, counting)
	t.Cleanup(top.close)
	return top
}

// count runs the counting script once on the node of a key.
func count(t *testing.T, top *topology, key string) (string, error) {
	t.Helper()
	replies := make([]reply, 1)
	top.nodeOf(slotOf(key)).send(t.Context(), []invocation{{script: counting, keys: []string{key}, args: []string{"1"}}}, replies)
	return replies[0].data, replies[0].err
}

// wantError fails the test unless err is the store's error of a code and kind,
// with a mend.
func wantError(t *testing.T, err error, code stint.Code, kind stint.Kind) {
	t.Helper()
	var e *stint.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v is not a *stint.Error", err)
	}
	if e.Code != code || e.Kind != kind || e.Problem == "" {
		t.Fatalf("error has code %d, kind %q: %v; want code %d, kind %q", e.Code, e.Kind, err, code, kind)
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("after 20 s still not: " + what)
		}
	}
}

func TestCallRunsAScriptOnce(t *testing.T) {
	server := redistest.Server(t)
	top := newTestTopology(t, Options{Addrs: []string{server.Addr()}})
	for _, want := range []string{"1", "2", "3"} {
		got, err := count(t, top, "k")
		if err != nil || got != want {
			t.Fatal(got, err)
		}
	}
	if n := top.dialer.noScript.Load(); n != 0 {
		t.Errorf("%d calls missed their script; want it loaded with the connection", n)
	}
}

func TestCallsOfOneWriteRunInOrder(t *testing.T) {
	server := redistest.Server(t)
	top := newTestTopology(t, Options{Addrs: []string{server.Addr()}})
	one := invocation{script: counting, keys: []string{"k"}, args: []string{"1"}}
	replies := make([]reply, 3)
	top.nodeOf(0).send(t.Context(), []invocation{one, one, one}, replies)
	for i, want := range []string{"1", "2", "3"} {
		if replies[i].data != want || replies[i].err != nil {
			t.Error(i, replies[i])
		}
	}
}

func TestFlushedScriptsAreCountedAndSentAgain(t *testing.T) {
	server := redistest.Server(t)
	top := newTestTopology(t, Options{Addrs: []string{server.Addr()}})
	var callers sync.WaitGroup
	const each = 500
	for range 4 {
		callers.Go(func() {
			for range each {
				if _, err := count(t, top, "k"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 10 {
		server.Must("SCRIPT", "FLUSH")
	}
	callers.Wait()
	server.Must("SCRIPT", "FLUSH")
	before := top.dialer.noScript.Load()
	got, err := count(t, top, "k")
	if err != nil || got != "2001" {
		t.Errorf("after %d calls and one more the server counts %s, %v", 4*each, got, err)
	}
	if n := top.dialer.noScript.Load() - before; n != 1 {
		t.Errorf("a call after SCRIPT FLUSH counted %d missing scripts; want 1", n)
	}
}

func TestStoppedNodeSendsNothingUntilStarted(t *testing.T) {
	server := redistest.Server(t)
	top := newTestTopology(t, Options{Addrs: []string{server.Addr()}})
	if _, err := count(t, top, "k"); err != nil {
		t.Fatal(err)
	}
	n := top.nodeOf(0)
	n.stop()
	eventually(t, "the server sees the connection closed", func() bool {
		clients, err := server.Info("connected_clients")
		return err == nil && clients == "1" // the client of this test
	})
	_, err := count(t, top, "k")
	wantError(t, err, stint.CodeUnavailable, "stopped")
	if err := n.probe(t.Context()); err != nil {
		t.Fatal("a probe of a stopped node:", err)
	}
	kept := n.conn.Load()
	_, err = count(t, top, "k")
	wantError(t, err, stint.CodeUnavailable, "stopped")
	n.start()
	if got, err := count(t, top, "k"); err != nil || got != "2" {
		t.Error(got, err)
	}
	if n.conn.Load() != kept {
		t.Error("the connection of the probe was not kept")
	}
}

func TestServerThatStartsLaterIsFound(t *testing.T) {
	server := redistest.Server(t)
	server.Kill()
	top := newTestTopology(t, Options{Addrs: []string{server.Addr()}})
	_, err := count(t, top, "k")
	wantError(t, err, stint.CodeUnavailable, "connection")
	wantError(t, top.nodeOf(0).probe(t.Context()), stint.CodeUnavailable, "connection")
	server.Restart()
	if got, err := count(t, top, "k"); err != nil || got != "1" {
		t.Error(got, err)
	}
}

func asError(err error, into **stint.Error) bool { return errors.As(err, into) }
