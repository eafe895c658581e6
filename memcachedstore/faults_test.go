package memcachedstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/internal/memcachedtest"
	"github.com/stintdev/stint/internal/redistest"
)

// wantError checks that a read and a write fail with nothing written: the kind of the error,
// and a part of its problem or mend.
func wantError(t *testing.T, b *backend, kind stint.Kind, text string) {
	t.Helper()
	soon := func() context.Context { // a server may not answer at all
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	_, read := b.Load(soon(), []cas.Load{{Key: "k"}})
	swaps := []cas.Swap{swapOf("k", 0, "v")}
	_, _ = b.Swap(soon(), swaps) // the swap has the error
	for what, err := range map[string]error{"read": read, "write": swaps[0].Err} {
		e, ok := errors.AsType[*stint.Error](err)
		if !ok || e.Code != stint.CodeUnavailable || e.Kind != kind || !strings.Contains(e.Problem+"\n"+e.Mend, text) {
			t.Errorf("%s: %v, want %s and %q", what, err, kind, text)
		}
	}
	if swaps[0].Outcome != cas.Failed {
		t.Errorf("outcome %d", swaps[0].Outcome)
	}
}

// answering starts a server that answers each line by a function, and returns its address.
func answering(t *testing.T, answer func(line string) string) string {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				lines := bufio.NewScanner(c)
				for lines.Scan() {
					if _, err := io.WriteString(c, answer(lines.Text())); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func TestErrorsNameTheMend(t *testing.T) {
	for name, c := range map[string]struct {
		options    []string
		kind, text string
	}{
		"without versions":  {[]string{"-C"}, "version", "start it without -C"},
		"a password":        {[]string{"-Y", passwordFile(t)}, "noauth", "start it without -Y"},
		"the wire protocol": {[]string{"-B", "binary"}, "connection", "-B binary"},
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, open(t, memcachedtest.Start(t, c.options...).Addr()), stint.Kind(c.kind), c.text)
		})
	}
	t.Run("no server", func(t *testing.T) { wantError(t, open(t, "127.0.0.1:1"), "connection", "check that it runs") })
	t.Run("an old version", func(t *testing.T) {
		old := answering(t, func(string) string {
			return "STAT pid 1\r\nSTAT version 1.4.39\r\nSTAT uptime 1\r\nSTAT time 1800000000\r\nEND\r\n"
		})
		wantError(t, open(t, old), "version", "Memcached 1.4.39")
	})
	t.Run("another server", func(t *testing.T) {
		wantError(t, open(t, answering(t, func(string) string { return "-ERR unknown command\r\n" })), "connection", "does not answer")
		wantError(t, open(t, answering(t, func(string) string { return "ERROR\r\n" })), "version", "not a proxy")
	})
}

func passwordFile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "memcached") //nolint:usetesting // the server's user cannot enter its parents
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	name := filepath.Join(dir, "passwords")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(name, []byte("user:password\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestTooManyConnections(t *testing.T) {
	s := memcachedtest.Start(t, "-c", "100")
	var held []net.Conn
	for answer := "VERSION"; strings.HasPrefix(answer, "VERSION"); {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "version\r\n") // an error: the server has closed the connection
		answer, _ = bufio.NewReader(c).ReadString('\n')
		held = append(held, c)
	}
	b := open(t, s.Addr())
	wantError(t, b, "connections", "raise its -c")
	for _, c := range held {
		_ = c.Close()
	}
	comesBack(t, b)
}

// comesBack waits until the backend reads again, and returns the item of the key k.
func comesBack(t *testing.T, b *backend) cas.Item {
	t.Helper()
	loads := []cas.Load{{Key: "k"}}
	redistest.Await(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := b.Load(ctx, loads)
		return err
	})
	return loads[0].Item
}

func TestFullServers(t *testing.T) {
	t.Run("an item that is too large", func(t *testing.T) { // a real server with a smaller -I than 512k crashes at the first write
		b := open(t, answering(t, func(line string) string {
			switch {
			case line == "stats":
				return "STAT pid 1\r\nSTAT version 1.6.18\r\nSTAT uptime 1\r\nSTAT time 1800000000\r\nEND\r\n"
			case line == "stats settings":
				return "STAT item_size_max 1024\r\nEND\r\n"
			case strings.HasPrefix(line, "add test:b"):
				return "SERVER_ERROR object too large for cache\r\n"
			case strings.HasPrefix(line, "add "):
				return "STORED\r\n"
			}
			return ""
		}))
		swaps := []cas.Swap{swapOf("a", 0, "v"), swapOf("b", 0, "large"), swapOf("c", 0, "v")}
		swapped(t, b, swaps, cas.Done, cas.Failed, cas.Done)
		if e, ok := errors.AsType[*stint.Error](swaps[1].Err); !ok || e.Code != stint.CodeExhausted || e.Kind != cas.KindItemFull || !strings.Contains(e.Mend, "-I") {
			t.Error(swaps[1].Err)
		}
	})
	t.Run("no evictions", func(t *testing.T) {
		s := memcachedtest.Start(t, "-m", "1", "-I", "512k", "-M")
		b := open(t, s.Addr())
		swaps, outcomes := fill(t, b)
		if outcomes[cas.Done] == 0 || outcomes[cas.Failed] == 0 || outcomes[cas.Done]+outcomes[cas.Failed] != len(swaps) {
			t.Fatal(outcomes)
		}
		for i := range swaps {
			if e, ok := errors.AsType[*stint.Error](swaps[i].Err); swaps[i].Outcome == cas.Failed && (!ok || e.Code != stint.CodeUnavailable || e.Kind != "oom" || !strings.Contains(e.Mend, "-m")) {
				t.Fatal(swaps[i].Err)
			}
		}
		if got := loaded(t, b, swaps[0].Key)[0]; got.Version == 0 {
			t.Error("an item was evicted")
		}
		s.Do("flush_all")
		swapped(t, b, []cas.Swap{swapOf("after", 0, "v")}, cas.Done)
	})
	t.Run("evictions", func(t *testing.T) {
		s := memcachedtest.Start(t, "-m", "1", "-I", "512k")
		b := open(t, s.Addr())
		var log strings.Builder
		w := &evictionWatch{backend: b, timeout: 10 * time.Second, log: slog.New(slog.NewTextHandler(&log, nil)), counts: map[string]uint64{}}
		w.look(t.Context())
		if got := b.evictions()[s.Addr()]; got != 0 || log.String() != "" {
			t.Fatal(got, log.String())
		}
		if swaps, outcomes := fill(t, b); outcomes[cas.Done] != len(swaps) {
			t.Error(outcomes)
		}
		w.look(t.Context())
		if got := b.evictions()[s.Addr()]; fmt.Sprint(got) != s.Stat("evictions") || got == 0 || !strings.Contains(log.String(), "has its whole allowance again") {
			t.Error(got, log.String())
		}
		if m := b.Metrics(); m[0].Samples[0].Value == 0 || m[0].Samples[0].Label != s.Addr() {
			t.Error(m)
		}
		w.look(t.Context())
		if lines := strings.Count(log.String(), "\n"); lines != 2 || !strings.Contains(log.String(), "evict no items any more") {
			t.Error(log.String())
		}
	})
}

// fill writes 5 MB of new items, and returns the swaps and the number of each outcome.
func fill(t *testing.T, b *backend) (all []cas.Swap, outcomes map[cas.Outcome]int) {
	t.Helper()
	outcomes = map[cas.Outcome]int{}
	for batch := range 50 {
		swaps := make([]cas.Swap, 100)
		for i := range swaps {
			swaps[i] = swapOf(fmt.Sprintf("=%d:%d", batch, i), 0, strings.Repeat("v", 1000))
		}
		if _, err := b.Swap(inTime(t), swaps); err != nil {
			t.Fatal(err)
		}
		for i := range swaps {
			outcomes[swaps[i].Outcome]++
		}
		all = append(all, swaps...)
	}
	return all, outcomes
}

func TestFrozenServer(t *testing.T) {
	s := memcachedtest.Start(t)
	b := open(t, s.Addr())
	swapped(t, b, []cas.Swap{swapOf("k", 0, "1")}, cas.Done)
	k := loaded(t, b, "k")[0]
	s.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begun, swaps := time.Now(), []cas.Swap{swapOf("k", k.Version, "2")}
	_, _ = b.Swap(ctx, swaps) // the swap has the error
	if took := time.Since(begun); stint.CodeOf(swaps[0].Err) != stint.CodeTimeout || swaps[0].Outcome != cas.Unknown || took > 5*time.Second {
		t.Error(took, swaps[0])
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := b.Load(short, []cas.Load{{Key: "k"}}); stint.CodeOf(err) != stint.CodeUnavailable { // on a new connection
		t.Error(err)
	}
	s.Thaw() // the server then handles what was sent
	comesBack(t, b)
	redistest.Await(t, func() error {
		if got := loaded(t, b, "k")[0]; string(got.Value) != "2" {
			return fmt.Errorf("the value is %s", got.Value)
		}
		return nil
	})
	swapped(t, b, []cas.Swap{swapOf("k", k.Version, "2")}, cas.Lost)
}

func TestDeadServer(t *testing.T) {
	servers := []*memcachedtest.Server{memcachedtest.Start(t), memcachedtest.Start(t)}
	alone, both := open(t, servers[0].Addr()), open(t, servers[0].Addr(), servers[1].Addr())
	swapped(t, alone, []cas.Swap{swapOf("k", 0, "1")}, cas.Done)
	other := keyOn(t, both, servers[1].Addr())
	swapped(t, both, []cas.Swap{swapOf(other, 0, "1")}, cas.Done)
	servers[0].Kill()
	redistest.Await(t, func() error { // until no connection is open
		if _, err := alone.Load(inTime(t), []cas.Load{{Key: "k"}}); stint.CodeOf(err) != stint.CodeUnavailable {
			return fmt.Errorf("the error is %w", err)
		}
		return nil
	})
	wantError(t, alone, "connection", "check that it runs")
	if got := loaded(t, both, other)[0]; string(got.Value) != "1" {
		t.Error("a key of the other server:", got)
	}
	servers[0].Restart()
	if got := comesBack(t, alone); got.Version != 0 {
		t.Error(got)
	}
}

// keyOn returns a key of a server.
func keyOn(t *testing.T, b *backend, address string) string {
	t.Helper()
	for i := range 1000 {
		if key := fmt.Sprint("=", i); b.serverOf(key).name == address {
			return key
		}
	}
	t.Fatal("the server has no keys")
	return ""
}

func TestCallerWhoLeavesEndsItsCall(t *testing.T) {
	s := memcachedtest.Start(t)
	b := open(t, s.Addr())
	loaded(t, b, "k")
	first, err := b.servers[0].acquire(inTime(t))
	if err != nil {
		t.Fatal(err)
	}
	loaded(t, b, "k") // on a second connection
	b.servers[0].release(first, nil, false)
	s.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	time.AfterFunc(50*time.Millisecond, cancel)
	begun := time.Now()
	if _, err := b.Load(ctx, []cas.Load{{Key: "k"}}); stint.CodeOf(err) != stint.CodeCanceled || time.Since(begun) > 5*time.Second {
		t.Error(time.Since(begun), err)
	}
	s.Thaw()
	if left := len(b.servers[0].idle); left != 1 {
		t.Error("idle connections:", left)
	}
	loaded(t, b, "k")
}

func TestBrokenConnections(t *testing.T) {
	s := memcachedtest.Start(t)
	proxy := redistest.Proxy(t, s.Addr())
	b := open(t, proxy.Addr())
	swapped(t, b, []cas.Swap{swapOf("k", 0, "1")}, cas.Done)
	k := loaded(t, b, "k")[0]
	proxy.DropReplies()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	swaps := []cas.Swap{swapOf("k", k.Version, "2")}
	if _, _ = b.Swap(ctx, swaps); stint.CodeOf(swaps[0].Err) != stint.CodeTimeout || swaps[0].Outcome != cas.Unknown {
		t.Error(swaps[0])
	}
	proxy.Heal()
	if got := comesBack(t, b); string(got.Value) != "2" {
		t.Error("the write is lost:", got)
	}
	proxy.Cut() // idle connections end, and a read makes a new one
	if got := loaded(t, b, "k")[0]; string(got.Value) != "2" {
		t.Error(got)
	}
	proxy.Reset()
	redistest.Await(t, func() error { // the proxy ends its connections soon after Reset
		if _, err := b.Load(inTime(t), []cas.Load{{Key: "k"}}); stint.CodeOf(err) != stint.CodeUnavailable {
			return fmt.Errorf("the error is %w", err)
		}
		return nil
	})
	proxy.Heal()
	comesBack(t, b)
}

// A slow server is waited for until the timeout. Calls beyond it fail, and charge once at most
// although their commands arrive later.
func TestSlowServer(t *testing.T) {
	s := memcachedtest.Start(t)
	proxy := redistest.Proxy(t, s.Addr())
	patient := openStore(t, proxy.Addr())
	hasty, err := New(Options{Servers: []string{proxy.Addr()}, Heartbeat: -1, Timeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer hasty.Close()
	c := stint.Claim{Key: "user:42", Limit: limitOf(t, "1000/d"), Cost: 1}
	for range 3 {
		for _, store := range []*Store{patient, hasty} {
			if _, err := store.Take(inTime(t), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	admitted, unknown := int64(6), int64(0)
	proxy.Delay(250 * time.Millisecond)
	if _, err := patient.Take(inTime(t), c); err != nil {
		t.Error(err)
	}
	admitted++
	for range 3 {
		_, err := hasty.Take(inTime(t), c)
		switch stint.CodeOf(err) {
		case stint.CodeTimeout:
			unknown++
		case stint.CodeUnavailable: // a new connection takes as long
		default:
			t.Error(err)
		}
	}
	proxy.Delay(0)
	redistest.Await(t, func() error {
		_, err := hasty.Take(inTime(t), c)
		return err
	})
	admitted++
	c.Cost = 0
	d, err := patient.Take(inTime(t), c)
	if charged := 1000 - d.Remaining; err != nil || charged < admitted || charged > admitted+unknown {
		t.Error("charged", charged, "admitted", admitted, "unknown", unknown, err)
	}
}

// A restart ends all connections. The next check needs no second attempt of its caller.
func TestRestartFailsNoCheck(t *testing.T) {
	s := memcachedtest.Start(t)
	store := openStore(t, s.Addr())
	c := stint.Claim{Key: "user:42", Limit: limitOf(t, "2/h"), Cost: 1}
	for range 3 {
		for i := range 3 {
			if d, err := store.Take(inTime(t), c); err != nil || d.Allowed != (i < 2) {
				t.Fatal(i, d, err)
			}
		}
		s.Restart() // empty
	}
}

// Calls whose answers are lost are resolved: what was charged is never charged twice, and
// no more than the limit is admitted.
func TestLostAnswersChargeOnce(t *testing.T) {
	s := memcachedtest.Start(t)
	proxy := redistest.Proxy(t, s.Addr())
	store := openStore(t, proxy.Addr())
	c := stint.Claim{Key: "user:42", Limit: limitOf(t, "1000/h"), Cost: 1}
	stop := make(chan struct{})
	broken := make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-time.After(3 * time.Millisecond):
				n++
				proxy.Cut()
			case <-stop:
				broken <- n
				return
			}
		}
	}()
	var admitted, unknown atomic.Int64
	for range 300 {
		d, err := store.Take(inTime(t), c)
		switch {
		case err == nil && d.Allowed:
			admitted.Add(1)
		case stint.CodeOf(err) == stint.CodeTimeout:
			unknown.Add(1)
		case stint.CodeOf(err) != stint.CodeUnavailable:
			t.Fatal(d, err)
		}
	}
	close(stop)
	cuts := <-broken
	c.Cost = 0
	d, err := store.Take(inTime(t), c)
	charged := 1000 - d.Remaining
	if err != nil || charged < admitted.Load() || charged > admitted.Load()+unknown.Load() {
		t.Error("charged", charged, "admitted", admitted.Load(), "unknown", unknown.Load(), err)
	}
	t.Log("cuts", cuts, "admitted", admitted.Load(), "unknown", unknown.Load(), "resolved", store.Stats().Unknown)
}

func openStore(t *testing.T, servers ...string) *Store {
	t.Helper()
	s, err := New(Options{Servers: servers, Heartbeat: -1, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func limitOf(t *testing.T, text string) stint.Limit {
	t.Helper()
	l, err := stint.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Two nodes take from one key while the server freezes and connections break. Each unit that
// was charged is one that a call was admitted for, or belongs to a call whose outcome its
// caller does not know; and each admitted unit was charged.
func TestFaultsUnderLoadAdmitNothingTwice(t *testing.T) {
	const most = 20_000
	s := memcachedtest.Start(t)
	limit := limitOf(t, fmt.Sprint(most, "/d")) // refills less than one in the time of the test
	var admitted, unknown atomic.Int64
	stop := make(chan struct{})
	var callers sync.WaitGroup
	var proxies []*redistest.Fault
	for range 2 {
		proxy := redistest.Proxy(t, s.Addr())
		store, err := New(Options{Servers: []string{proxy.Addr()}, Heartbeat: -1, Timeout: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		proxies = append(proxies, proxy)
		for range 8 {
			callers.Go(func() { takeUntil(t, store, limit, stop, &admitted, &unknown) })
		}
	}
	for range 4 {
		for _, proxy := range proxies {
			<-time.After(20 * time.Millisecond)
			proxy.Cut()
			proxy.DropReplies()
			<-time.After(10 * time.Millisecond)
			proxy.Cut()
			proxy.Heal()
		}
		s.Freeze()
		<-time.After(100 * time.Millisecond)
		s.Thaw()
	}
	close(stop)
	callers.Wait()
	d, err := openStore(t, s.Addr()).Take(inTime(t), stint.Claim{Key: "user:42", Limit: limit})
	charged := most - d.Remaining
	if err != nil || charged < admitted.Load() || charged > admitted.Load()+unknown.Load() {
		t.Error("charged", charged, "admitted", admitted.Load(), "unknown", unknown.Load(), err)
	}
	t.Log("charged", charged, "admitted", admitted.Load(), "unknown", unknown.Load())
}

// takeUntil takes one unit after the other until stop is closed.
func takeUntil(t *testing.T, store *Store, limit stint.Limit, stop chan struct{}, admitted, unknown *atomic.Int64) {
	t.Helper()
	for {
		select {
		case <-stop:
			return
		default:
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		d, err := store.Take(ctx, stint.Claim{Key: "user:42", Limit: limit, Cost: 1})
		cancel()
		switch code := stint.CodeOf(err); {
		case err == nil && d.Allowed:
			admitted.Add(1)
		case code == stint.CodeTimeout:
			unknown.Add(1)
		case err != nil && code != stint.CodeUnavailable && code != stint.CodeContended:
			t.Error(d, err)
		}
	}
}
