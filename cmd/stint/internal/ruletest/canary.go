package ruletest

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// CanarySource is a source that can carry a canary.
type CanarySource interface {
	ruleset.Source
	ruleset.Fleet
}

// Canary tests that a source carries canaries. open returns handles of one source, which has no
// version yet.
func Canary(t *testing.T, open func(t *testing.T) CanarySource) {
	t.Run("carriesACanary", func(t *testing.T) {
		one, other := open(t), open(t)
		publish(t, one, 0, Rules(1, "old"))
		next := Rules(2, "new")
		v, err := ruleset.NewCanary(Rules(1, "old"), next, ruleset.CanaryOptions{Share: 0.05, Soak: time.Minute, AbortAbove: 0.02})
		if err != nil {
			t.Fatal(err)
		}
		publish(t, one, 1, v)
		wantCanary(t, other, &v)
		counts := &ruleset.CanaryCounts{Version: 2, Control: ruleset.Counts{Requests: 3, Denied: 2, Errors: 1}, Canary: ruleset.Counts{Requests: 6, Denied: 5, Errors: 4}}
		if err := one.Announce(t.Context(), ruleset.Node{ID: "a", Version: 2, Canary: counts}); err != nil {
			t.Fatal(err)
		}
		if nodes, err := other.Nodes(t.Context()); err != nil || len(nodes) != 1 || !reflect.DeepEqual(nodes[0].Canary, counts) {
			t.Errorf("%+v, %v", nodes, err)
		}
		endsOnce(t, open)
	})
}

// wantCanary expects that version 2 is v, whole and in the history.
func wantCanary(t *testing.T, s ruleset.Source, v *ruleset.Version) {
	t.Helper()
	got, err := s.Get(t.Context(), 2)
	if err != nil || got.Canary == nil || string(got.Files[0].Data) != string(v.Files[0].Data) || !reflect.DeepEqual(got.Canary, v.Canary) {
		t.Fatalf("%+v, %v, want %+v", got.Canary, err, v.Canary)
	}
	listed, err := s.History(t.Context(), 1)
	if err != nil || listed[0].Canary == nil || listed[0].Canary.Files != nil || listed[0].Canary.Share != v.Canary.Share {
		t.Errorf("%+v, %v", listed, err)
	}
}

// endsOnce ends the canary, version 2, by many nodes and operators at once.
func endsOnce(t *testing.T, open func(t *testing.T) CanarySource) {
	t.Helper()
	var (
		done  sync.WaitGroup
		mu    sync.Mutex
		ended []uint64
	)
	managers := make([]*ruleset.Manager, 6)
	for i := range managers {
		m := ruleset.NewManager(ruleset.Options{Source: open(t), OnSet: func(*rule.Set, ruleset.Version) {}})
		if err := m.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Publish(t.Context(), ruleset.Change{Files: Rules(3, "other").Files, Anyway: true}); !isCanaryError(err) {
			t.Errorf("a change while a canary is on: %v", err)
		}
		managers[i] = m
	}
	for i, m := range managers {
		done.Go(func() {
			v, err := m.EndCanary(t.Context(), ruleset.CanaryEnd{Number: 2, Promote: i%2 == 0, Comment: fmt.Sprint("by ", i)})
			if gone, _ := errors.AsType[*ruleset.CanaryGoneError](err); err == nil {
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, v.Number)
			} else if gone == nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	done.Wait()
	listed, err := open(t).History(t.Context(), 10)
	if err != nil || len(ended) != 1 || len(listed) != 3 || listed[0].Canary != nil || listed[0].Number != ended[0] {
		t.Errorf("ended by %v; %+v, %v", ended, listed, err)
	}
}

func isCanaryError(err error) bool {
	_, ok := errors.AsType[*ruleset.CanaryError](err)
	return ok
}
