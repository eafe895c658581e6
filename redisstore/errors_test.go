package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

func TestReplicaIsReadonly(t *testing.T) {
	servers := redistest.Sentinel(t)
	master := servers.Master().Addr()
	for _, p := range servers.Servers {
		if p.Addr() == master {
			continue
		}
		top := newTestTopology(t, Options{Addrs: []string{p.Addr()}})
		_, err := count(t, top, "k")
		wantError(t, err, stint.CodeUnavailable, "readonly")
		wantError(t, top.nodeOf(0).probe(t.Context()), stint.CodeUnavailable, "readonly")
		return
	}
}

func TestSlowScriptMakesTheServerBusy(t *testing.T) {
	server := redistest.Server(t, "--lua-time-limit", "20")
	top := newTestTopology(t, Options{Addrs: []string{server.Addr()}})
	if _, err := count(t, top, "k"); err != nil {
		t.Fatal(err)
	}
	var slow sync.WaitGroup
	slow.Go(func() { _, _ = server.Do("EVAL", "while true do end", "0") })
	defer slow.Wait()
	defer func() { server.Must("SCRIPT", "KILL") }()
	eventually(t, "the server says BUSY", func() bool {
		_, err := server.Do("PING")
		return err != nil && strings.HasPrefix(err.Error(), "PING to "+server.Addr()+": BUSY")
	})
	_, err := count(t, top, "k")
	wantError(t, err, stint.CodeUnavailable, "busy")
}

func TestFullServerIsOutOfMemory(t *testing.T) {
	server := redistest.Server(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction")
	top := newTestTopology(t, Options{Addrs: []string{server.Addr()}})
	_, err := count(t, top, "k")
	wantError(t, err, stint.CodeUnavailable, "oom")
	wantError(t, top.nodeOf(0).probe(t.Context()), stint.CodeUnavailable, "oom")
}

func TestServerWithoutItsReplicasRefusesWrites(t *testing.T) {
	server := redistest.Server(t)
	top := newTestTopology(t, Options{Addrs: []string{server.Addr()}})
	server.Must("CONFIG", "SET", "min-replicas-to-write", "1")
	_, err := count(t, top, "k")
	if redistest.IsRedis6(t) {
		if err != nil { // such a server does not apply min-replicas-to-write to scripts
			t.Error(err)
		}
		return
	}
	wantError(t, err, stint.CodeUnavailable, "no_replicas")
}

func TestServerThatLoadsIsLoading(t *testing.T) {
	// A server answers between two chunks of its data set. Redis 6 always reads chunks of
	// 2 MB, so its data set is larger.
	size, options := 1024, []string{"--enable-debug-command", "yes", "--rdbcompression", "no", "--loading-process-events-interval-bytes", "1024"}
	if redistest.IsRedis6(t) {
		size, options = 256<<10, options[2:4]
	}
	server := redistest.Server(t, options...)
	for i := range 100 {
		server.Must("SET", "filler"+strconv.Itoa(i), strings.Repeat("x", size))
	}
	top := newTestTopology(t, Options{Addrs: []string{server.Addr()}})
	server.Must("CONFIG", "SET", "key-load-delay", "10000") // microseconds
	var reload sync.WaitGroup
	reload.Go(func() { _, _ = server.Do("DEBUG", "RELOAD") })
	defer reload.Wait()
	eventually(t, "the server loads", func() bool {
		loading, err := server.Info("loading")
		return err == nil && loading == "1"
	})
	_, err := count(t, top, "k")
	wantError(t, err, stint.CodeUnavailable, "loading")
}

func TestWrongPasswordIsReportedAndNeverShown(t *testing.T) {
	server := redistest.Server(t, "--requirepass", "right-secret")
	for password, kind := range map[string]stint.Kind{"": "noauth", "wrong-secret": "noauth", "right-secret": ""} {
		top := newTestTopology(t, Options{Addrs: []string{server.Addr()}, Password: password})
		_, err := count(t, top, "k")
		if kind == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		wantError(t, err, stint.CodeUnavailable, kind)
		if password != "" && strings.Contains(err.Error(), password) {
			t.Error("an error shows the password:", err)
		}
	}
}

func TestErrorsThatRepeatThePasswordAreRedacted(t *testing.T) {
	d := &dialer{opts: &Options{Password: "hush"}}
	err := d.explain(errors.New("unknown command AUTH hush"), "a:1")
	if strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "***") {
		t.Error(err)
	}
}

func TestErrorsDoNotRepeatArguments(t *testing.T) {
	password := strings.Repeat("hush", 100) // longer than the part that servers repeat
	server := redistest.Server(t, "--rename-command", "EVALSHA", "", "--rename-command", "HELLO", "", "--rename-command", "AUTH", "")
	_, err := count(t, newTestTopology(t, Options{Addrs: []string{server.Addr()}}), "stint:{sk_live_1}")
	wantError(t, err, stint.CodeUnavailable, "server")
	_, wrong := count(t, newTestTopology(t, Options{Addrs: []string{server.Addr()}, Password: password}), "k")
	for _, err := range []error{err, wrong} {
		if err == nil || strings.Contains(err.Error(), "sk_live_1") || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "unknown command") {
			t.Error(err)
		}
	}
}

func TestProbeNeedsWhatChecksNeed(t *testing.T) {
	server := redistest.Server(t)
	for _, command := range []string{"time", "mget", "set", "psetex"} {
		server.Must("ACL", "SETUSER", "limiter", "on", ">pw", "~stint:*", "+@all", "-"+command)
		top := newTestTopology(t, Options{Addrs: []string{server.Addr()}, Username: "limiter", Password: "pw"})
		wantError(t, top.nodeOf(0).probe(t.Context()), stint.CodeUnavailable, "noperm")
		server.Must("ACL", "DELUSER", "limiter")
	}
}

func TestUserNeedsOnlyThePermissionsOfTheError(t *testing.T) {
	server := redistest.Server(t)
	server.Must("ACL", "SETUSER", "limiter", "on", ">pw", "~stint:*", "-@all", "+evalsha", "+eval", "+@read", "+@write", "+time")
	server.Must("ACL", "SETUSER", "reader", "on", ">pw", "~stint:*", "-@all", "+@read")
	top := newTestTopology(t, Options{Addrs: []string{server.Addr()}, Username: "limiter", Password: "pw"})
	if got, err := count(t, top, "stint:k"); err != nil || got != "1" { // without SCRIPT LOAD and INFO
		t.Error(got, err)
	}
	if err := top.nodeOf(0).probe(t.Context()); err != nil {
		t.Error(err)
	}
	_, err := count(t, top, "other:k")
	wantError(t, err, stint.CodeUnavailable, "noperm")
	top = newTestTopology(t, Options{Addrs: []string{server.Addr()}, Username: "reader", Password: "pw"})
	_, err = count(t, top, "stint:k")
	wantError(t, err, stint.CodeUnavailable, "noperm")
}

func TestErrorsOfScriptsHaveTheirCode(t *testing.T) {
	for text, want := range map[string]string{
		"OOM command not allowed when used memory > 'maxmemory'.":                                                     "OOM",
		"Error running script (call to f_1): @user_script:1: @user_script: 1: -READONLY You can't write against a...": "READONLY",
		"user_script:377: Attempt to modify a readonly table":                                                         "user_script:377:",
		"ERR The user executing the script can't run this command or subcommand script: f1, on @user_script:1.":       "NOPERM",
		"ERR ACL failure in script: User u has no permissions to run the 'append' command script: f1, on ...":         "NOPERM",
		"ERR ACL failure in script: No permissions to access a key":                                                   "NOPERM",
	} {
		if got := codeOf(text); got != want {
			t.Errorf("%s: code %s; want %s", text, got, want)
		}
	}
}

func TestErrorsOfTheNetworkSayWhetherTheCallMayHaveRun(t *testing.T) {
	d := &dialer{opts: &Options{}}
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		err  error
		code stint.Code
		kind stint.Kind
	}{
		{&notConnected{refused}, stint.CodeUnavailable, "connection"},
		{&notConnected{context.DeadlineExceeded}, stint.CodeUnavailable, "connection"},
		{fmt.Errorf("read: %w", syscall.ECONNRESET), stint.CodeTimeout, "connection"},
		{io.EOF, stint.CodeTimeout, "connection"},
		{context.DeadlineExceeded, stint.CodeTimeout, "timeout"},
		{context.Canceled, stint.CodeCanceled, "canceled"},
	} {
		wantError(t, d.explain(c.err, "a:1"), c.code, c.kind)
	}
}

// A caller with little time may not wait long enough for a new connection. Its error
// has CodeTimeout; the error of a caller with enough time says that the server is
// unavailable.
func TestCallerWithoutTimeGetsATimeout(t *testing.T) {
	n := newNode("a:1", &dialer{opts: &Options{}}, nil)
	late := &notConnected{&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}}
	caller, end := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer end()
	ours, stop := context.WithTimeoutCause(t.Context(), -1, errTimeout)
	defer stop()
	for name, c := range map[string]struct {
		ctx  context.Context //nolint:containedctx // a row of a table
		err  error
		code stint.Code
	}{
		"the caller's time":             {caller, late, stint.CodeTimeout},
		"the store's own time":          {ours, late, stint.CodeUnavailable},
		"the operating system's":        {t.Context(), late, stint.CodeUnavailable},
		"refused, and the time is over": {caller, &notConnected{syscall.ECONNREFUSED}, stint.CodeUnavailable},
	} {
		replies := []reply{{err: c.err}}
		n.settle(c.ctx, newConn("a:1"), replies)
		t.Log(name)
		wantError(t, replies[0].err, c.code, "connection")
	}
}

func TestOldServersAreRefused(t *testing.T) {
	for version, fits := range map[string]bool{"6.2.0": true, "7.0.15": true, "10.1": true, "6.0.16": false, "5.0.7": false, "": true, "odd": true} {
		if err := versionFits("# Server\r\nredis_version:" + version + "\r\n"); (err == nil) != fits {
			t.Errorf("version %q: %v", version, err)
		}
	}
}

func TestCallEndsWithItsTimeout(t *testing.T) {
	server := redistest.Server(t)
	top := newTestTopology(t, Options{Addrs: []string{server.Addr()}, Timeout: 100 * time.Millisecond})
	if _, err := count(t, top, "k"); err != nil {
		t.Fatal(err)
	}
	server.Freeze()
	defer server.Thaw()
	start := time.Now()
	_, err := count(t, top, "k")
	wantError(t, err, stint.CodeTimeout, "timeout")
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the call took %v; its timeout is 100 ms", took)
	}
}
