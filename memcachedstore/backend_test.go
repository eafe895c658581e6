package memcachedstore

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/internal/memcachedtest"
)

// open returns a backend without a store around it.
func open(t testing.TB, servers ...string) *backend {
	t.Helper()
	o := Options{Servers: servers, Prefix: "test"}
	if err := o.setDefaults(); err != nil {
		t.Fatal(err)
	}
	b := newBackend(&o)
	t.Cleanup(b.close)
	return b
}

func inTime(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// loaded returns the items of keys, which are on one server.
func loaded(t testing.TB, b *backend, keys ...string) []cas.Item {
	t.Helper()
	loads := make([]cas.Load, len(keys))
	for i, key := range keys {
		loads[i].Key = key
	}
	if now, err := b.Load(inTime(t), loads); err != nil || !now.IsZero() {
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

// swapped makes swaps and checks their outcomes.
func swapped(t testing.TB, b *backend, swaps []cas.Swap, want ...cas.Outcome) {
	t.Helper()
	if now, err := b.Swap(inTime(t), swaps); err != nil || !now.IsZero() {
		t.Fatal(now, err)
	}
	for i := range swaps {
		if swaps[i].Outcome != want[i] {
			t.Errorf("swap %d of %q: outcome %d, want %d (%v)", i, swaps[i].Key, swaps[i].Outcome, want[i], swaps[i].Err)
		}
	}
}

func TestSwapsOnlyWhatWasRead(t *testing.T) {
	s := memcachedtest.Start(t)
	b := open(t, s.Addr())
	if got := loaded(t, b, "a", "b"); got[0].Version != 0 || got[0].Value != nil || got[1].Version != 0 {
		t.Fatal(got)
	}
	swapped(t, b, []cas.Swap{swapOf("a", 0, "1"), swapOf("c", 7, "1")}, cas.Done, cas.Lost)
	first := loaded(t, b, "a", "b", "c")
	if string(first[0].Value) != "1" || first[1].Version != 0 || first[2].Version != 0 {
		t.Fatal(first)
	}
	swaps := []cas.Swap{swapOf("a", 0, "2"), swapOf("b", 0, "b"), swapOf("c", 7, "2")}
	swapped(t, b, swaps, cas.Lost, cas.Done, cas.Lost)
	if swaps[0].Known || !swaps[2].Known || swaps[2].Current.Version != 0 {
		t.Error(swaps)
	}
	swapped(t, b, []cas.Swap{swapOf("a", first[0].Version, "3")}, cas.Done)
	swapped(t, b, []cas.Swap{swapOf("a", first[0].Version, "4")}, cas.Lost)
	if got := loaded(t, b, "a", "b"); string(got[0].Value) != "3" || string(got[1].Value) != "b" || got[0].Version == first[0].Version {
		t.Error(got)
	}
	s.Do("flush_all")
	if got := loaded(t, b, "a"); got[0].Version != 0 {
		t.Error(got)
	}
	swapped(t, b, []cas.Swap{swapOf("a", 0, "1")}, cas.Done)
	if got := loaded(t, b, "a"); got[0].Version == first[0].Version {
		t.Error("a version returns after flush_all")
	}
}

// A swap tells the version that the server gave the item, for the next swap. It does not take
// the version of another write for that of its own.
func TestSwapsTellTheNewVersion(t *testing.T) {
	b := open(t, memcachedtest.Start(t).Addr())
	swaps := []cas.Swap{swapOf("a", 0, "1"), swapOf("b", 0, "1"), swapOf("c", 7, "1"), swapOf("d", 0, "1")}
	swaps[0].Keep, swaps[2].Keep, swaps[3].Keep = true, true, true
	swapped(t, b, swaps, cas.Done, cas.Done, cas.Lost, cas.Done)
	got := loaded(t, b, "a", "d")
	if swaps[0].Written != got[0].Version || swaps[1].Written != 0 || swaps[2].Written != 0 || swaps[3].Written != got[1].Version {
		t.Errorf("%+v, and the items are %+v", swaps, got)
	}
	again := []cas.Swap{swapOf("a", swaps[0].Written, "2")}
	swapped(t, b, again, cas.Done)

	_, err := b.servers[0].do(inTime(t), false, func(c *conn) error {
		lost := []cas.Swap{swapOf("d", swaps[3].Written, "2"), swapOf("d", 0, "3")}
		lost[0].Outcome = cas.Done // as if another node wrote before the item is read
		c.gets(2, func(to []byte, i int) []byte { return appendKey(to, b.prefix, []string{"d", "e"}[i]) })
		if err := c.send(); err != nil {
			return err
		}
		err := readVersions(c, []*cas.Swap{&lost[0], &lost[1]})
		if lost[0].Written != 0 || lost[1].Written != 0 {
			t.Errorf("%+v", lost)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Memcached counts versions from 1 again after a restart. A version that was read before
// must not match an item that was written since.
func TestVersionsOfAnEarlierRunAreLost(t *testing.T) {
	s := memcachedtest.Start(t)
	b := open(t, s.Addr())
	swapped(t, b, []cas.Swap{swapOf("k", 0, "old")}, cas.Done)
	before := loaded(t, b, "k")[0]
	s.Restart()
	if got := loaded(t, b, "k")[0]; got.Version != 0 { // on a new connection
		t.Error(got)
	}
	swapped(t, b, []cas.Swap{swapOf("k", 0, "new")}, cas.Done)
	if lines := s.Do("gets test:k"); !strings.HasSuffix(lines[0], " 1") && !strings.HasSuffix(lines[0], " 2") {
		t.Fatal("the server does not count from 1:", lines)
	}
	swapped(t, b, []cas.Swap{swapOf("k", before.Version, "old")}, cas.Lost)
	if got := loaded(t, b, "k")[0]; string(got.Value) != "new" || got.Version == before.Version {
		t.Error(got)
	}
}

func TestKeysAndValuesHaveAnyBytes(t *testing.T) {
	b := open(t, memcachedtest.Start(t).Addr())
	keys := []string{
		"=plain", "=two words", "=\r\nflush_all\r\n", "=\x00\x01", "=\x7f", "=\u00a0", "=\u0085", "=ключ", "=\xff\xfe", "=",
		"=" + strings.Repeat("k", cas.MaxKey-1), "=" + strings.Repeat("\n", cas.MaxKey-1),
	}
	values := []string{"\r\nEND\r\n", strings.Repeat("v", cas.MaxValue), "\x00", "VALUE x 0 1 1\r\n"}
	swaps, want := make([]cas.Swap, len(keys)), make([]cas.Outcome, len(keys))
	for i, key := range keys {
		swaps[i], want[i] = swapOf(key, 0, values[i%len(values)]), cas.Done
	}
	swapped(t, b, swaps, want...)
	for i, item := range loaded(t, b, keys...) {
		if !bytes.Equal(item.Value, swaps[i].Value) || item.Version == 0 {
			t.Errorf("%q: %d bytes of version %d", keys[i], len(item.Value), item.Version)
		}
	}
}

func TestLargeBatches(t *testing.T) {
	b := open(t, memcachedtest.Start(t).Addr())
	const count = 128
	keys, swaps, want := make([]string, count), make([]cas.Swap, count), make([]cas.Outcome, count)
	for i := range keys {
		keys[i], want[i] = fmt.Sprintf("=%0199d", i), cas.Done
		swaps[i] = swapOf(keys[i], 0, strings.Repeat(strconv.Itoa(i%10), 20_000))
	}
	swapped(t, b, swaps, want...)
	for i, item := range loaded(t, b, keys...) {
		if !bytes.Equal(item.Value, swaps[i].Value) {
			t.Errorf("item %d has %d bytes", i, len(item.Value))
		}
		swaps[i] = swapOf(keys[i], item.Version, "small")
		if i%2 > 0 {
			swaps[i].Old, want[i] = 0, cas.Lost
		}
	}
	swapped(t, b, swaps, want...)
}

// A value that another program wrote may be longer than any of the store's.
func TestForeignValuesLeaveTheConnectionInOrder(t *testing.T) {
	s := memcachedtest.Start(t)
	b := open(t, s.Addr())
	s.Do("set test:=long 0 0 1000000\r\n" + strings.Repeat("x", 1_000_000))
	swapped(t, b, []cas.Swap{swapOf("=z", 0, "v")}, cas.Done)
	got := loaded(t, b, "=long", "=z")
	if len(got[0].Value) != cas.MaxValue+1 || string(got[1].Value) != "v" {
		t.Error(len(got[0].Value), got[1])
	}
	swapped(t, b, []cas.Swap{swapOf("=long", got[0].Version, "v")}, cas.Done)
}

func TestItemsAreKeptLongEnough(t *testing.T) {
	s := memcachedtest.Start(t)
	b := open(t, s.Addr())
	for _, ttl := range []time.Duration{time.Second, time.Hour, relative - 2*time.Second, relative - time.Second, relative, 32 * 24 * time.Hour, 400 * 24 * time.Hour} {
		w := swapOf("=k"+ttl.String(), 0, "v")
		w.TTL = ttl
		swapped(t, b, []cas.Swap{w}, cas.Done)
		answer := s.Do("mg test:" + w.Key + " t")[0] // a meta command, of 1.6 and newer
		left, err := strconv.Atoi(strings.TrimPrefix(answer, "HD t"))
		if want := int(ttl / time.Second); err != nil || left < want || left > want+3 {
			t.Errorf("%v: %q", ttl, answer)
		}
	}
}

func TestLocksTakeTurns(t *testing.T) {
	s := memcachedtest.Start(t)
	const nodes, writes = 4, 20
	var all sync.WaitGroup
	for range nodes {
		b := open(t, s.Addr())
		all.Go(func() {
			for range writes {
				swaps, err := b.Locked(inTime(t), []string{"k"}, func(items []cas.Item, _ time.Time) []cas.Swap {
					n, _ := strconv.Atoi(string(items[0].Value))
					return []cas.Swap{swapOf("k", items[0].Version, strconv.Itoa(n+1))}
				})
				if err != nil || swaps[0].Outcome != cas.Done {
					t.Error(swaps, err)
				}
			}
		})
	}
	all.Wait()
	if got := loaded(t, open(t, s.Addr()), "k")[0]; string(got.Value) != strconv.Itoa(nodes*writes) {
		t.Errorf("%s writes", got.Value)
	}
}

func TestLockOfADeadNode(t *testing.T) {
	s := memcachedtest.Start(t)
	b := open(t, s.Addr())
	lockKey := string(appendLockKey(nil, "test", "k"))
	s.Do("set " + lockKey + " 0 2 4\r\ndead")
	begun := time.Now()
	swaps, err := b.Locked(inTime(t), []string{"k"}, func([]cas.Item, time.Time) []cas.Swap { return []cas.Swap{swapOf("k", 0, "v")} })
	if err != nil || swaps[0].Outcome != cas.Done || time.Since(begun) < lockWait {
		t.Error(time.Since(begun), swaps, err)
	}
	if got := s.Do("get " + lockKey); len(got) != 3 || got[1] != "dead" {
		t.Error("the lock of another node was removed:", got)
	}
	s.Do("delete " + lockKey)
	if _, err := b.Locked(inTime(t), []string{"k"}, func([]cas.Item, time.Time) []cas.Swap { return nil }); err != nil {
		t.Error(err)
	}
	if got := s.Do("get " + lockKey); len(got) != 1 {
		t.Error("the lock is left:", got)
	}
}

func TestEachKeyIsOnItsServer(t *testing.T) {
	servers := []*memcachedtest.Server{memcachedtest.Start(t), memcachedtest.Start(t)}
	b := open(t, servers[0].Addr(), servers[1].Addr())
	other := open(t, servers[1].Addr(), servers[0].Addr()) // the order does not matter
	counts := [2]int{}
	for i := range 50 {
		key := fmt.Sprintf("=user:%d", i)
		at := b.ShardOf(key)
		counts[at]++
		swapped(t, b, []cas.Swap{swapOf(key, 0, "v")}, cas.Done)
		if got := loaded(t, other, key); string(got[0].Value) != "v" {
			t.Error(got)
		}
		if got := servers[at].Do("get test:" + key); len(got) != 3 {
			t.Error(key, got)
		}
	}
	if counts[0] < 10 || counts[1] < 10 {
		t.Error(counts)
	}
}
