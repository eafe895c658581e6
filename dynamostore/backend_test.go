package dynamostore

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/internal/dynamotest"
)

// setEnvironment gives the SDK the credentials of tests.
func setEnvironment(t *testing.T) {
	t.Helper()
	for name, value := range dynamotest.Environment {
		t.Setenv(name, value)
	}
}

// options returns the options of a URL with a longer time for each call.
func options(t *testing.T, address string) Options {
	t.Helper()
	o, err := ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	o.Timeout = 10 * time.Second
	if err := o.setDefaults(); err != nil {
		t.Fatal(err)
	}
	return o
}

// open returns a backend without a store around it.
func open(t *testing.T, address string) transacting {
	t.Helper()
	o := options(t, address)
	b, err := newBackend(&o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return transacting{b}
}

func migrate(t *testing.T, address string) {
	t.Helper()
	if err := Migrate(inTime(t), options(t, address)); err != nil {
		t.Fatal(err)
	}
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

// swapped makes swaps by a method and checks their outcomes.
func swapped(t *testing.T, swap func(context.Context, []cas.Swap) (time.Time, error), swaps []cas.Swap, want ...cas.Outcome) {
	t.Helper()
	if now, err := swap(inTime(t), swaps); err != nil || !now.IsZero() {
		t.Fatal(now, err)
	}
	for i := range swaps {
		if swaps[i].Outcome != want[i] {
			t.Errorf("swap %d of %q: outcome %d, want %d: %v", i, swaps[i].Key, swaps[i].Outcome, want[i], swaps[i].Err)
		}
	}
}

// emulator is one that all tests of the backend run on.
type emulator struct {
	*dynamotest.Server

	transactions bool
	returnsItems bool // after a failed condition
}

func eachEmulator(t *testing.T, test func(t *testing.T, e emulator)) {
	t.Helper()
	setEnvironment(t)
	t.Run("moto", func(t *testing.T) { test(t, emulator{dynamotest.Moto(t), true, true}) })
	t.Run("dynalite", func(t *testing.T) { test(t, emulator{dynamotest.Dynalite(t), false, false}) })
}

func TestBackend(t *testing.T) {
	eachEmulator(t, func(t *testing.T, e emulator) {
		migrate(t, e.URL("limits"))
		b := open(t, e.URL("limits"))
		for name, test := range map[string]func(*testing.T, transacting, emulator){
			"swaps":        swapsOnce,
			"strange keys": keepsAnyKey,
			"large values": keepsLargeValues,
			"batches":      readsBatches,
			"transactions": swapsAllOrNone,
			"probes":       probes,
		} {
			t.Run(name, func(t *testing.T) { test(t, b, e) })
		}
	})
}

func swapsOnce(t *testing.T, b transacting, e emulator) {
	if got := loaded(t, b, "a", "b"); got[0].Version != 0 || got[0].Value != nil || got[1].Version != 0 {
		t.Fatal(got)
	}
	first := swapOf("a", 0, "one")
	made := []cas.Swap{first, swapOf("b", 0, "two")}
	swapped(t, b.Swap, made, cas.Done, cas.Done)
	late := []cas.Swap{swapOf("a", 0, "late")}
	swapped(t, b.Swap, late, cas.Lost)
	if made[0].Written != first.Version || late[0].Written != 0 {
		t.Errorf("version %d is written as %d, and a lost write as %d", first.Version, made[0].Written, late[0].Written)
	}
	if known := late[0].Known; known != e.returnsItems || known && (late[0].Current.Version != first.Version || string(late[0].Current.Value) != "one") {
		t.Errorf("%+v", late[0])
	}
	second := swapOf("a", first.Version, "three")
	gone := []cas.Swap{second, swapOf("b", 7, "late"), swapOf("c", 0, "new"), swapOf("d", 9, "gone")}
	swapped(t, b.Swap, gone, cas.Done, cas.Lost, cas.Done, cas.Lost)
	if gone[3].Known {
		t.Errorf("%+v", gone[3])
	}
	swapped(t, b.Swap, []cas.Swap{second}, cas.Lost) // the old version is no more
	got := loaded(t, b, "d", "c", "b", "a")
	if string(got[3].Value) != "three" || got[3].Version != second.Version || string(got[2].Value) != "two" || string(got[1].Value) != "new" || got[0].Version != 0 {
		t.Error(got)
	}
	if got := loaded(t, b, "a"); got[0].Version != second.Version {
		t.Error(got)
	}
}

// The second write of an item is remembered, so the checks after it do not read the item. A
// denial reads it.
func TestRememberedItemsAreNotRead(t *testing.T) {
	eachEmulator(t, func(t *testing.T, e emulator) {
		migrate(t, e.URL("limits"))
		o := options(t, e.URL("limits"))
		o.Heartbeat = -1
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		claim := stint.Claim{Key: "k", Limit: stint.MustParseLimit("5/h"), Cost: 1}
		for i := range 6 {
			if d, err := s.Take(inTime(t), claim); err != nil || d.Allowed != (i < 5) {
				t.Fatal(i, d, err)
			}
		}
		if st := s.Stats(); st.Swaps != 5 || st.Remembered != 3 || st.Lost != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func keepsAnyKey(t *testing.T, b transacting, _ emulator) {
	keys := []string{"\x00", "\x00\xff", " ", `"\x`, strings.Repeat("k", cas.MaxKey), "é", "ключ"}
	for _, key := range keys {
		swapped(t, b.Swap, []cas.Swap{swapOf(key, 0, key)}, cas.Done)
	}
	for i, item := range loaded(t, b, keys...) {
		if one := loaded(t, b, keys[i])[0]; string(item.Value) != keys[i] || one.Version != item.Version {
			t.Errorf("%q has %q", keys[i], item.Value)
		}
	}
}

func keepsLargeValues(t *testing.T, b transacting, _ emulator) {
	value := bytes.Repeat([]byte("0123456789abcdef"), cas.MaxValue/16)
	greatest := swapOf("large", 0, string(value))
	greatest.Version = 1<<63 - 1
	swapped(t, b.Swap, []cas.Swap{greatest}, cas.Done)
	if got := loaded(t, b, "large")[0]; !bytes.Equal(got.Value, value) || got.Version != greatest.Version {
		t.Errorf("%d bytes of version %d", len(got.Value), got.Version)
	}
	swapped(t, b.Swap, []cas.Swap{swapOf("large", greatest.Version-1, "late")}, cas.Lost)
	swapped(t, b.Swap, []cas.Swap{swapOf("large", greatest.Version, "next")}, cas.Done)
}

func readsBatches(t *testing.T, b transacting, _ emulator) {
	keys := make([]string, maxBatch)
	for i := range keys {
		keys[i] = "batch " + strings.Repeat("i", i)
	}
	swapped(t, b.Swap, []cas.Swap{swapOf(keys[3], 0, "3"), swapOf(keys[99], 0, "99")}, cas.Done, cas.Done)
	for i, got := range loaded(t, b, keys...) {
		if (got.Version != 0) != (i == 3 || i == 99) {
			t.Error(i, got)
		}
	}
}

func swapsAllOrNone(t *testing.T, b transacting, e emulator) {
	x, y := swapOf("x", 0, "1"), swapOf("y", 0, "1")
	if !e.transactions {
		swaps := []cas.Swap{x, y}
		_, err := b.SwapAll(inTime(t), swaps)
		wantProblem(t, err, "version", "transactions=false")
		return
	}
	swapped(t, b.SwapAll, []cas.Swap{x, y}, cas.Done, cas.Done)
	late := []cas.Swap{swapOf("x", x.Version, "2"), swapOf("y", 5, "2"), swapOf("z", 0, "2")}
	swapped(t, b.SwapAll, late, cas.Lost, cas.Lost, cas.Lost)
	if !late[1].Known || late[1].Current.Version != y.Version || late[2].Known {
		t.Errorf("%+v", late)
	}
	if got := loaded(t, b, "x", "y", "z"); string(got[0].Value) != "1" || string(got[1].Value) != "1" || got[2].Version != 0 {
		t.Error(got)
	}
	swapped(t, b.SwapAll, []cas.Swap{swapOf("x", x.Version, "2"), swapOf("z", 0, "2")}, cas.Done, cas.Done)
	many := make([]cas.Swap, 0, maxBatch)
	for i := range maxBatch {
		many = append(many, swapOf(strings.Repeat("m", i+1), 0, "v"))
	}
	if _, err := b.SwapAll(inTime(t), many); err != nil || many[0].Outcome != cas.Done {
		t.Error(err)
	}
	for i := range many {
		many[i].Value = make([]byte, cas.MaxValue)
	}
	_, err := b.SwapAll(inTime(t), many)
	wantProblem(t, err, "size", "fewer keys")
}

func probes(t *testing.T, b transacting, e emulator) {
	b.Stop("")
	_, err := b.Load(inTime(t), []cas.Load{{Key: "k"}})
	wantProblem(t, err, "connection", "")
	if err := b.Probe(inTime(t), ""); err != nil {
		t.Error(err)
	}
	wantProblem(t, open(t, e.URL("absent")).Probe(inTime(t), ""), "table", "stint store migrate")
	b.Start("")
	if got := loaded(t, b, "probe"); got[0].Version != 0 {
		t.Error("a probe writes:", got)
	}
}
