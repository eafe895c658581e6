package ruleset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint/rule"
)

// canaryFleet is a source of several nodes in memory.
type canaryFleet struct {
	Memory

	mu    sync.Mutex
	nodes map[string]Node // guarded by mu
}

func (f *canaryFleet) Announce(_ context.Context, n Node) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.nodes == nil {
		f.nodes = map[string]Node{}
	}
	f.nodes[n.ID] = n
	return nil
}

func (*canaryFleet) Secret(_ context.Context, proposed string) (string, error) { return proposed, nil }

func (f *canaryFleet) Nodes(context.Context) (all []Node, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		all = append(all, n)
	}
	return all, nil
}

// canaryNode is a node of a fleet whose counts the test sets.
type canaryNode struct {
	*Manager

	mu     sync.Mutex
	counts *CanaryCounts // guarded by mu
	obeyed string        // guarded by mu; revision of the emergency
	ends   []CanaryReason
}

// emergency sets the revision of the emergency that the node obeys, "" for none.
func (n *canaryNode) emergency(revision string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.obeyed = revision
}

// tell sets the counts of the node.
func (n *canaryNode) tell(c CanaryCounts) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counts = &c
}

func newCanaryNode(t *testing.T, id string, source Source, log *bytes.Buffer) *canaryNode {
	t.Helper()
	n := &canaryNode{}
	n.Manager = NewManager(Options{
		Source: source, OnSet: func(*rule.Set, Version) {}, Logger: slog.New(slog.NewTextHandler(log, nil)),
		Node: func() Node {
			n.mu.Lock()
			defer n.mu.Unlock()
			return Node{ID: id, Canary: n.counts, Emergency: n.obeyed}
		},
		OnCanaryEnd: func(_ bool, why CanaryReason) { n.ends = append(n.ends, why) },
	})
	if err := n.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

const (
	oldRules = "rules: [{id: a, limit: 10, window: 60}]"
	newRules = "rules: [{id: a, limit: 5, window: 60}]"
)

func canaryFile(text string) []rule.File {
	return []rule.File{{Name: "rules.yaml", Data: []byte(text)}}
}

// beginCanary publishes the old rules as version 1 and a canary of the new ones as version 2.
func beginCanary(t *testing.T, m *Manager, o CanaryOptions) Version {
	t.Helper()
	if _, err := m.Publish(t.Context(), Change{Files: canaryFile(oldRules)}); err != nil {
		t.Fatal(err)
	}
	v, err := m.Publish(t.Context(), Change{Files: canaryFile(newRules), After: 1, Canary: &o, Author: "Ann"})
	if err != nil || v.Number != 2 || string(v.Files[0].Data) != oldRules || v.Canary.Control != 1 || string(v.Canary.Files[0].Data) != newRules {
		t.Fatalf("%+v, %v", v, err)
	}
	return v
}

func TestACanaryHasTheOldRulesForTheOthers(t *testing.T) {
	n := newCanaryNode(t, "n", &canaryFleet{}, &bytes.Buffer{})
	v := beginCanary(t, n.Manager, CanaryOptions{Share: 0.05, AbortAbove: 0.05})
	if set, on := n.Current(); set.Rule("a").Effective(set)[0].Limits[0].Max() != 10 || on.Canary == nil {
		t.Errorf("%+v is in force", on)
	}
	if trial, kept, err := v.Trial(); err != nil || len(kept) > 0 || trial.Rule("a").Effective(trial)[0].Limits[0].Max() != 5 {
		t.Errorf("%v, %v", kept, err)
	}
	for name, c := range map[string]Change{
		"a change":        {Files: canaryFile(newRules), After: 2},
		"a second canary": {Files: canaryFile(newRules), After: 2, Canary: &CanaryOptions{Share: 0.1}},
		"a forced change": {Files: canaryFile(newRules), Anyway: true},
	} {
		if _, err := n.Publish(t.Context(), c); !isCanary(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, newest, err := n.Base(t.Context()); !isCanary(err) || newest.Number != 2 {
		t.Errorf("%+v, %v", newest, err)
	}
	if _, err := n.EndCanary(t.Context(), CanaryEnd{Number: 1}); !isGone(err) || !strings.Contains(err.Error(), "version 2") {
		t.Error(err)
	}
	if p, err := n.EndCanary(t.Context(), CanaryEnd{Number: 2, Promote: true}); err != nil || p.Number != 3 || string(p.Files[0].Data) != newRules || p.Canary != nil {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := n.EndCanary(t.Context(), CanaryEnd{Number: 2}); !isGone(err) || !strings.Contains(err.Error(), "no canary is on") {
		t.Error(err)
	}
}

func isCanary(err error) bool { _, ok := errors.AsType[*CanaryError](err); return ok }

func isGone(err error) bool { _, ok := errors.AsType[*CanaryGoneError](err); return ok }

func TestCanariesThatCannotBe(t *testing.T) {
	alone := newCanaryNode(t, "n", &Memory{}, &bytes.Buffer{})
	if _, err := alone.Publish(t.Context(), Change{Files: canaryFile(newRules), Canary: &CanaryOptions{Share: 0.1}}); !errors.Is(err, ErrNoCanary) {
		t.Errorf("without a shared source: %v", err)
	}
	n := newCanaryNode(t, "n", &canaryFleet{}, &bytes.Buffer{})
	for want, c := range map[string]Change{
		"canary: 0 is not a share":               {Files: canaryFile(newRules), Canary: &CanaryOptions{}},
		"canary: 1 is not a share":               {Files: canaryFile(newRules), Canary: &CanaryOptions{Share: 1}},
		"soak: 1ms is out of range":              {Files: canaryFile(newRules), Canary: &CanaryOptions{Share: 0.1, Soak: time.Millisecond}},
		"abort-above: 2 is not a share":          {Files: canaryFile(newRules), Canary: &CanaryOptions{Share: 0.1, AbortAbove: 2}},
		"has no key \"limt\"":                    {Files: canaryFile("rules: [{id: a, limt: 5}]"), Canary: &CanaryOptions{Share: 0.1}},
		"ipv6_prefix: a canary cannot change it": {Files: canaryFile("ipv6_prefix: 48\n" + newRules), Canary: &CanaryOptions{Share: 0.1}},
	} {
		if _, err := n.Publish(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if listed, err := n.History(t.Context(), 1); err != nil || len(listed) > 0 {
		t.Errorf("%v, %v: something was published", listed, err)
	}
}

func TestStoredCanariesAreChecked(t *testing.T) {
	v, err := NewCanary(Version{Number: 1, Hash: HashOf(canaryFile(oldRules)), Files: canaryFile(oldRules)},
		Version{Number: 2, Hash: HashOf(canaryFile(newRules)), Files: canaryFile(newRules)}, CanaryOptions{Share: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	data, err := Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(data); err != nil {
		t.Error(err)
	}
	for old, forged := range map[string]string{"limit: 5": "limit: 6", `"share":0.1`: `"share":7`} {
		if _, err := Decode(bytes.Replace(data, []byte(old), []byte(forged), 1)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", forged, err)
		}
	}
}

func TestJudge(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	few, quiet := Counts{Requests: 999}, Counts{Requests: 20_000, Denied: 200, Errors: 20}
	for _, c := range []struct {
		name            string
		control, canary Counts
		age             time.Duration
		want            CanaryReason
	}{
		{"too few requests of the canary", quiet, Counts{Requests: 999, Denied: 999}, 0, ""},
		{"too few requests of the control", few, Counts{Requests: 5000, Denied: 5000}, 0, ""},
		{"nothing has tried the rules", Counts{}, Counts{}, time.Hour, ""},
		{"as usual", quiet, Counts{Requests: 1000, Denied: 10, Errors: 1}, 9 * time.Minute, ""},
		{"at the bound", quiet, Counts{Requests: 1001, Denied: 60, Errors: 1}, 0, ""},
		{"above the bound", quiet, Counts{Requests: 1001, Denied: 61, Errors: 1}, 0, CanaryDenied},
		{"all are denied on both sides", Counts{Requests: 1000, Denied: 1000}, Counts{Requests: 1000, Denied: 1000}, 0, ""},
		{"fewer are denied", quiet, Counts{Requests: 1000}, 0, ""},
		{"errors", quiet, Counts{Requests: 1000, Errors: 12}, 0, CanaryErrors},
		{"a short failure of the store hits both", Counts{Requests: 1484, Errors: 42}, Counts{Requests: 1416, Errors: 58}, 0, ""},
		{"more errors while the store fails", Counts{Requests: 1484, Errors: 42}, Counts{Requests: 1416, Errors: 90}, 0, CanaryErrors},
		{"errors when it is over", quiet, Counts{Requests: 1000, Errors: 12}, time.Hour, CanaryErrors},
		{"the store has failed all the time", Counts{Requests: 9000, Errors: 9000}, Counts{Requests: 5000, Errors: 5000}, time.Hour, ""},
		{"too few are decided", Counts{Requests: 9000, Errors: 4500}, Counts{Requests: 1998, Errors: 999, Denied: 999}, time.Hour, ""},
		{"the store fails half the time", Counts{Requests: 9000, Errors: 4500}, Counts{Requests: 4000, Errors: 2000, Denied: 150}, 0, CanaryDenied},
		{"it is over", quiet, Counts{Requests: 1000}, 10 * time.Minute, CanarySoaked},
	} {
		s := CanaryStatus{Version: Version{Number: 2, Time: now.Add(-c.age), Canary: &Canary{AbortAbove: 0.05, Soak: 10 * time.Minute}}, Control: c.control, Canary: c.canary}
		if v := s.Judge(now); v.Reason != c.want || v.Promote != (c.want == CanarySoaked) || (v.Text == "") != (c.want == "") {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

// Two nodes whose counts together speak against the canary end it once.
func TestNodesAbortByTheirSum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		source := &canaryFleet{}
		a, b := newCanaryNode(t, "a", source, &log), newCanaryNode(t, "b", source, &bytes.Buffer{})
		beginCanary(t, a.Manager, CanaryOptions{Share: 0.5, AbortAbove: 0.05, Soak: time.Hour})
		ctx, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { a.Run(ctx) })
		running.Go(func() { b.Run(ctx) })
		synctest.Wait()
		half := Counts{Requests: 700, Denied: 7}
		a.tell(CanaryCounts{2, half, Counts{Requests: 700, Denied: 100}})
		time.Sleep(3 * AnnounceEvery)
		if _, v := a.Current(); v.Number != 2 {
			t.Fatalf("version %d: one node alone has too few requests", v.Number)
		}
		b.tell(CanaryCounts{2, half, Counts{Requests: 700, Denied: 100}})
		time.Sleep(3 * AnnounceEvery)
		v := source.newest() // this source tells no node of what another one publishes
		want := "canary 2 aborted: 14.29 % of 1400 requests denied, against 1.00 % of 1400 with the old rules, which is more than 5.00 % above"
		if v.Number != 3 || v.Comment != want || string(v.Files[0].Data) != oldRules || v.Canary != nil || !strings.HasPrefix(v.Author, "stint, node ") {
			t.Errorf("%+v, want %q", v, want)
		}
		end()
		running.Wait()
		if ends := slices.Concat(a.ends, b.ends); len(ends) != 1 || ends[0] != CanaryDenied {
			t.Errorf("ended %v", ends)
		}
	})
}

func TestTheSoakPromotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		n := newCanaryNode(t, "n", &canaryFleet{}, &log)
		beginCanary(t, n.Manager, CanaryOptions{Share: 0.5, AbortAbove: 0.05, Soak: 10 * time.Minute})
		ctx, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { n.Run(ctx) })
		time.Sleep(time.Hour)
		if _, v := n.Current(); v.Number != 2 {
			t.Fatalf("version %d: nothing has tried the rules", v.Number)
		}
		n.tell(CanaryCounts{2, Counts{Requests: 1000}, Counts{Requests: 1000}})
		n.emergency("7")
		time.Sleep(2 * AnnounceEvery)
		if _, v := n.Current(); v.Number != 2 {
			t.Fatalf("version %d: it was promoted in an emergency", v.Number)
		}
		n.emergency("")
		time.Sleep(2 * AnnounceEvery)
		if _, v := n.Current(); v.Number != 3 || string(v.Files[0].Data) != newRules || !strings.HasPrefix(v.Comment, "canary 2 promoted: 10m0s are over; ") {
			t.Errorf("%+v", v)
		}
		end()
		running.Wait()
		if !strings.Contains(log.String(), `level=WARN msg="canary promoted" canary=2 version=3 reason="10m0s are over`) {
			t.Error(log.String())
		}
	})
}

// The share is exact within chance, another seed chooses other callers, and the hash of a caller
// does not depend on the node.
func TestACanaryHasItsShareOfTheCallers(t *testing.T) {
	const n = 20_000
	both := 0
	for _, share := range []float64{0.0001, 0.05, 0.5, 0.99} {
		one := canaryOf(share, "seed 1")
		other, again := canaryOf(share, "seed 2"), canaryOf(share, "seed 1")
		in := 0
		for i := range n {
			key := fmt.Sprint("sk_", i)
			if one.Has(key) {
				in++
				if other.Has(key) && share == 0.5 {
					both++
				}
			}
			if one.Has(key) != again.Has(key) {
				t.Fatal("another node decides otherwise")
			}
		}
		if got := float64(in) / n; got < share-0.015 || got > share+0.015 {
			t.Errorf("%v of the callers, want %v", got, share)
		}
	}
	if got := float64(both) / n; got < 0.235 || got > 0.265 {
		t.Errorf("%v of the callers are in both canaries, want a quarter", got)
	}
}

func canaryOf(share float64, seed string) *Canary { return &Canary{Share: share, Seed: seed} }
