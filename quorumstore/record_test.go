package quorumstore

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/storekit"
)

// takeOnce takes a unit of some limits by a call that may be repeated.
func (n *simNode) takeOnce(id string, limits ...stint.Limit) (stint.Decision, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*simTimeout)
	defer cancel()
	claims := make([]stint.Claim, len(limits))
	for i, l := range limits {
		claims[i] = stint.Claim{Key: "k", Limit: l, Cost: 1}
	}
	out := make([]stint.Decision, len(claims))
	if err := n.store.TakeGroups(ctx, []stint.Group{{Once: &stint.Once{ID: id}, Claims: claims}}, out); err != nil {
		return stint.Decision{}, err
	}
	_, d := stint.Combine(claims, out)
	return d, nil
}

// A call that may be repeated charges a limit of a day, and its write reaches one server alone. Another
// process reads that with a young server, and confirms the classes up to that of the remembered call.
// The server is lost. The repeat must not be allowed without a charge.
func TestARepeatedCallHasItsCharge(t *testing.T) {
	t.Parallel()
	t.Run("a new id", func(t *testing.T) {
		t.Parallel()
		repeatsAfterALoss(t)
	})
	t.Run("the id of a call of the short limit", func(t *testing.T) {
		t.Parallel()
		repeatsAfterALoss(t, simShort)
	})
	t.Run("the id of a call of both limits", func(t *testing.T) {
		t.Parallel()
		repeatsAfterALoss(t, simShort, simLong)
	})
}

// repeatsAfterALoss makes the calls. Before them, one with the same id takes of some limits, and has ended.
func repeatsAfterALoss(t *testing.T, ended ...stint.Limit) {
	t.Helper()
	steadily(t, 5, 12*time.Hour, func(t *testing.T, s *simulation) {
		n, other, late := s.nodes[0], s.nodes[1], s.nodes[2]
		const young, alone = 0, 4
		elapse(10 * time.Second)
		if len(ended) > 0 {
			n.take("k", false, true) // keeps the row
			if _, err := n.takeOnce("a", ended...); err != nil {
				t.Fatal(err)
			}
			elapse(10 * time.Second)
		}
		before := n.used("k")
		s.servers[young].restart(false)
		if err := n.backend.tend(context.Background()); err != nil {
			t.Fatal(err)
		}
		elapse(70 * time.Second) // it is old enough for what is remembered
		n.take("other", true, false)
		other.take("other", true, false)
		for _, i := range []int{2, 3} {
			other.slow(i, verbRead, verbPrepareNew, verbPrepare)
		}
		for i := range alone {
			n.slow(i, verbAccept)
		}
		unknown := make(chan error)
		go func() {
			_, err := n.takeOnce("a", simLong)
			unknown <- err
		}()
		elapse(time.Millisecond)
		n.setCut(0, 1, 2, 3, alone)
		if d, err := other.takeOnce("b", simShort); err != nil || !d.Allowed {
			t.Errorf("the other process: %+v, %v", d, err)
		}
		elapse(5 * time.Millisecond)
		n.setCut(alone)
		if err := <-unknown; err == nil {
			t.Error("the first call was answered")
		}
		s.servers[alone].restart(false)
		n.setCut()
		d, err := late.takeOnce("a", simLong)
		if used := late.used("k"); err != nil || d.Allowed && used != before+1 {
			t.Errorf("%d units of the day are used after the repeat, %d were before: %+v, %v", used, before, d, err)
		}
	})
}

// As above, with a young server that is old enough for the short limit alone: the charge is confirmed, and
// what is remembered is lost.
func TestARepeatedCallIsChargedOnce(t *testing.T) {
	t.Parallel()
	steadily(t, 5, 12*time.Hour, func(t *testing.T, s *simulation) {
		n, other, late := s.nodes[0], s.nodes[1], s.nodes[2]
		const young, alone = 0, 4
		elapse(10 * time.Second)
		s.servers[young].restart(false)
		if err := n.backend.tend(context.Background()); err != nil {
			t.Fatal(err)
		}
		elapse(12 * time.Second)
		n.take("other", true, false)
		other.take("other", true, false)
		for _, i := range []int{2, 3} {
			other.slow(i, verbRead, verbPrepareNew, verbPrepare)
		}
		for i := range alone {
			n.slow(i, verbAccept)
		}
		unknown := make(chan error)
		go func() {
			_, err := n.takeOnce("a", simShort)
			unknown <- err
		}()
		elapse(time.Millisecond)
		n.setCut(0, 1, 2, 3, alone)
		if h := other.take("k", true, false); !h.allowed {
			t.Errorf("the other process: %+v", h)
		}
		elapse(5 * time.Millisecond)
		n.setCut(alone)
		if err := <-unknown; err == nil {
			t.Error("the first call was answered")
		}
		s.servers[alone].restart(false)
		n.setCut()
		if d, err := late.takeOnce("a", simShort); err != nil || !d.Allowed {
			t.Errorf("the repeat: %+v, %v", d, err)
		}
		if h := late.takeN("k", 2, true, false); !h.allowed {
			t.Errorf("after 2 of %d units were taken: %+v", simBurst, h)
		}
	})
}

// A remembered group is believed in all classes that it charged, until the charges have ended.
func TestARecordIsBelievedWithItsCharges(t *testing.T) {
	t.Parallel()
	parts, at := rememberedParts(t)
	if len(parts) != 4 || parts[0].class != 2 || parts[1].class != ofRecords || parts[2].class != 17 {
		t.Fatalf("%+v", parts)
	}
	if value, _, _ := unite(parts, maxClass, at); recordsOf(value) != 1 {
		t.Error("the whole write has no record")
	}
	confirmed := ballotAll(renew(parts, 2, at), ballot{2, 1})
	if len(confirmed) != 1 {
		t.Fatalf("%+v", confirmed)
	}
	ended := at.Add(19 * time.Second) // the charges of the lowest class
	for name, c := range map[string]struct {
		parts []part
		upTo  uint8
		after time.Duration
		want  int
	}{
		"confirmed in the lowest class":          {append(slices.Clone(confirmed), parts[1:]...), maxClass, 0, 1},
		"lost in the lowest class":               {append(without(2, at), parts[1:]...), maxClass, 0, 0},
		"lost there, after its charges ended":    {append(without(2, ended), parts[1:]...), maxClass, 20 * time.Second, 1},
		"lost there, before its charges ended":   {append(without(2, at), parts[1:]...), maxClass, 20 * time.Second, 0},
		"lost in the highest class":              {append(parts[:2:2], without(17, at)...), maxClass, 0, 0},
		"lost there, for readers of less":        {append(parts[:2:2], without(17, at)...), 6, 0, 1},
		"lost in the class of its own life":      {slices.Concat(parts[:1], without(6, at), parts[2:]), maxClass, 0, 1},
		"lost with all classes of its charges":   {slices.Concat(without(2, at), parts[1:2], without(17, at)), maxClass, 0, 0},
		"kept in the class of its own life only": {append(without(2, ended), parts[1:2]...), 6, 20 * time.Second, 1},
	} {
		value, places, ok := unite(c.parts, c.upTo, at.Add(c.after))
		if !ok || recordsOf(value) != c.want {
			t.Errorf("%s: %d records, %v", name, recordsOf(value), ok)
			continue
		}
		for _, p := range renew(c.parts, c.upTo, at.Add(c.after)) {
			if got, _ := contentsOf([]part{p}, at); len(got.parts) > 0 && len(got.parts[0].records) > c.want {
				t.Errorf("%s: %+v is confirmed in class %d", name, got.parts[0].records, p.class)
			}
		}
		d := division{value: value, decided: at.Add(c.after), upTo: c.upTo, read: value, places: places}
		again, _ := d.divide()
		for _, p := range again {
			wanted := c.want
			if p.class != 2 && p.class != ofRecords && p.class != 17 {
				wanted = 0
			}
			if got, _ := contentsOf([]part{{class: p.class, ballot: ballot{3, 1}, data: p.data}}, at); len(got.parts) != 1 || len(got.parts[0].records) != wanted {
				t.Errorf("%s: the next write has %+v in class %d", name, got.parts, p.class)
			}
		}
	}
}

// A group that is remembered in place of one that has ended, with the same id, has its own charges. A
// reset, which drops a state, is one.
func TestARecordIsInTheClassesOfItsCharges(t *testing.T) {
	t.Parallel()
	ofDay := classOfLife(24 * time.Hour)
	for name, before := range map[string]func(n *simNode) ([]stint.Claim, error){
		"the id again": func(n *simNode) ([]stint.Claim, error) {
			n.take("k", false, true) // keeps the row
			_, err := n.takeOnce("a", simShort)
			elapse(stint.RememberFor + time.Second)
			return []stint.Claim{{Key: "k", Limit: simLong, Cost: 1}}, err
		},
		"a reset": func(n *simNode) ([]stint.Claim, error) {
			return []stint.Claim{{Key: "k", Limit: simLong, Cost: stint.Forget}}, n.take("k", false, true).err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steadily(t, 3, 12*time.Hour, func(t *testing.T, s *simulation) {
				n := s.nodes[0]
				claims, err := before(n)
				if err != nil {
					t.Fatal(err)
				}
				g := stint.Group{Once: &stint.Once{ID: "a"}, Claims: claims}
				if err := n.store.TakeGroups(context.Background(), []stint.Group{g}, make([]stint.Decision, 1)); err != nil {
					t.Fatal(err)
				}
				row := s.servers[0].rowOf("=k")
				for _, class := range []uint8{ofRecords, ofDay} {
					c, ok := contentsOf([]part{row.at(class)}, time.Now())
					if !ok || len(c.parts) != 1 || len(c.parts[0].records) != 1 || c.parts[0].records[0].charges != 1<<ofDay {
						t.Errorf("class %d has %+v", class, c.parts)
					}
				}
			})
		})
	}
}

// Bytes that are cut or changed are no records, and never read out of their bounds.
func FuzzRecords(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{2, 4, 1, 0})
	f.Add(appendRecords(nil, []record{{charges: 1<<17 | 1<<2}}))
	f.Add(appendRecords(nil, []record{{StoredState: storekit.StoredState{Bytes: []byte("\x02!a\x01\x01d")}, charges: 1<<17 | 1<<2}}))
	f.Add(appendRecords(nil, []record{{StoredState: storekit.StoredState{Bytes: []byte("\x02/a\x01\x01d")}, charges: 1}})) // of a limit
	f.Fuzz(func(t *testing.T, data []byte) {
		all, left, ok := splitRecords(data)
		if ok && len(left) > len(data) {
			t.Errorf("%d bytes are left of %d", len(left), len(data))
		}
		again, _, valid := splitRecords(appendRecords(nil, all))
		same := func(a, b record) bool {
			return a.Remembers() && a.Scope == b.Scope && a.charges == b.charges && bytes.Equal(a.Bytes, b.Bytes)
		}
		if ok && (!valid || !slices.EqualFunc(all, again, same)) {
			t.Errorf("%+v is read as %+v", all, again)
		}
	})
}

// without returns a part of a later write that lacks the record.
func without(class uint8, at time.Time) []part {
	return []part{{class: class, ballot: ballot{at.UnixMicro(), maxID}, data: partOf(noHead, nil, nil)}}
}

// recordsOf returns how many groups a value remembers.
func recordsOf(value []byte) (n int) {
	_, packed, _ := cas.SplitItem(value)
	states, _ := storekit.SplitValue(packed)
	for i := range states {
		if states[i].Remembers() {
			n++
		}
	}
	return n
}

// rememberedParts returns the parts of a remembered group that charged the short and the long limit.
func rememberedParts(t *testing.T) (parts []part, at time.Time) {
	t.Helper()
	steadily(t, 3, 12*time.Hour, func(t *testing.T, s *simulation) {
		if d, err := s.nodes[0].takeOnce("a", simShort, simLong); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		row := s.servers[0].rowOf("=k")
		parts, at = slices.Clone(row.parts), time.Now()
	})
	slices.SortFunc(parts, func(a, b part) int { return int(a.class) - int(b.class) })
	return parts, at
}
