package stint

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// takeOnce takes a group of one claim with an ID.
func takeOnce(t *testing.T, m *Memory, id string, c Claim) (Decision, error) {
	t.Helper()
	var out [1]Decision
	err := m.TakeGroups(context.Background(), []Group{{Claims: []Claim{c}, Once: &Once{ID: id}}}, out[:])
	if some, ok := errors.AsType[*GroupsError](err); ok {
		err = some.Errs[0]
	}
	return out[0], err
}

func TestIDsHaveABudgetOfTheirOwn(t *testing.T) {
	const room = 1000
	m, clock := newTestMemory(MemoryOptions{OnceBytes: room * sizeOfRemembered(1)})
	c := Claim{Key: "k", Limit: mustCompile(t, Spec{Limit: 1_000_000, Window: time.Hour}), Cost: 1}
	refused := 0
	for i := range 3 * room {
		clock.pass(time.Millisecond)
		d, err := takeOnce(t, m, fmt.Sprint(i), c)
		full, _ := errors.AsType[*Error](err)
		switch {
		case err == nil && d.Allowed:
		case full != nil && full.Code == CodeExhausted && full.Kind == KindOnceBudget && !d.Allowed:
			if refused++; full.RetryAfter <= 0 || full.RetryAfter > RememberFor {
				t.Fatalf("retry after %v", full.RetryAfter)
			}
		default:
			t.Fatal(d, err)
		}
	}
	s := m.Stats()
	if refused != 2*room || s.Once != (OnceStats{Remembered: room, Bytes: room * sizeOfRemembered(1), Refused: 2 * room}) {
		t.Fatalf("%d refused, %+v", refused, s.Once)
	}
	if d, err := takeOnce(t, m, "0", c); err != nil || !d.Repeated {
		t.Errorf("an early ID is forgotten: %v, %v", d, err)
	}
	if d := mustTake(t, m, c); !d.Allowed {
		t.Errorf("a claim without an ID: %+v", d)
	}
	_, err := takeOnce(t, m, "new", c)
	full, _ := errors.AsType[*Error](err)
	clock.pass(full.RetryAfter - time.Microsecond)
	if _, err := takeOnce(t, m, "new", c); err == nil {
		t.Error("admitted a microsecond before the retry time")
	}
	clock.pass(time.Microsecond)
	if d, err := takeOnce(t, m, "new", c); err != nil || !d.Allowed || d.Repeated {
		t.Errorf("after the retry time: %+v, %v", d, err)
	}
	clock.pass(RememberFor)
	for range room/maxExpired + 1 { // each call forgets a few
		if _, err := takeOnce(t, m, "last", c); err != nil {
			t.Fatal(err)
		}
	}
	if s := m.Stats().Once; s.Remembered != 1 || s.Bytes != sizeOfRemembered(1) {
		t.Errorf("after a minute: %+v", s)
	}
	_ = m.Close()
	if s := m.Stats().Once; s.Remembered != 0 || s.Bytes != 0 {
		t.Errorf("after Close: %+v", s)
	}
}

// A call does not wait until a whole table of expired ids is forgotten.
func TestOneCallForgetsFewExpiredIDs(t *testing.T) {
	m, clock := newTestMemory(MemoryOptions{OnceBytes: 1000 * sizeOfRemembered(1)})
	c := Claim{Key: "k", Limit: mustCompile(t, Spec{Limit: 1_000_000, Window: time.Hour}), Cost: 1}
	take := func(id string) {
		if d, err := takeOnce(t, m, id, c); err != nil || !d.Allowed || d.Repeated {
			t.Fatalf("%s: %+v, %v", id, d, err)
		}
	}
	for i := range 1000 {
		take(fmt.Sprint("first", i))
	}
	clock.pass(RememberFor)
	for i := range 30 { // each forgets 64 and adds one
		if n := m.Stats().Once.Remembered; n < 1000-64*i {
			t.Fatalf("%d are left after %d calls", n, i)
		}
		take(fmt.Sprint("first", 999-i)) // which has expired, and is not yet forgotten
	}
	if n := m.Stats().Once.Remembered; n != 30 {
		t.Errorf("%d are left", n)
	}
	wide := Group{Once: &Once{ID: "wide"}}
	for i := range 900 {
		take(fmt.Sprint("second", i))
		wide.Claims = append(wide.Claims, Claim{Key: fmt.Sprint(i), Limit: c.Limit, Cost: 1})
	}
	clock.pass(RememberFor)
	if err := m.TakeGroups(t.Context(), []Group{wide}, make([]Decision, 900)); err != nil {
		t.Errorf("expired ids leave no room for a group of many claims: %v", err)
	}
}

func TestAGroupBeyondTheWholeBudgetOfIDsIsRefused(t *testing.T) {
	m, _ := newTestMemory(MemoryOptions{OnceBytes: 1})
	c := Claim{Key: "k", Limit: mustCompile(t, Spec{Limit: 10, Window: time.Hour}), Cost: 1}
	_, err := takeOnce(t, m, "id", c)
	if full, _ := errors.AsType[*Error](err); full == nil || full.RetryAfter != RememberFor {
		t.Error(err)
	}
}

func TestIDsOutliveAClockThatRunsBack(t *testing.T) {
	m, clock := newTestMemory(MemoryOptions{})
	c := Claim{Key: "k", Limit: mustCompile(t, Spec{Limit: 10, Window: time.Hour}), Cost: 1}
	for _, pass := range []time.Duration{0, -time.Hour, 0, 30 * time.Second} {
		clock.pass(pass)
		id := fmt.Sprint(clock.now() < wallStart)
		if _, err := takeOnce(t, m, id, c); err != nil {
			t.Fatal(err)
		}
		if d, err := takeOnce(t, m, id, c); err != nil || !d.Repeated {
			t.Errorf("after %v: %+v, %v", pass, d, err)
		}
	}
	if d := mustTake(t, m, Claim{Key: "k", Limit: c.Limit}); d.Remaining != 8 {
		t.Errorf("%+v", d)
	}
}

// The digests must not change between versions: nodes of two versions share a store.
func TestDigestsAreStable(t *testing.T) {
	g := Group{
		Claims: []Claim{{Key: "k", Limit: mustCompile(t, Spec{Rule: "r", Limit: 10, Window: time.Hour}), Cost: 1}},
		Once:   &Once{ID: "id", Body: [16]byte{1}},
	}
	if got := fmt.Sprintf("%x %x", g.Once.Digest(), g.Digest()); got != "a56145270ce6b3bebd1dd012b7394867 0f467bfa045a915a0d43546ed7ed5e76" {
		t.Error(got)
	}
	other := g
	other.Claims = []Claim{g.Claims[0]}
	other.Claims[0].Policy.OnFailure = FailClosed
	if other.Digest() != g.Digest() {
		t.Error("a policy makes another group")
	}
	for name, change := range map[string]func(c *Claim){
		"key":   func(c *Claim) { c.Key = "l" },
		"limit": func(c *Claim) { c.Limit = mustCompile(t, Spec{Rule: "r", Limit: 11, Window: time.Hour}) },
		"rule":  func(c *Claim) { c.Limit = mustCompile(t, Spec{Rule: "s", Limit: 10, Window: time.Hour}) },
		"cost":  func(c *Claim) { c.Cost = 2 },
		"extra": func(c *Claim) { c.Extra = 1 },
		"delay": func(c *Claim) { c.MaxDelay = time.Second },
		"at":    func(c *Claim) { c.At = 1 },
		"set":   func(c *Claim) { c.AnyOf = 1 },
	} {
		other.Claims[0] = g.Claims[0]
		if change(&other.Claims[0]); other.Digest() == g.Digest() {
			t.Errorf("another %s makes no other group", name)
		}
	}
}

func BenchmarkMemoryOnce(b *testing.B) {
	m := NewMemory(MemoryOptions{OnceBytes: 1 << 40})
	c := Claim{Key: "k", Limit: MustParseLimit("100000000/s"), Cost: 1}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		var out [1]Decision
		if err := m.TakeGroups(b.Context(), []Group{{Claims: []Claim{c}, Once: &Once{ID: fmt.Sprint(i)}}}, out[:]); err != nil {
			b.Fatal(err)
		}
	}
}
