package storekit_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// rows are stored values, which a test changes as a store does.
type rows map[string][]byte

// take decides groups at a time and saves the changes.
func (r rows) take(t *testing.T, now time.Time, groups ...stint.Group) ([]stint.Decision, []storekit.Change, error) {
	t.Helper()
	claims, _ := stint.Sizes(groups)
	out := make([]stint.Decision, claims)
	changes, err := storekit.Decide(groups, r, now, out)
	for _, c := range changes {
		if r[c.Key] = c.Value; c.Value == nil {
			delete(r, c.Key)
		}
	}
	return out, changes, err
}

func group(claims ...stint.Claim) stint.Group { return stint.Group{Claims: claims} }

func claim(key, limit string, cost int64) stint.Claim {
	return stint.Claim{Key: key, Limit: stint.MustParseLimit(limit), Cost: cost}
}

func TestOneValueHoldsTheStatesOfAKey(t *testing.T) {
	r := rows{}
	_, changes, err := r.take(t, noon, group(claim("a", "2/m", 1), claim("a", "5/h", 1)), group(claim("a", "5/h", 1)))
	if err != nil || len(changes) != 1 || changes[0].Key != "a" {
		t.Fatal(changes, err)
	}
	if want := noon.Add(24 * time.Minute); !changes[0].Expires.Equal(want) { // two of five an hour
		t.Errorf("expires at %v, want %v", changes[0].Expires, want)
	}
	out, changes, err := r.take(t, noon, group(claim("a", "2/m", 0)), group(claim("a", "5/h", 0)), group(claim("a", "9/h", 0)))
	if err != nil || len(changes) != 0 || out[0].Remaining != 1 || out[1].Remaining != 3 {
		t.Error(out, changes, err)
	}
}

func TestDenialsAndDryGroupsChangeNothing(t *testing.T) {
	r := rows{}
	if _, changes, err := r.take(t, noon, group(claim("a", "2/m", 2))); err != nil || len(changes) != 1 {
		t.Fatal(changes, err)
	}
	dry := group(claim("b", "2/m", 1))
	dry.Dry = true
	denied := group(claim("a", "2/m", 1), claim("b", "2/m", 1))
	denied.Shadows = [][]stint.Claim{{claim("c", "2/m", 1)}}
	out, changes, err := r.take(t, noon, denied, dry)
	if err != nil || len(changes) != 0 || out[0].Allowed || !out[1].Allowed || !out[2].Allowed {
		t.Error(out, changes, err)
	}
}

func TestIdleStatesAreDropped(t *testing.T) {
	r := rows{}
	if _, _, err := r.take(t, noon, group(claim("a", "60/m", 1)), group(claim("a", "1/h", 1))); err != nil {
		t.Fatal(err)
	}
	long := len(r["a"])
	if _, changes, _ := r.take(t, noon.Add(time.Minute), group(claim("a", "1/h", 0))); len(changes) != 0 {
		t.Error("a peek writes")
	}
	if _, _, err := r.take(t, noon.Add(time.Hour), group(claim("a", "1/h", 1))); err != nil || len(r["a"]) >= long {
		t.Errorf("%d bytes after an hour, %d before: %v", len(r["a"]), long, err)
	}
	for _, c := range []stint.Claim{claim("a", "1/h", stint.Forget), claim("a", "1/h", 1), claim("a", "1/h", -1)} {
		if _, _, err := r.take(t, noon.Add(time.Hour), group(c)); err != nil {
			t.Fatal(err)
		}
	}
	if len(r) != 0 {
		t.Errorf("a fresh state is kept: %q", r)
	}
}

// A state that has ended by one clock still counts by another one that is behind.
func TestEndedStatesAreKeptForTheSkew(t *testing.T) {
	hour, err := stint.Spec{Algorithm: stint.FixedWindow, Limit: 3, Window: time.Hour}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	short := stint.MustParseLimit("1/s")
	values := rows{}
	take := func(now time.Time, skew time.Duration, limit stint.Limit) stint.Decision {
		t.Helper()
		out := make([]stint.Decision, 1)
		changes, err := storekit.DecideWithSkew([]stint.Group{group(stint.Claim{Key: "a", Limit: limit, Cost: 1})}, values, now, skew, out)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			values[c.Key] = c.Value
		}
		return out[0]
	}
	for _, skew := range []time.Duration{time.Second, 0, -time.Hour} {
		clear(values)
		for range 3 {
			take(noon.Add(30*time.Minute), skew, hour)
		}
		take(noon.Add(time.Hour+time.Second-1), skew, short)
		if d := take(noon.Add(time.Hour-time.Millisecond), skew, hour); d.Allowed != (skew <= 0) {
			t.Errorf("a skew of %v: %+v before the end of the window", skew, d)
		}
		take(noon.Add(time.Hour+2*time.Second), skew, short)
		if limits := storekit.CountLimits(values["a"]); skew > 0 && limits != 1 {
			t.Errorf("%d limits have a state after the skew", limits)
		}
	}
}

// Stores of users keep these bytes: see "Stored state" in docs/compatibility.md.
func TestValuesStayTheSame(t *testing.T) {
	const value = "01" + // the version
		"2a2f2f746f6b656e5f6275636b65743a316d2f746f6b656e5f6275636b65747c36303030303030307c307c" +
		"80e7d6b6a5ea91030b064752550bf000000f4240" +
		"2c2f2f746f6b656e5f6275636b65743a31682f746f6b656e5f6275636b65747c333630303030303030307c307c" +
		"80c6efdba5ea91030b064752550bf00005c81a40"
	r := rows{}
	if _, _, err := r.take(t, noon, group(claim("a", "2/m", 1), claim("a", "100/h", 3))); err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(r["a"]); got != value {
		t.Errorf("the value is %s", got)
	}
}

func TestCorruptValuesFailAlone(t *testing.T) {
	whole := rows{}
	if _, _, err := whole.take(t, noon, group(claim("a", "2/m", 1))); err != nil {
		t.Fatal(err)
	}
	state := slices.Clone(whole["a"])
	state = append(state[:len(state)-1], append([]byte{state[len(state)-1]}, 1, 'x', 0, 1, 'y')...) // another scope, whose state is the byte y
	for name, value := range map[string][]byte{"no version": []byte("hello"), "cut": whole["a"][:5], "long": append([]byte{1}, bytes.Repeat([]byte{0xff}, 12)...)} {
		r := rows{"a": value}
		out, changes, err := r.take(t, noon, group(claim("a", "2/m", 1), claim("b", "2/m", 1)), group(claim("b", "2/m", 1)))
		errs, _ := storekit.PartErrors(err, 2)
		var corrupt *stint.Error
		if errs == nil || errs[1] != nil || !errors.As(errs[0], &corrupt) || corrupt.Kind != stint.KindCorrupt || !out[2].Allowed || out[2].Remaining != 1 {
			t.Errorf("%s: %v %v", name, out, err)
		}
		if len(changes) != 1 || changes[0].Key != "b" {
			t.Errorf("%s: changes %v", name, changes)
		}
		dry := group(claim("a", "2/m", stint.Forget))
		dry.Dry = true
		if _, changes, err := r.take(t, noon, dry); err != nil || len(changes) != 0 {
			t.Errorf("%s: a dry reset: %v %v", name, changes, err)
		}
		if _, _, err := r.take(t, noon, group(claim("a", "2/m", stint.Forget))); err != nil || len(r["a"]) != 0 {
			t.Errorf("%s: a reset: %v %q", name, err, r["a"])
		}
	}
	if out, _, err := (rows{"a": state}).take(t, noon, group(claim("a", "2/m", 0))); err != nil || out[0].Remaining != 1 {
		t.Errorf("beside a strange state: %v %v", out, err)
	}
}

// TestCorruptStateFailsAlone checks a value whose state for one limit cannot be decoded.
func TestCorruptStateFailsAlone(t *testing.T) {
	r := rows{}
	if _, _, err := r.take(t, noon, group(claim("a", "2/m", 1))); err != nil {
		t.Fatal(err)
	}
	limit := claim("a", "2/m", 1).Limit
	state := r["a"][len(r["a"])-12:]
	data, err := limit.DecodeState(state[1:])
	if err != nil || len(limit.AppendState(nil, &data)) != 11 {
		t.Fatalf("the state is not at the end of the value: %v", err)
	}
	r["a"] = append(r["a"][:len(r["a"])-12], 2, 'n', 'o')
	var corrupt *stint.Error
	if _, _, err := r.take(t, noon, group(claim("a", "2/m", 1))); !errors.As(err, &corrupt) || corrupt.Kind != stint.KindCorrupt {
		t.Error(err)
	}
	if _, _, err := r.take(t, noon, group(claim("a", "3/h", 1))); err != nil {
		t.Error(err)
	}
	out, _, err := r.take(t, noon, group(claim("a", "2/m", stint.Forget)), group(claim("a", "2/m", 1)))
	if err != nil || out[1].Remaining != 1 {
		t.Error(out, err)
	}
}

func FuzzDecide(f *testing.F) {
	r := rows{}
	if _, err := storekit.Decide([]stint.Group{group(claim("a", "2/m", 1))}, r, noon, make([]stint.Decision, 1)); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("\x01\x03abc\x05\x02de"))
	f.Fuzz(func(t *testing.T, value []byte) {
		r := rows{"a": value}
		if _, _, err := r.take(t, noon, group(claim("a", "2/m", 1))); err == nil {
			if _, _, err := r.take(t, noon, group(claim("a", "3/h", 1))); err != nil {
				t.Fatalf("%q was read, and %q is not: %v", value, r["a"], err)
			}
		}
	})
}

func TestKeysAreReadOnce(t *testing.T) {
	g := group(claim("a", "2/m", 1), claim("b", "2/m", 1), claim("a", "3/h", 1), claim("", "2/m", 1), stint.Claim{Key: "c"})
	g.Shadows = [][]stint.Claim{{claim("b", "2/m", 1)}, {claim("d", "2/m", 1)}}
	if got := storekit.Keys([]stint.Group{g}); !slices.Equal(got, []string{"a", "b", "d"}) {
		t.Error(got)
	}
}

func TestScopesHaveDifferentTexts(t *testing.T) {
	seen := map[string]stint.Spec{}
	for _, s := range []stint.Spec{
		{Name: "n"}, {Rule: "n"}, {Namespace: "n"}, {Namespace: "n", FromCaller: true}, {FromCaller: true}, {Name: "n", Rule: "n"},
		{Algorithm: stint.FixedWindow}, {Algorithm: stint.FixedWindow, Window: time.Hour},
	} {
		if s.Limit = 1; s.Window == 0 {
			s.Window = time.Minute
		}
		l, err := s.Compile()
		if err != nil {
			t.Fatal(err)
		}
		text := storekit.ScopeOf(l).String()
		if other, ok := seen[text]; ok {
			t.Errorf("%q is the text of %+v and of %+v", text, s, other)
		}
		seen[text] = s
	}
}

// A refund and a charge in one call can leave the bytes of a state as they were, and yet it is now
// that of other numbers, under which it counts for longer.
func TestStateThatIsWrittenAgainExpiresByItsNewLimit(t *testing.T) {
	r := rows{}
	refilled := func(rate string, cost int64) stint.Group {
		limit, err := stint.Spec{Algorithm: stint.TokenBucket, Capacity: 3, RefillRate: rate}.Compile()
		if err != nil {
			t.Fatal(err)
		}
		return group(stint.Claim{Key: "a", Limit: limit, Cost: cost})
	}
	if _, _, err := r.take(t, noon, refilled("1000", 3)); err != nil {
		t.Fatal(err)
	}
	if _, changes, err := r.take(t, noon, refilled("0.001", 0)); err != nil || len(changes) != 0 {
		t.Fatal("a peek wrote", changes, err)
	}
	if _, _, err := r.take(t, noon, refilled("0.001", -3), refilled("0.001", 3)); err != nil {
		t.Fatal(err)
	}
	later := noon.Add(time.Minute)
	if _, _, err := r.take(t, later, group(claim("a", "5/d", 1))); err != nil { // drops states that have ended
		t.Fatal(err)
	}
	if out, _, err := r.take(t, later, refilled("0.001", 1)); err != nil || out[0].Allowed {
		t.Error("its charges are forgotten after a minute", out, err)
	}
}

// A refund that changes nothing, such as any of a leaky bucket, brings the end of a charge forward under no
// numbers, and writes nothing.
func TestRefundOfNothingWritesNothing(t *testing.T) {
	limit := func(s stint.Spec) stint.Limit {
		l, err := s.Compile()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	slow := limit(stint.Spec{Algorithm: stint.LeakyBucket, Limit: 3, Window: time.Hour, Queue: 2})
	fast := limit(stint.Spec{Algorithm: stint.LeakyBucket, Limit: 3_600_000, Window: time.Hour, Queue: 2})
	window := limit(stint.Spec{Algorithm: stint.FixedWindow, Limit: 3, Window: time.Minute})
	of := func(key string, l stint.Limit, cost int64) stint.Group {
		return group(stint.Claim{Key: key, Limit: l, Cost: cost})
	}
	r := rows{}
	if _, _, err := r.take(t, noon, of("a", slow, 3), of("a", fast, -1), of("b", window, 1)); err != nil {
		t.Fatal(err)
	}
	later := noon.Add(2 * time.Minute)
	if _, _, err := r.take(t, later, group(claim("a", "5/d", 1))); err != nil { // drops states that have ended
		t.Fatal(err)
	}
	if out, _, err := r.take(t, later, of("a", slow, 3)); err != nil || out[0].Allowed {
		t.Error("the queue of an hour is empty after two minutes", out, err)
	}
	for _, key := range []string{"b", "c"} { // its window has ended; it was never charged
		out := make([]stint.Decision, 1)
		changes, err := storekit.DecideWithSkew([]stint.Group{of(key, window, -1)}, r, later, time.Hour, out)
		if err != nil || len(changes) != 0 {
			t.Errorf("%s: %v, %v", key, changes, err)
		}
	}
}
