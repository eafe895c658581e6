package ruletest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// Repair tests a source that other programs can write to. A version that Stint did not number
// must not replace the rules of nodes. At worst it blocks publishing until a repair, which must
// forget it.
//
// open returns a new handle of one source, which is empty at first. forge writes a version to
// the source as another program would: numbered next, above the version after. most is the
// highest number that the source can hold.
func Repair(t *testing.T, most uint64, open func(t *testing.T) ruleset.Source, forge func(t *testing.T, number, after uint64, text string)) {
	t.Helper()
	for name, forged := range map[string]struct {
		number uint64
		junk   bool // the content is not a version
		taken  bool // nodes accept it and run its rules
	}{
		"the highest number of all":     {number: most},
		"junk of the highest number":    {number: most, junk: true},
		"the number after the last":     {number: ruleset.MaxNumber + 1},
		"the last number":               {number: ruleset.MaxNumber, taken: true},
		"junk of the last number":       {number: ruleset.MaxNumber, junk: true},
		"a number that leaves one more": {number: ruleset.MaxNumber - 1, taken: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			for n := range uint64(2) {
				publish(t, s, n, Rules(n+1, fmt.Sprint("r", n+1)))
			}
			running := manager(t, s)
			text := "{"
			if !forged.junk {
				data, err := ruleset.Encode(Rules(forged.number, "forged"))
				if err != nil {
					t.Fatal(err)
				}
				text = string(data)
			}
			forge(t, forged.number, 2, text)
			wantRunning(t, "before the repair", running, map[bool]uint64{true: forged.number, false: 2}[forged.taken])
			exhausted(t, running)
			v, err := ruleset.Repair(t.Context(), s, ruleset.Repairing{Author: "ann", Sure: func(f ruleset.Findings) error {
				if f.Again != 2 || f.Number != 3 {
					t.Errorf("%+v", f)
				}
				return nil
			}})
			if err != nil || v.Number != 3 || v.Hash != Rules(2, "r2").Hash {
				t.Fatalf("%+v, %v", v, err)
			}
			if listed, err := s.History(t.Context(), 10); err != nil || len(listed) != 3 || listed[0].Number != 3 || listed[0].Author != "ann" {
				t.Errorf("%+v, %v", listed, err)
			}
			late := manager(t, s) // starts after the repair
			next, err := late.Publish(t.Context(), ruleset.Change{Files: Rules(1, "next").Files, After: 3})
			if err != nil || next.Number != 4 {
				t.Fatalf("%+v, %v", next, err)
			}
			wantRunning(t, "after another change", running, 4) // this node never saw version 3
			wantRunning(t, "after another change", late, 4)
		})
	}
}

// manager returns the manager of a node that has polled the source once.
func manager(t *testing.T, s ruleset.Source) *ruleset.Manager {
	t.Helper()
	k := ruleset.NewManager(ruleset.Options{Source: s, OnSet: func(*rule.Set, ruleset.Version) {}})
	if err := k.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return k
}

func wantRunning(t *testing.T, when string, k *ruleset.Manager, number uint64) {
	t.Helper()
	if err := k.Load(t.Context()); err != nil { // a poll calls Load too
		t.Fatal(err)
	}
	if _, v := k.Current(); v.Number != number {
		t.Errorf("%s: the node runs version %d, want %d", when, v.Number, number)
	}
}

// exhausted publishes until no number is left. This must happen at once or
// after a few versions.
func exhausted(t *testing.T, k *ruleset.Manager) {
	t.Helper()
	for range 3 {
		_, newest, err := k.Base(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = k.Publish(t.Context(), ruleset.Change{Files: Rules(1, fmt.Sprint("after", newest.Number)).Files, After: newest.Number})
		if errors.Is(err, ruleset.ErrNumbers) {
			return
		}
		if err != nil {
			t.Fatalf("after version %d: %v", newest.Number, err)
		}
	}
	t.Error("versions are published as if nothing were wrong")
}
