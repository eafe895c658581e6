package storekit_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// A value that was split has its states once it is joined.
func TestSplitValue(t *testing.T) {
	t.Parallel()
	claims := make([]stint.Claim, 2)
	for i, spec := range []stint.Spec{stint.PerSecond(10), stint.PerDay(1)} {
		l, err := spec.Compile()
		if err != nil {
			t.Fatal(err)
		}
		claims[i] = stint.Claim{Key: "k", Limit: l, Cost: 1}
	}
	now := time.UnixMicro(1e15)
	changes, err := storekit.Decide([]stint.Group{{Claims: claims}}, nil, now, make([]stint.Decision, 2))
	if err != nil || len(changes) != 1 {
		t.Fatal(changes, err)
	}
	states, ok := storekit.SplitValue(changes[0].Value)
	if !ok || len(states) != 2 || !bytes.Equal(storekit.JoinValue(states), changes[0].Value) {
		t.Fatalf("%x has %v", changes[0].Value, states)
	}
	if at := states[1].Expires; !at.Equal(now.Add(24*time.Hour)) || states[0].Expires.After(now.Add(time.Second)) {
		t.Errorf("the states expire at %v and %v", states[0].Expires, at)
	}
	if _, ok := storekit.SplitValue(changes[0].Value[:5]); ok {
		t.Error("a part of a value was split")
	}
	if storekit.JoinValue(nil) != nil {
		t.Error("no states have a value")
	}
}
