package crossgroup_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/crossgroup"
)

func limit(t *testing.T, a stint.Algorithm, n int64) stint.Limit {
	t.Helper()
	l, err := stint.Spec{Name: a.String(), Algorithm: a, Limit: n, Window: time.Minute}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A set of alternatives in several places is cut into its claims, and one in a single place
// is not.
func TestGroupIsCutByPlace(t *testing.T) {
	l := limit(t, stint.TokenBucket, 3)
	var claims []stint.Claim
	for i, set := range []uint8{0, 1, 0, 1, 2, 2} {
		claims = append(claims, stint.Claim{Key: string(rune('a' + i)), Limit: l, Cost: 1, AnyOf: set})
	}
	c := crossgroup.New(claims, make([]stint.Decision, 6), []int{7, 7, 8, 8, 7, 7})
	want := [][]int{{0, 4, 5}, {1}, {2}, {3}}
	if len(c.Units) != len(want) {
		t.Fatalf("%d units", len(c.Units))
	}
	for i := range want {
		if got := c.PlacesOf(i); !slices.Equal(got, want[i]) || c.Scattered(i) != (i == 1 || i == 3) || len(c.OutOf(i)) != len(want[i]) {
			t.Errorf("unit %d has the claims %v, scattered: %v", i, got, c.Scattered(i))
		}
	}
	c.Out[3].Remaining = 5
	if c.Gather(); c.Answers[1].Remaining != 5 {
		t.Error(c.Answers)
	}
}

// In an admitted unit, refunds and denied alternatives charge nothing, whatever their
// cost.
func TestOnlyChargesAreRefunded(t *testing.T) {
	slow, fast := limit(t, stint.TokenBucket, 3), limit(t, stint.FixedWindow, 1_000_000_000)
	c := crossgroup.New([]stint.Claim{
		{Key: "back", Limit: slow, Cost: -1}, {Key: "peek", Limit: slow},
		{Key: "or", Limit: slow, Cost: stint.MaxCost, AnyOf: 1}, {Key: "either", Limit: fast, Cost: stint.MaxCost, AnyOf: 1},
	}, make([]stint.Decision, 4), make([]int, 4))
	copy(c.Out, []stint.Decision{{Allowed: true}, {Allowed: true}, {}, {Allowed: true, At: 7, Remaining: 1}})
	refunds, from := c.Charged(0)
	if len(refunds) != 1 || len(from) != 1 || from[0] != 3 || refunds[0].Claims[0].Cost != -stint.MaxCost || refunds[0].Claims[0].At != 7 {
		t.Errorf("%+v, %v", refunds, from)
	}
	c.Gather()
	if c.Refunded(from, []stint.Decision{{}}); c.Answers[3].Remaining != 1 {
		t.Error("a refund that failed changed the answer:", c.Answers[3])
	}
	if c.Refunded(from, []stint.Decision{{Allowed: true, Remaining: 9}}); c.Answers[3].Remaining != 9 {
		t.Error(c.Answers[3])
	}
	c.Out[1].Allowed = false
	if refunds, _ := c.Charged(0); refunds != nil {
		t.Errorf("a denied unit: %+v", refunds)
	}
}

func TestLeakyBucketsAndRefundsCannotBeRefunded(t *testing.T) {
	bucket, leaky := stint.Claim{Limit: limit(t, stint.TokenBucket, 3), Cost: 1}, stint.Claim{Limit: limit(t, stint.LeakyBucket, 3), Cost: 1}
	refund, peek := bucket, leaky
	refund.Cost, peek.Cost = -1, 0
	for want, claims := range map[bool][]stint.Claim{true: {bucket, peek}, false: {bucket, leaky}} {
		if crossgroup.Returnable(claims) != want {
			t.Error(claims)
		}
	}
	if crossgroup.Returnable([]stint.Claim{refund}) {
		t.Error("a refund")
	}
}
