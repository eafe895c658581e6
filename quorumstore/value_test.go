package quorumstore

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/storekit"
)

// wideValue returns the value of an item with a state of the short and of the long limit.
func wideValue(t *testing.T) (value []byte, at time.Time) {
	t.Helper()
	servers := newMemoryServers(3)
	s := newTestStore(t, servers)
	n := &simNode{sim: &simulation{}, store: s}
	if !n.take(0, "k", true, true).allowed {
		t.Fatal(n.sim.history)
	}
	loads := []cas.Load{{Key: "=k"}}
	at, err := newBackend(servers, backendOptions{}).Load(context.Background(), loads)
	if err != nil {
		t.Fatal(err)
	}
	return loads[0].Item.Value, at
}

// A state whose limit got another class is in two parts until both are written. The newer one
// counts, and one of a class that the writer knows too little of is not written.
func TestANewerPartWins(t *testing.T) {
	t.Parallel()
	value, at := wideValue(t)
	parts := divide(value, at, maxClass, nil)
	if len(parts) != 3 || parts[0].class > 2 || parts[1].class > 17 || parts[2].class != maxClass {
		t.Fatalf("%+v", parts)
	}
	for i := range parts {
		parts[i].ballot = ballot{1, 1}
	}
	same, above, ok := unite(parts, maxClass)
	_, want, _ := cas.SplitItem(value)
	if _, got, _ := cas.SplitItem(same); !ok || len(above) > 0 || !bytes.Equal(got, want) {
		t.Errorf("%x became %x", value, same)
	}
	mixed := append([]part{{class: parts[0].class, ballot: ballot{2, 1}, data: parts[0].data}}, part{class: 20, ballot: ballot{1, 1}, data: parts[0].data}, parts[1], parts[2])
	both, above, ok := unite(mixed, 5)
	_, packed, _ := cas.SplitItem(both)
	states, _ := storekit.SplitValue(packed)
	if !ok || len(states) != 2 || len(above) != 1 {
		t.Fatalf("%d states, %d above", len(states), len(above))
	}
	if written := divide(both, at, 5, above); len(written) != 2 || written[1].class != 5 || !bytes.Equal(written[0].data, parts[0].data) {
		t.Errorf("%+v", written)
	}
}
