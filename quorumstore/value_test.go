package quorumstore

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/storekit"
)

// wideValue returns the value of an item with a state of the short and of the long limit.
func wideValue(t *testing.T) (value []byte, at time.Time) {
	t.Helper()
	servers := newMemoryServers(3)
	s := newTestStore(t, servers)
	n := &simNode{sim: &simulation{trace: &trace{}}, store: s}
	if !n.take("k", true, true).allowed {
		t.Fatal(n.sim.history)
	}
	loads := []cas.Load{{Key: "=k"}}
	at, err := newBackend(servers, backendOptions{}).Load(context.Background(), loads)
	if err != nil {
		t.Fatal(err)
	}
	return loads[0].Item.Value, at
}

// A state whose limit got another class is in two parts until both are written. The newer one
// counts, and one of a class that the writer knows too little of is not written.
func TestANewerPartWins(t *testing.T) {
	t.Parallel()
	value, at := wideValue(t)
	parts := divide(value, at, maxClass, nil)
	if len(parts) != 3 || parts[0].class > 2 || parts[1].class > 17 || parts[2].class != maxClass {
		t.Fatalf("%+v", parts)
	}
	for i := range parts {
		parts[i].ballot = ballot{1, 1}
	}
	same, above, ok := unite(parts, maxClass)
	_, want, _ := cas.SplitItem(value)
	if _, got, _ := cas.SplitItem(same); !ok || len(above) > 0 || !bytes.Equal(got, want) {
		t.Errorf("%x became %x", value, same)
	}
	mixed := append([]part{{class: parts[0].class, ballot: ballot{2, 1}, data: parts[0].data}}, part{class: 20, ballot: ballot{1, 1}, data: parts[0].data}, parts[1], parts[2])
	both, above, ok := unite(mixed, 5)
	_, packed, _ := cas.SplitItem(both)
	states, _ := storekit.SplitValue(packed)
	if !ok || len(states) != 2 || len(above) != 1 {
		t.Fatalf("%d states, %d above", len(states), len(above))
	}
	if written := divide(both, at, 5, above); len(written) != 2 || written[1].class != 5 || !bytes.Equal(written[0].data, parts[0].data) {
		t.Errorf("%+v", written)
	}
}

// ballotAll gives parts a ballot.
func ballotAll(parts []part, b ballot) []part {
	parts = slices.Clone(parts)
	for i := range parts {
		parts[i].ballot = b
	}
	return parts
}

// statesOf returns the number of states of a value, and its head.
func statesOf(t *testing.T, value []byte) (count int, head string) {
	t.Helper()
	h, packed, ok := cas.SplitItem(value)
	states, valid := storekit.SplitValue(packed)
	if !ok || !valid {
		t.Fatalf("%x is no item", value)
	}
	return len(states), string(h)
}

// A process that knows little of the higher classes confirms the lower ones. They are read alone
// then, and have all that the write had in them.
func TestConfirmedPartsAreReadAlone(t *testing.T) {
	t.Parallel()
	value, at := wideValue(t)
	_, wrote := statesOf(t, value)
	all := ballotAll(divide(value, at, maxClass, nil), ballot{1, 1})
	lower := ballotAll(renew(all, 4), ballot{2, 1})
	if last := lower[len(lower)-1]; last.class > 4 {
		t.Fatalf("class %d was confirmed", last.class)
	}
	read, _, ok := unite(lower, 4)
	if count, head := statesOf(t, read); !ok || count != 1 || head != wrote {
		t.Errorf("%d states by %x, written by %x", count, head, wrote)
	}
}

// A write that was lost in a lower class, where a newer one confirmed that there was nothing, is not
// made because its part of a higher class is there.
func TestAWriteIsMadeInAllPartsOrInDoubt(t *testing.T) {
	t.Parallel()
	value, at := wideValue(t)
	_, wrote := statesOf(t, value)
	all := ballotAll(divide(value, at, maxClass, nil), ballot{1, 1})
	chosen := []part{{class: 2, ballot: ballot{2, 1}}}
	for _, p := range all {
		if p.class > 2 {
			chosen = append(chosen, p)
		}
	}
	for name, parts := range map[string][]part{"read": chosen, "confirmed": ballotAll(renew(chosen, maxClass), ballot{3, 1})} {
		read, _, ok := unite(parts, maxClass)
		if _, head := statesOf(t, read); !ok || head == wrote {
			t.Errorf("%s: the writers are %x, as of the whole write", name, head)
		}
	}
	// A class that was never written says nothing about the others.
	lower := append(ballotAll(divide(value, at, 20, nil), ballot{1, 1}), part{class: 40})
	read, _, _ := unite(lower, 40)
	if _, head := statesOf(t, read); head != wrote {
		t.Errorf("the writers are %x, not %x", head, wrote)
	}
}

// A state that a newer part has is not confirmed beside it, where it would become the newer one.
func TestAnOlderStateIsNotConfirmed(t *testing.T) {
	t.Parallel()
	value, at := wideValue(t)
	short := divide(value, at, maxClass, nil)[0]
	chosen := []part{{class: short.class, ballot: ballot{1, 1}, data: short.data}, {class: 20, ballot: ballot{2, 1}, data: short.data}}
	for _, p := range renew(chosen, 5) {
		if read, _, _ := unite([]part{p}, 5); len(read) > 0 {
			if count, _ := statesOf(t, read); count != 0 {
				t.Errorf("class %d has %d states", p.class, count)
			}
		}
	}
}

// A value that is not an item is there whatever its reader is old enough for.
func TestAWholeValueHasNoClass(t *testing.T) {
	t.Parallel()
	parts := divide([]byte("whole"), time.Time{}, maxClass, nil)
	for i := range parts {
		parts[i].ballot = ballot{1, 1}
	}
	rows := []*row{{parts: parts}, {parts: parts}}
	chosen, agreed := choose(rows, rows, 5, 2)
	if value, _, ok := unite(chosen, 5); !ok || !agreed || string(value) != "whole" {
		t.Errorf("%q of %+v", value, chosen)
	}
}

// The version of an item tells whether it was written, whatever its reader is old enough for.
func TestVersionsAreOfWrites(t *testing.T) {
	t.Parallel()
	value, at := wideValue(t)
	parts := divide(value, at, maxClass, nil)
	version := func(written ballot, upTo uint8) uint64 {
		for i := range parts {
			parts[i].ballot = written
		}
		rows := []*row{{parts: parts}, {parts: parts}}
		chosen, _ := choose(rows, rows, upTo, 2)
		return versionOf(chosen)
	}
	old := version(ballot{1, 1}, maxClass)
	if young := version(ballot{1, 1}, 5); young != old {
		t.Errorf("the version is %d, and that of a younger reader %d", old, young)
	}
	if after := version(ballot{2, 1}, maxClass); after == old || old == 0 {
		t.Errorf("the version is %d before and %d after a write", old, after)
	}
}
