package decide

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// refusing is a store that fails some of its calls, and notes the size of each.
type refusing struct {
	stint.Store
	sizes []int
	fails map[int]error // by number of the call
}

func (r *refusing) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	r.sizes = append(r.sizes, len(groups))
	if err := r.fails[len(r.sizes)-1]; err != nil {
		return err
	}
	return r.Store.TakeGroups(ctx, groups, out)
}

// Many groups with ids are no call that lasts longer than a store's deadline. The errors of
// a call are those of its own groups.
func TestManyGroupsWithIDsAreSeveralCalls(t *testing.T) {
	limit, err := stint.PerHour(1000).Compile()
	if err != nil {
		t.Fatal(err)
	}
	whole := errors.New("the store is gone")
	store := &refusing{Store: stint.NewMemory(stint.MemoryOptions{}), fails: map[int]error{1: whole}}
	d := New(Options{Store: store})
	groups := make([]stint.Group, 0, 200)
	for i := range cap(groups) {
		g := stint.Group{Claims: []stint.Claim{{Key: fmt.Sprint("k", i), Limit: limit, Cost: 1}}}
		if i >= 10 {
			g.Once = &stint.Once{ID: fmt.Sprint("id", i)}
		}
		if i%2 == 0 {
			g.Shadows = [][]stint.Claim{{{Key: "shadow", Limit: limit, Cost: 1}}}
		}
		groups = append(groups, g)
	}
	groups[150].Once.ID = "" // which fails this group alone
	claims, _ := stint.Sizes(groups)
	out := make([]stint.Decision, claims)
	errs, err := d.TakeGroups(t.Context(), time.Now(), "", groups, out)
	if err != nil || fmt.Sprint(store.sizes) != "[74 64 62]" {
		t.Fatalf("%v, calls of %v groups", err, store.sizes)
	}
	part, place := 0, 0
	for i := range groups {
		claims, parts := stint.Sizes(groups[i : i+1])
		if lost := i >= 74 && i < 138; errors.Is(errs[part], whole) != lost || out[place].Allowed == (lost || i == 150) {
			t.Errorf("group %d: %+v, %v", i, out[place], errs[part])
		}
		if i == 150 && stint.CodeOf(errs[part]) != stint.CodeInvalid {
			t.Errorf("group %d: %v", i, errs[part])
		}
		part, place = part+parts, place+claims
	}
}
