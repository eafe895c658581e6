package quorumstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/storekit"
)

// wideValue returns the value of an item with a state of the short and of the long limit, at noon.
func wideValue(t *testing.T) (value []byte, at time.Time) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		elapse(12 * time.Hour) // the long limit ends at midnight
		servers := newMemoryServers(3)
		s := newTestStore(t, servers)
		n := &simNode{sim: &simulation{trace: &trace{}}, store: s}
		if !n.take("k", true, true).allowed {
			t.Fatal(n.sim.history)
		}
		loads := []cas.Load{{Key: "=k"}}
		var err error
		if at, err = newBackend(servers, backendOptions{}).Load(context.Background(), loads); err != nil {
			t.Fatal(err)
		}
		value = loads[0].Item.Value
		_ = s.Close()
	})
	return value, at
}

// A state whose limit got another class is in two parts until both are written. The newer one
// counts, and one of a class that the writer knows too little of is not written.
func TestANewerPartWins(t *testing.T) {
	t.Parallel()
	value, at := wideValue(t)
	parts := partsOf(value, at, maxClass)
	if len(parts) != 3 || parts[0].class > 2 || parts[1].class > 17 || parts[2].class != maxClass {
		t.Fatalf("%+v", parts)
	}
	for i := range parts {
		parts[i].ballot = ballot{1, 1}
	}
	same, places, ok := unite(parts, maxClass, time.Time{})
	_, want, _ := cas.SplitItem(value)
	if _, got, _ := cas.SplitItem(same); !ok || aboves(places, maxClass) > 0 || !bytes.Equal(got, want) {
		t.Errorf("%x became %x", value, same)
	}
	older := bytes.Clone(parts[0].data)
	older[len(older)-1]++
	mixed := append([]part{{class: parts[0].class, ballot: ballot{2, 1}, data: parts[0].data}}, part{class: 20, ballot: ballot{1, 1}, data: older}, parts[1], parts[2])
	both, places, ok := unite(mixed, maxClass, time.Time{})
	_, packed, _ := cas.SplitItem(both)
	states, _ := storekit.SplitValue(packed)
	if !ok || len(states) != 2 || aboves(places, 5) != 1 {
		t.Fatalf("%d states at %+v", len(states), places)
	}
	d := division{value: both, decided: at, upTo: 5, read: both, places: places}
	if written, _ := d.divide(); len(written) != 2 || written[1].class != 5 || !bytes.Equal(written[0].data, parts[0].data) {
		t.Errorf("%+v", written)
	}
}

// The long limit gets numbers by which it is of class 3. Its state is written there, and left in the old
// class as it was read. The next write leaves it out there.
func TestAStateThatMovesStaysInItsOldClassOnce(t *testing.T) {
	t.Parallel()
	value, at := wideValue(t)
	old := ballotAll(partsOf(value, at, maxClass), ballot{1, 1})
	_, places, _ := unite(old, maxClass, at)
	head, packed, _ := cas.SplitItem(value)
	states, _ := storekit.SplitValue(packed)
	states[1] = endingAt(states[1], at.Add(5*time.Second)) // as a charge by the new numbers does
	charged := cas.JoinItem(head, storekit.JoinValue(states))
	change := division{value: charged, decided: at, upTo: maxClass, read: value, places: places, lives: map[string]time.Duration{states[1].Scope: 5 * time.Second}}
	written, moved := change.divide()
	if at, _ := placeOf(moved, states[1].Scope); at.class != 3 {
		t.Fatalf("from %+v to %+v", places, moved)
	}
	written = ballotAll(written, ballot{2, 1})
	for name, parts := range map[string][]part{"written": written, "confirmed": ballotAll(renew(written, maxClass, at), ballot{3, 1})} {
		for _, now := range []time.Time{at, at.Add(time.Hour)} { // also once it has ended: what it replaced counts no more
			read, again, ok := unite(parts, maxClass, now)
			if !ok || !slices.Equal(again, moved) {
				t.Errorf("%s: %+v became %+v", name, moved, again)
			}
			if _, got, _ := cas.SplitItem(read); !bytes.Equal(got, storekit.JoinValue(states)) {
				t.Errorf("%s: %x is read as %x", name, charged, read)
			}
		}
		// Another write has replaced the lower classes.
		left, _, _ := unite(append([]part{{class: 10, ballot: ballot{4, 1}}}, parts[len(parts)-2:]...), maxClass, at)
		_, packed, _ := cas.SplitItem(left)
		if only, _ := storekit.SplitValue(packed); len(only) != 1 || !bytes.Contains(value, only[0].Bytes) {
			t.Errorf("%s: %x is left in the old class, and not as in %x", name, left, value)
		}
	}
	change.read, change.places = charged, moved
	next, _ := change.divide()
	if len(next) != 3 || bytes.Contains(next[2].data, []byte(states[1].Scope)) {
		t.Errorf("the next write: %+v", next)
	}
}

// A call that does not change a state brings numbers of a lower class. The state still lives for longer than
// that class, so no write may leave it there alone: a reader of that class takes what it misses for ended.
func TestAnUnchangedStateIsNotInALowerClassAlone(t *testing.T) {
	t.Parallel()
	value, at := wideValue(t)
	parts := ballotAll(partsOf(value, at, maxClass), ballot{1, 1})
	_, places, _ := unite(parts, maxClass, at)
	scope := storekit.ScopeOf(simLong).String()
	lives := map[string]time.Duration{scope: time.Minute}
	for i := range 2 { // the second write is of the memo that the process has kept
		d := division{value: value, decided: at, upTo: maxClass, read: value, places: places, lives: lives}
		parts, places = d.divide()
		highest := uint8(0)
		for _, p := range parts {
			c, _ := contentsOf([]part{{class: p.class, ballot: ballot{2, 1}, data: p.data}}, at)
			if _, _, has := c.find(scope); has {
				highest = p.class
			}
		}
		_, packed, _ := cas.SplitItem(value)
		states, _ := storekit.SplitValue(packed)
		for _, s := range states {
			if s.Scope == scope && s.Expires.Sub(at) > time.Second<<highest {
				t.Errorf("write %d: a state of %v is in class %d alone", i, s.Expires.Sub(at), highest)
			}
		}
		lives = nil
	}
}

// A state of a lower class that has ended does not hide one of another write in a higher class, which has not.
func TestAnEndedStateHidesNothing(t *testing.T) {
	t.Parallel()
	value, at := wideValue(t)
	parts := ballotAll(partsOf(value, at, maxClass), ballot{1, 1})
	_, packed, _ := cas.SplitItem(value)
	states, _ := storekit.SplitValue(packed)
	ended := endingAt(states[1], at)
	chosen := append([]part{{class: 3, ballot: ballot{2, 1}, data: partOf(noHead, nil, []storekit.StoredState{ended})}}, parts[1:]...)
	for _, now := range []time.Time{at.Add(maxSkew - 1), at.Add(maxSkew)} {
		read, places, ok := unite(chosen, maxClass, now)
		found, _ := placeOf(places, states[1].Scope)
		if hides := now.Before(at.Add(maxSkew)); !ok || hides != (found.class == 3) || hides == bytes.Contains(read, states[1].Bytes) {
			t.Errorf("at %v: %x at %+v", now, read, places)
		}
	}
}

// endingAt returns a state with another end.
func endingAt(s storekit.StoredState, at time.Time) storekit.StoredState {
	end := func(t time.Time) []byte { return binary.AppendUvarint(nil, uint64(t.UnixMicro())) }
	s.Bytes, s.Expires = bytes.Replace(bytes.Clone(s.Bytes), end(s.Expires), end(at), 1), at
	return s
}

// aboves returns how many states are of classes above upTo.
func aboves(places []place, upTo uint8) (n int) {
	for _, p := range places {
		if p.class > upTo {
			n++
		}
	}
	return n
}

// partsOf divides a value that has no parts yet.
func partsOf(value []byte, at time.Time, upTo uint8) []part {
	d := division{value: value, decided: at, upTo: upTo}
	parts, _ := d.divide()
	return parts
}

// A state keeps its class while its remaining life becomes shorter: that of its limit in the calls, and
// the one that it had if the calls do not have the limit.
func TestAStateNeverMovesToALowerClass(t *testing.T) {
	t.Parallel()
	value, at := wideValue(t)
	lives := map[string]time.Duration{storekit.ScopeOf(simShort).String(): 4 * time.Second, storekit.ScopeOf(simLong).String(): 24 * time.Hour}
	first := division{value: value, decided: at, upTo: maxClass, lives: lives}
	parts, places := first.divide()
	for name, later := range map[string]division{
		"in the calls":     {lives: lives},
		"not in the calls": {places: places},
	} {
		later.value, later.read, later.decided, later.upTo = value, value, at.Add(12*time.Hour-2*time.Second), maxClass
		written, again := later.divide()
		if !slices.Equal(again, places) || len(written) != len(parts) {
			t.Errorf("%s: %+v became %+v", name, parts, written)
		}
	}
	if written := partsOf(value, at.Add(12*time.Hour-2*time.Second), maxClass); written[0].class != 0 || written[1].class != 1 {
		t.Errorf("a state with two seconds left, of an unknown limit: %+v", written)
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
	all := ballotAll(partsOf(value, at, maxClass), ballot{1, 1})
	lower := ballotAll(renew(all, 4, time.Time{}), ballot{2, 1})
	if last := lower[len(lower)-1]; last.class > 4 {
		t.Fatalf("class %d was confirmed", last.class)
	}
	read, _, ok := unite(lower, maxClass, time.Time{})
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
	all := ballotAll(partsOf(value, at, maxClass), ballot{1, 1})
	chosen := []part{{class: 2, ballot: ballot{2, 1}}}
	for _, p := range all {
		if p.class > 2 {
			chosen = append(chosen, p)
		}
	}
	for name, parts := range map[string][]part{"read": chosen, "confirmed": ballotAll(renew(chosen, maxClass, time.Time{}), ballot{3, 1})} {
		read, _, ok := unite(parts, maxClass, time.Time{})
		if _, head := statesOf(t, read); !ok || head == wrote {
			t.Errorf("%s: the writers are %x, as of the whole write", name, head)
		}
	}
	// A class that was never written lacks the write, which may have been confirmed in the lower classes alone.
	lower := append(ballotAll(partsOf(value, at, 20), ballot{1, 1}), part{class: 40})
	read, _, _ := unite(lower, maxClass, time.Time{})
	if _, head := statesOf(t, read); head == wrote {
		t.Errorf("the writers are %x, as of the whole write", head)
	}
}

// A state that a newer part has is not confirmed beside it, where it would become the newer one.
func TestAnOlderStateIsNotConfirmed(t *testing.T) {
	t.Parallel()
	value, at := wideValue(t)
	short := partsOf(value, at, maxClass)[0]
	chosen := []part{{class: short.class, ballot: ballot{1, 1}, data: short.data}, {class: 20, ballot: ballot{2, 1}, data: short.data}}
	for _, p := range renew(chosen, 5, time.Time{}) {
		if read, _, _ := unite([]part{p}, maxClass, time.Time{}); len(read) > 0 {
			if count, _ := statesOf(t, read); count != 0 {
				t.Errorf("class %d has %d states", p.class, count)
			}
		}
	}
}

// A value that is not an item is there whatever its reader is old enough for.
func TestAWholeValueHasNoClass(t *testing.T) {
	t.Parallel()
	parts := partsOf([]byte("whole"), time.Time{}, maxClass)
	for i := range parts {
		parts[i].ballot = ballot{1, 1}
	}
	rows := []*row{{parts: parts}, {parts: parts}}
	chosen, agreed := choose(rows, rows, 5, 2)
	if value, _, ok := unite(chosen, maxClass, time.Time{}); !ok || !agreed || string(value) != "whole" {
		t.Errorf("%q of %+v", value, chosen)
	}
}

// The version of an item tells whether it was written, whatever its reader is old enough for.
func TestVersionsAreOfWrites(t *testing.T) {
	t.Parallel()
	value, at := wideValue(t)
	parts := partsOf(value, at, maxClass)
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
