package impact

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// newFleet returns nodes that share a store, a clock and a secret.
func newFleet(t *testing.T, rules string, nodes int) (all []*live) {
	t.Helper()
	first := newLive(t, rules)
	for range nodes {
		l := &live{t: t, set: first.set, store: first.store}
		l.sample = New(func() time.Time { return first.time })
		l.sample.Join("the secret of the fleet")
		all = append(all, l)
	}
	all[0].time, all = first.time, append(all, first)
	return all
}

func (l *live) sealed(size int) []byte {
	l.t.Helper()
	text, err := l.sample.Seal(size)
	if err != nil {
		l.t.Fatal(err)
	}
	return text
}

// replayWith replays the samples of this node and of others.
func (l *live) replayWith(rules string, sealed ...[]byte) *Result {
	l.t.Helper()
	parts, err := l.sample.Open(sealed)
	if err != nil {
		l.t.Fatal(err)
	}
	r, err := l.sample.Replay(l.t.Context(), l.set, parsed(l.t, rules), parts...)
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

// A caller that spreads its requests over the nodes stays below a limit on each of them, and is
// above it on all together.
func TestSamplesOfSeveralNodesAreReplayedAsOne(t *testing.T) {
	fleet := newFleet(t, "rules: [{id: r, limit: 100, window: 1h}]", 3)
	clock := fleet[3]
	for range 30 {
		for _, node := range fleet[:3] {
			for caller := range 4 {
				node.request(fmt.Sprint("sk_live_customer_", caller))
			}
			clock.time = clock.time.Add(time.Millisecond)
		}
	}
	const half = "rules: [{id: r, limit: 45, window: 24h}]"
	if alone := fleet[0].replay(half); alone.Denied != 0 || alone.Requests != 120 || alone.Nodes != 1 {
		t.Errorf("alone: %+v", alone)
	}
	b, c := fleet[1].sealed(MaxSealed), fleet[2].sealed(MaxSealed)
	for _, order := range [][][]byte{{b, c}, {c, b}} {
		got := fleet[0].replayWith(half, order...)
		if got.Requests != 360 || got.Allowed != 360 || got.Denied != 180 || got.Callers != 4 || got.OneIn != 1 || got.Nodes != 3 || got.Seen != 360 {
			t.Errorf("together: %+v", got)
		}
	}
	if same := fleet[0].replayWith("rules: [{id: r, limit: 100, window: 1h}]", b, c); same.Denied != 0 || same.Admitted != 0 {
		t.Errorf("the same rules: %+v", same)
	}
	for _, sealed := range [][]byte{b, c} {
		if bytes.Contains(sealed, []byte("customer")) || bytes.Contains(sealed, []byte("api_key")) {
			t.Error("a sealed sample shows what is in it")
		}
	}
}

// Every attribute reaches the node that replays, because new rules may read any of them.
func TestOverridesOfNewRulesMatchRequestsOfOtherNodes(t *testing.T) {
	const inForce = `rules: [{id: r, limit: 100, window: 1h}]`
	fleet := newFleet(t, inForce, 2)
	for range 20 {
		fleet[1].request("sk_live_important")
		fleet[1].request("sk_live_else")
	}
	got := fleet[0].replayWith(`rules: [{id: r, limit: 5, window: 1h, override: {sk_live_important: {limit: 100}}}]`, fleet[1].sealed(MaxSealed))
	if got.Denied != 15 || got.Callers != 1 {
		t.Errorf("%+v", got)
	}
	if list := fleet[0].replayWith("deny: [sk_live_important]\nrules: []", fleet[1].sealed(MaxSealed)); list.Denied != 20 {
		t.Errorf("%+v", list)
	}
}

// The node with the fewest callers decides which callers of all nodes count: a caller has all of
// its requests in the merged sample, or none.
func TestTheGreatestMaskOfAllNodesSelectsTheCallers(t *testing.T) {
	fleet := newFleet(t, "rules: [{id: r, limit: 1000000/s}]", 2)
	const callers, each = 1000, 60
	for range each {
		for i := range callers {
			fleet[0].request(fmt.Sprint("caller", i)) // a flood, of which the node keeps few callers
			if i%10 == 0 {
				fleet[1].request(fmt.Sprint("caller", i))
			}
		}
		fleet[2].time = fleet[2].time.Add(10 * time.Millisecond)
	}
	for i, node := range fleet[:2] {
		got := node.replayWith("rules: [{id: r, limit: 1000000/s}]", fleet[1-i].sealed(MaxSealed))
		counts := map[string]int{}
		all := node.sample.merged(mustOpen(t, node, fleet[1-i].sealed(MaxSealed)))
		for j := range all.events {
			key, _ := all.events[j].Attribute("api_key")
			counts[key]++
		}
		if got.OneIn < 4 || len(counts) < 10 || got.OneIn != all.mask+1 {
			t.Errorf("%d callers, %+v", len(counts), got)
		}
		for key, n := range counts {
			if want := each * (1 + btoi(strings.HasSuffix(key, "0"))); n != want {
				t.Errorf("%s: %d requests, want %d", key, n, want)
			}
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func mustOpen(t *testing.T, l *live, sealed ...[]byte) []*Part {
	t.Helper()
	parts, err := l.sample.Open(sealed)
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

// A small sealed sample has fewer callers or, of a single one, less time.
func TestASealedSampleIsBounded(t *testing.T) {
	for _, callers := range []int{1, 500} {
		fleet := newFleet(t, "rules: [{id: r, limit: 1000000/s}]", 2)
		for i := range 5000 {
			fleet[1].request(fmt.Sprint("caller", i%callers))
			fleet[2].time = fleet[2].time.Add(10 * time.Millisecond)
		}
		const most = 200_000
		began := fleet[1].sample.began
		sealed := fleet[1].sealed(most)
		p := mustOpen(t, fleet[0], sealed)[0]
		if len(sealed) > most || len(p.events) < 500 || callers == 1 && p.since == began || callers > 1 && (p.since > began || p.mask == 0) {
			t.Errorf("%d callers: %d bytes, %d events, mask %b, since %d", callers, len(sealed), len(p.events), p.mask, p.since)
		}
		if got := fleet[0].replayWith("rules: []", sealed); got.Requests != len(p.events) || got.Seen != 5000 {
			t.Errorf("%d callers: %+v", callers, got)
		}
		if none := mustOpen(t, fleet[0], fleet[1].sealed(1))[0]; len(none.events) > 0 {
			t.Errorf("%d events in one byte", len(none.events))
		}
	}
}

// Requests of a time of which one node has lost its own would look like all requests of a caller.
func TestAMergedSampleBeginsWhereEveryNodeHasAll(t *testing.T) {
	fleet := newFleet(t, "rules: [{id: r, limit: 1000/s}]", 2)
	clock := fleet[2]
	for range 10 {
		fleet[0].request("a")
		clock.time = clock.time.Add(time.Second)
	}
	fleet[1].request("a") // it is lost
	fleet[1].sample.Join("the secret of the fleet")
	for range 5 {
		fleet[0].request("a")
		fleet[1].request("a")
		clock.time = clock.time.Add(time.Second)
	}
	if got := fleet[0].replayWith("rules: []", fleet[1].sealed(MaxSealed)); got.Requests != 10 {
		t.Errorf("%+v", got)
	}
	started := &live{t: t, sample: New(fleet[0].sample.now)} // a node that has just started has lost nothing
	started.sample.Join("the secret of the fleet")
	if got := fleet[0].replayWith("rules: []", started.sealed(MaxSealed)); got.Requests != 15 {
		t.Errorf("%+v", got)
	}
}

func TestOnlyNodesOfTheFleetOpenSamples(t *testing.T) {
	fleet := newFleet(t, "rules: [{id: r, limit: 10/s}]", 2)
	fleet[1].request("a")
	sealed, own := fleet[1].sealed(MaxSealed), fleet[0].sealed(MaxSealed)
	other := New(nil)
	if _, err := other.Seal(MaxSealed); !errors.Is(err, ErrAlone) {
		t.Error(err)
	}
	if _, err := other.Open([][]byte{sealed}); !errors.Is(err, ErrAlone) {
		t.Error(err)
	}
	if parts, err := other.Open(nil); err != nil || len(parts) != 0 {
		t.Error(err)
	}
	other.Join("another secret")
	if _, err := other.Open([][]byte{sealed}); err == nil || !strings.Contains(err.Error(), "sample 1 is of a node with which this node shares no secret") {
		t.Error(err)
	}
	forged := bytes.Clone(sealed)
	forged[len(forged)/2] ^= 1
	for want, samples := range map[string][][]byte{
		"sample 2 is of a node whose requests count already": {sealed, fleet[1].sealed(MaxSealed)},
		"sample 1 is of a node whose requests count already": {own},
		"sample 2 is of a node with which":                   {sealed, forged},
		"sample 1 is of a node with which":                   {[]byte(sealedAs)},
		"sample 1 is no sealed sample":                       {nil},
		"sample 1 is of another version of Stint":            {bytes.Replace(sealed, []byte("sample 1"), []byte("sample 2"), 1)},
	} {
		if _, err := fleet[0].sample.Open(samples); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	var none *Sample
	none.Join("a secret")
}

// A request that was decided before its node joined the others has the hash of another secret.
func TestARequestOfAnotherSecretIsNotKept(t *testing.T) {
	l := newLive(t, "rules: [{id: r, limit: 10/s}]")
	l.request("a")
	before := l.sample.secrets.Load()
	l.sample.Join("a secret")
	o, err := l.set.Decide(t.Context(), l.store, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	l.sample.keep(nil, nil, 1, 0, before, &o)
	if got := l.replay("rules: []"); got.Requests != 0 {
		t.Errorf("%+v", got)
	}
	l.time = l.time.Add(time.Millisecond)
	l.request("a")
	if got := l.replay("rules: []"); got.Requests != 1 {
		t.Errorf("%+v", got)
	}
}

// A sample that is brought again later lacks the requests since then, and that of a node with another
// time has them at wrong times.
func TestASampleOfAnotherTimeIsRefused(t *testing.T) {
	fleet := newFleet(t, "rules: [{id: r, limit: 1000/s}]", 2)
	clock := fleet[2]
	for range 10 {
		fleet[0].request("a")
		fleet[1].request("a")
		clock.time = clock.time.Add(time.Second)
	}
	sealed := fleet[1].sealed(MaxSealed)
	for range 10 {
		fleet[0].request("a")
		clock.time = clock.time.Add(time.Second)
	}
	if got := fleet[0].replayWith("rules: []", sealed); got.Requests != 21 { // sealing leaves room of a second
		t.Errorf("%+v: the sample does not end where the first one was sealed", got)
	}
	clock.time = clock.time.Add(maxApart - 10*time.Second)
	mustOpen(t, fleet[0], sealed)
	now := clock.time
	for want, passed := range map[string]time.Duration{
		"sample 1 was sealed 1m1s before the time of this node": time.Second,
		"sample 1 was sealed 1m1s after the time of this node":  -2*maxApart - time.Second,
	} {
		clock.time = now.Add(passed)
		if _, err := fleet[0].sample.Open([][]byte{sealed}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A mask drops requests from the moment at which it grows.
func TestAMaskThatHasJustGrownCounts(t *testing.T) {
	l := newLive(t, "rules: [{id: r, limit: 1000000/s}]")
	for i := 0; l.sample.mask.Load() == 0; i++ {
		l.request(fmt.Sprint("caller", i%5000))
	}
	if b, _ := l.sample.recent(); b.mask != 1 || len(b.events) > burst*2/3 {
		t.Errorf("mask %d, %d events", b.mask, len(b.events))
	}
	l.time = l.time.Add(2 * Window)
	if b, _ := l.sample.recent(); b.mask != 0 {
		t.Errorf("mask %d of a flood that is over", b.mask)
	}
}
