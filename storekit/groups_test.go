package storekit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

func TestEachGroupCollectsErrors(t *testing.T) {
	three := make([]stint.Group, 3)
	for i := range three {
		three[i] = group(claim("a", "9/m", 1))
		three[i].Shadows = [][]stint.Claim{{claim("b", "9/m", 1)}}
	}
	lost, bad := errors.New("lost"), errors.New("bad")
	out := make([]stint.Decision, 6)
	calls := 0
	err := storekit.EachGroup(three, out, func(g []stint.Group, own []stint.Decision) error {
		if len(g) != 1 || &g[0] != &three[calls] || &own[0] != &out[2*calls] || len(own) != 2 {
			t.Error("group", calls, "got the places of another")
		}
		calls++
		return []error{nil, lost, &stint.GroupsError{Errs: []error{nil, bad}}}[calls-1]
	})
	errs, whole := storekit.PartErrors(err, 6)
	for i, want := range []error{nil, nil, lost, lost, nil, bad} {
		if whole != nil || errs[i] != want { //nolint:errorlint // the same errors are wanted
			t.Errorf("part %d: %v, want %v", i, errs[i], want)
		}
	}
	if err := storekit.EachGroup(three[:1], out[:2], func([]stint.Group, []stint.Decision) error { return lost }); !errors.Is(err, lost) {
		t.Error(err)
	}
	if err := storekit.EachGroup(three, out[:2], nil); !errors.Is(err, stint.CodeInvalid) {
		t.Error(err)
	}
}

func TestMapClaimsLeavesTheGroupsAlone(t *testing.T) {
	g := group(claim("a", "9/m", 1))
	g.Dry = true
	g.Shadows = [][]stint.Claim{{claim("b", "9/m", 1)}, {claim("c", "9/m", 1)}}
	groups := []stint.Group{g}
	changed := storekit.MapClaims(groups, func(c *stint.Claim) { c.Key += "!" })
	if !changed[0].Dry || changed[0].Claims[0].Key != "a!" || changed[0].Shadows[1][0].Key != "c!" || g.Claims[0].Key != "a" || g.Shadows[1][0].Key != "c" {
		t.Error(changed, groups)
	}
}

func TestEndedSaysWhatIsKnown(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, end := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer end()
	if e := storekit.Ended(canceled, false); e.Code != stint.CodeCanceled || e.KindName() != "canceled" || !errors.Is(e, context.Canceled) {
		t.Error(e)
	}
	if e := storekit.Ended(late, true); e.Code != stint.CodeTimeout || e.KindName() != "timeout" || !errors.Is(e, context.DeadlineExceeded) {
		t.Error(e)
	}
}
