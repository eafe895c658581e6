package grpcapi

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// wireModel decides the groups of a message one by one, as the protocol describes them: a
// shadow is charged only if the nearest group before it that is no shadow was admitted.
// Shadows before any group are charged.
type wireModel struct {
	store  stint.Store
	limit  stint.Limit
	denied bool // of the nearest group
}

func (w *wireModel) take(t *testing.T, keys []string, shadow bool) ([]stint.Decision, error) {
	t.Helper()
	g := stint.Group{Dry: shadow && w.denied}
	for _, key := range keys {
		g.Claims = append(g.Claims, stint.Claim{Key: key, Limit: w.limit, Cost: 1})
	}
	out := make([]stint.Decision, len(keys))
	err := w.store.TakeGroups(t.Context(), []stint.Group{g}, out)
	if !shadow {
		_, d := stint.Combine(g.Claims, out)
		w.denied = err != nil || !d.Allowed
	}
	return out, err
}

// drawKeys returns up to two keys of few. Some are invalid or equal.
func drawKeys(r *rand.Rand, scope int) (keys []string) {
	for range r.IntN(3) {
		if r.IntN(10) == 0 {
			keys = append(keys, "")
		} else {
			keys = append(keys, fmt.Sprint(scope, "/", r.IntN(4)))
		}
	}
	return keys
}

func TestShadowsOfAnyMessageAreDecidedAsItSays(t *testing.T) {
	r, random := run(t, Options{}), rand.New(rand.NewPCG(1, 2))
	model := wireModel{store: stint.NewMemory(stint.MemoryOptions{Clock: r.time})}
	model.limit, _ = stint.Spec{Limit: 3, Window: time.Minute, FromCaller: true}.Compile()
	for round := range 500 {
		m := &stintv1.TakeBatchRequest{Limits: []*stintv1.Limit{perMinute(3)}}
		var want []stint.Decision
		var failed []uint32
		model.denied = false
		for i := range 1 + random.IntN(12) {
			keys, shadow := drawKeys(random, round/10), random.IntN(2) == 0
			m.Keys, m.GroupSizes, m.Shadow = append(m.Keys, keys...), append(m.GroupSizes, uint32(len(keys))), append(m.Shadow, shadow)
			out, err := model.take(t, keys, shadow)
			if err != nil {
				failed = append(failed, uint32(i))
			}
			want = append(want, out...)
		}
		got, err := r.TakeBatch(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		var failures []uint32
		for _, f := range got.GetFailures() {
			failures = append(failures, f.GetIndex())
		}
		if !slices.Equal(failures, failed) {
			t.Fatalf("%v: failures of groups %v, want %v", m, failures, failed)
		}
		for i := range want {
			if d := decisionAt(got.GetDecisions(), i); d.GetAllowed() != want[i].Allowed || d.GetRemaining() != want[i].Remaining {
				t.Fatalf("%v: claim %d: %v, want %+v", m, i, d, want[i])
			}
		}
	}
}
