package postgresstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/internal/pgtest"
	"github.com/stintdev/stint/internal/redistest"
)

// withPassword returns a URL with the password of the user stint.
func withPassword(text string) string {
	return strings.Replace(text, "stint@", "stint:"+url.QueryEscape(pgtest.Password)+"@", 1)
}

// open returns a backend without a store around it.
func open(t *testing.T, address string) *backend {
	t.Helper()
	o, err := ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	o.Timeout = 10 * time.Second
	if err := o.setDefaults(); err != nil {
		t.Fatal(err)
	}
	b, err := newBackend(&o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return b
}

func inTime(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// loaded returns the items of keys.
func loaded(t *testing.T, b cas.Backend, keys ...string) []cas.Item {
	t.Helper()
	loads := make([]cas.Load, len(keys))
	for i, key := range keys {
		loads[i].Key = key
	}
	now, err := b.Load(inTime(t), loads)
	if err != nil || time.Since(now).Abs() > time.Minute {
		t.Fatal(now, err)
	}
	items := make([]cas.Item, len(keys))
	for i := range loads {
		items[i] = loads[i].Item
	}
	return items
}

func swapOf(key string, old uint64, value string) cas.Swap {
	return cas.Swap{Key: key, Old: old, Value: []byte(value), Version: rand.Uint64N(1<<63-1) + 1, TTL: time.Hour}
}

// swapped makes swaps by a method and checks their outcomes.
func swapped(t *testing.T, swap func(context.Context, []cas.Swap) (time.Time, error), swaps []cas.Swap, want ...cas.Outcome) {
	t.Helper()
	now, err := swap(inTime(t), swaps)
	if err != nil || want[0] == cas.Done && time.Since(now).Abs() > time.Minute {
		t.Fatal(now, err)
	}
	for i := range swaps {
		if swaps[i].Outcome != want[i] {
			t.Errorf("swap %d of %q: outcome %d, want %d", i, swaps[i].Key, swaps[i].Outcome, want[i])
		}
	}
}

func TestBackend(t *testing.T) {
	s := pgtest.Start(t)
	pooler := s.PgBouncer("default_pool_size = 3")
	for name, address := range map[string]string{"direct": s.URL(), "by PgBouncer": pooler.URL()} {
		t.Run(name, func(t *testing.T) {
			b := open(t, withPassword(address))
			b.prefix = "test " + name + ":"
			for name, test := range map[string]func(*testing.T, *backend){
				"swaps":        swapsOnce,
				"early swaps":  refusesEarlySwaps,
				"strange keys": keepsAnyKey,
				"large values": keepsLargeValues,
				"transactions": swapsAllOrNone,
				"locks":        locksRows,
				"no waits":     doesNotWaitForLocks,
				"nodes":        announcesNodes,
				"sweeps":       sweepsExpiredRows,
			} {
				t.Run(name, func(t *testing.T) { test(t, b) })
			}
		})
	}
}

func swapsOnce(t *testing.T, b *backend) {
	if got := loaded(t, b, "a", "b"); got[0].Version != 0 || got[0].Value != nil || got[1].Version != 0 {
		t.Fatal(got)
	}
	first := swapOf("a", 0, "one")
	first.Keep = true
	swaps := []cas.Swap{first, swapOf("b", 0, "two")}
	swapped(t, b.Swap, swaps, cas.Done, cas.Done)
	if swaps[0].Written != first.Version {
		t.Errorf("version %d is written as %d", first.Version, swaps[0].Written)
	}
	swapped(t, b.Swap, []cas.Swap{swapOf("a", 0, "late")}, cas.Lost)
	second := swapOf("a", first.Version, "three")
	swapped(t, b.Swap, []cas.Swap{second, swapOf("b", 7, "late"), swapOf("c", 0, "new"), swapOf("d", 9, "gone")}, cas.Done, cas.Lost, cas.Done, cas.Lost)
	swapped(t, b.Swap, []cas.Swap{second}, cas.Lost) // the old version is no more
	got := loaded(t, b, "d", "c", "b", "a")
	if string(got[3].Value) != "three" || got[3].Version != second.Version || string(got[2].Value) != "two" || string(got[1].Value) != "new" || got[0].Version != 0 {
		t.Error(got)
	}
}

func keepsAnyKey(t *testing.T, b *backend) {
	keys := []string{"\x00", "\x00\xff", " ", `"\x`, strings.Repeat("k", cas.MaxKey), "é", "ключ"}
	var swaps []cas.Swap
	var done []cas.Outcome
	for _, key := range keys {
		swaps, done = append(swaps, swapOf(key, 0, key)), append(done, cas.Done)
	}
	swapped(t, b.Swap, swaps, done...)
	for i, item := range loaded(t, b, keys...) {
		if string(item.Value) != keys[i] {
			t.Errorf("%q has %q", keys[i], item.Value)
		}
	}
}

func keepsLargeValues(t *testing.T, b *backend) {
	value := bytes.Repeat([]byte("0123456789abcdef"), cas.MaxValue/16)
	swap := swapOf("large", 0, string(value))
	swapped(t, b.Swap, []cas.Swap{swap}, cas.Done)
	if got := loaded(t, b, "large")[0]; !bytes.Equal(got.Value, value) {
		t.Errorf("%d bytes", len(got.Value))
	}
}

func swapsAllOrNone(t *testing.T, b *backend) {
	x, y := swapOf("x", 0, "1"), swapOf("y", 0, "1")
	swapped(t, b.SwapAll, []cas.Swap{x, y}, cas.Done, cas.Done)
	swapped(t, b.SwapAll, []cas.Swap{swapOf("x", x.Version, "2"), swapOf("y", 5, "2")}, cas.Lost, cas.Lost)
	swapped(t, b.SwapAll, []cas.Swap{swapOf("w", 0, "2"), swapOf("y", 5, "2")}, cas.Lost, cas.Lost)
	swapped(t, b.SwapAll, []cas.Swap{swapOf("x", x.Version, "2"), swapOf("y", 0, "2")}, cas.Lost, cas.Lost) // a unique violation
	if got := loaded(t, b, "w", "x", "y"); got[0].Version != 0 || got[1].Version != x.Version || got[2].Version != y.Version {
		t.Error(got)
	}
	swapped(t, b.SwapAll, []cas.Swap{swapOf("w", 0, "2"), swapOf("x", x.Version, "2"), swapOf("y", y.Version, "2")}, cas.Done, cas.Done, cas.Done)
	if got := loaded(t, b, "w", "x", "y"); fmt.Sprintf("%s%s%s", got[0].Value, got[1].Value, got[2].Value) != "222" {
		t.Error(got)
	}
}

func locksRows(t *testing.T, b *backend) {
	p := swapOf("p", 0, "1")
	swapped(t, b.Swap, []cas.Swap{p}, cas.Done)
	second := make(chan []cas.Item, 1)
	swaps, err := b.Locked(inTime(t), []string{"new", "p"}, func(items []cas.Item, now time.Time) []cas.Swap {
		if items[0].Version != 0 || string(items[1].Value) != "1" || time.Since(now).Abs() > time.Minute {
			t.Error(items, now)
		}
		go func() { // waits for the lock, and sees what the first one wrote
			_, err := b.Locked(inTime(t), []string{"p"}, func(items []cas.Item, _ time.Time) []cas.Swap { second <- items; return nil })
			if err != nil {
				second <- nil
			}
		}()
		awaitWaiting(t, b)
		swapped(t, b.Swap, []cas.Swap{swapOf("p", p.Version, "late"), swapOf("other"+b.prefix, 0, "free")}, cas.Lost, cas.Done)
		return []cas.Swap{swapOf("new", 0, "2"), swapOf("p", items[1].Version, "2")}
	})
	if err != nil || len(swaps) != 2 || swaps[0].Outcome != cas.Done || swaps[1].Outcome != cas.Done {
		t.Fatal(swaps, err)
	}
	if items := <-second; len(items) != 1 || string(items[0].Value) != "2" {
		t.Error(items)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err = b.Locked(ctx, []string{"p"}, func([]cas.Item, time.Time) []cas.Swap {
		brief, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := b.Locked(brief, []string{"p"}, func([]cas.Item, time.Time) []cas.Swap { t.Error("locked twice"); return nil })
		if err == nil {
			t.Error("no error")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// awaitWaiting waits until a transaction waits for a lock of a row.
func awaitWaiting(t *testing.T, b *backend) {
	t.Helper()
	redistest.Await(t, func() error {
		var n int
		if err := b.conns.QueryRow(inTime(t), `SELECT count(*) FROM pg_locks WHERE NOT granted`).Scan(&n); err != nil || n > 0 {
			return err
		}
		return errors.New("nothing waits for a lock")
	})
}

func doesNotWaitForLocks(t *testing.T, b *backend) {
	u := swapOf("u", 0, "1")
	swapped(t, b.Swap, []cas.Swap{u}, cas.Done)
	held, release := make(chan struct{}), make(chan struct{})
	go func() {
		_, _ = b.Locked(inTime(t), []string{"u"}, func([]cas.Item, time.Time) []cas.Swap { close(held); <-release; return nil })
	}()
	<-held
	defer close(release)
	begun := time.Now()
	swapped(t, b.Swap, []cas.Swap{swapOf("u", u.Version, "2"), swapOf("v", 0, "1")}, cas.Lost, cas.Done)
	swapped(t, b.SwapAll, []cas.Swap{swapOf("u", u.Version, "2")}, cas.Lost)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func announcesNodes(t *testing.T, b *backend) {
	announce := func(id string, lasts time.Duration) cas.Announced {
		t.Helper()
		a, err := b.Announce(inTime(t), id, lasts)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := announce("one", time.Minute); a.Nodes != 1 || a.Known || time.Since(a.Now).Abs() > time.Minute {
		t.Error(a)
	}
	if a := announce("two", time.Minute); a.Nodes != 2 || a.Known {
		t.Error(a)
	}
	announce("brief", time.Microsecond)
	if a := announce("one", time.Minute); a.Nodes != 2 || !a.Known {
		t.Error(a)
	}
	announce("two", 0)
	if a := announce("one", time.Minute); a.Nodes != 1 || !a.Known {
		t.Error(a)
	}
	if a := announce("brief", time.Minute); a.Nodes != 2 || a.Known {
		t.Error(a)
	}
}

func sweepsExpiredRows(t *testing.T, b *backend) {
	const many = 2500 // several statements
	var keys []string
	for i := 0; i < many; i += 100 {
		var swaps []cas.Swap
		var done []cas.Outcome
		for j := range 100 {
			key := fmt.Sprintf("sweep%05d", i+j)
			s := swapOf(key, 0, "a state of some bytes")
			if keys = append(keys, key); (i+j)%5 > 0 {
				s.TTL = time.Microsecond
			}
			swaps, done = append(swaps, s), append(done, cas.Done)
		}
		swapped(t, b.Swap, swaps, done...)
	}
	for _, version := range []int64{tidRanges, oldestServer} {
		b.schema.version.Store(version)
		s := &sweeper{backend: b, interval: time.Microsecond, timeout: 10 * time.Second}
		if err := s.sweep(inTime(t)); err != nil {
			t.Fatal(err)
		}
		left := 0
		for i, item := range loaded(t, b, keys...) {
			if item.Version != 0 {
				left++
			} else if i%5 == 0 {
				t.Fatalf("%s was swept", keys[i])
			}
		}
		if left != many/5 {
			t.Errorf("%d rows are left, want %d", left, many/5)
		}
		for i := range 3 { // for the next version
			swapped(t, b.Swap, []cas.Swap{{Key: fmt.Sprint("sweep", version, i), Value: []byte("x"), Version: rand.Uint64N(1 << 62), TTL: time.Microsecond}}, cas.Done)
			keys[1+i] = fmt.Sprint("sweep", version, i)
		}
	}
	s := &sweeper{backend: b, interval: time.Hour, timeout: 10 * time.Second}
	if _, mine, err := s.claim(inTime(t)); err != nil || !mine {
		t.Error(mine, err)
	}
	if _, mine, err := s.claim(inTime(t)); err != nil || mine {
		t.Error("two nodes sweep", err)
	}
	if _, err := b.conns.Exec(inTime(t), "DELETE FROM stint_nodes WHERE id = ''"); err != nil {
		t.Error(err)
	}
}

func TestOutcomesOfFailedSwaps(t *testing.T) {
	s := pgtest.Start(t)
	b := open(t, withPassword(s.URL()))
	a := swapOf("a", 0, "1")
	swapped(t, b.Swap, []cas.Swap{a}, cas.Done)
	s.Must("REVOKE UPDATE ON stint_items FROM stint; ALTER TABLE stint_items RENAME TO elsewhere")
	swaps := []cas.Swap{swapOf("a", a.Version, "2")}
	if _, err := b.Swap(inTime(t), swaps); err == nil || swaps[0].Outcome != cas.Failed || errors.Is(err, errConflict) {
		t.Error(swaps, err)
	}
}
