package topkeys

import (
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// Claims of rules in shadow mode count if they would be denied: once for a rule, and not as
// denied. Dry groups and peeks do not count.
func TestShadowsAreCountedApart(t *testing.T) {
	limit, other := ruleLimit(t, "api"), ruleLimit(t, "other")
	second, err := stint.Spec{Rule: "api", Name: "second", Limit: 1, Window: time.Second}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	var shadows Shadows
	sketch := New(0)
	s := NewStore(answering{}, sketch, &shadows) // denies everything
	claim := func(l stint.Limit, key string, cost int64) stint.Claim {
		return stint.Claim{Key: key, Limit: l, Cost: cost}
	}
	groups := []stint.Group{
		{Claims: []stint.Claim{claim(limit, "k", 1)}, Shadows: [][]stint.Claim{{claim(limit, "s", 1), claim(second, "s", 1)}, {claim(other, "s", 1)}}},
		{Shadows: [][]stint.Claim{{claim(other, "s", 1)}, {}}},
		{Shadows: [][]stint.Claim{{claim(other, "peek", 0)}}},
		{Shadows: [][]stint.Claim{{claim(other, "dry", 1)}}, Dry: true},
	}
	take := func() {
		t.Helper()
		if err := s.TakeGroups(t.Context(), groups, make([]stint.Decision, 7)); err != nil {
			t.Fatal(err)
		}
	}
	take()
	if got := shadows.Top(Minute); len(got.Items) != 0 || got.Items == nil {
		t.Errorf("%+v before the start", got)
	}
	shadows.Start()
	take()
	shadows.EndInterval(time.Second)
	take()
	got := map[Key]bool{}
	for _, item := range shadows.Top(Minute).Items {
		got[Key{item.Rule, item.Key, item.Count}] = true
	}
	if len(got) != 2 || !got[Key{"api", "…", 2}] || !got[Key{"other", "…", 4}] {
		t.Errorf("%v", got)
	}
	if top := sketch.Top(Minute, true); len(top.Items) != 1 || top.Items[0].Count != 3 {
		t.Errorf("%+v", top)
	}
}
