// Package ruletest is the test suite that every [ruleset.Source] must pass. Its
// own tests measure a fleet of real servers while rules change. They print the
// figures and fail when a bound is exceeded.
package ruletest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// patience is the timeout of every wait. A passing test waits much less.
const patience = 20 * time.Second

// Rules returns a version with one rule.
func Rules(number uint64, id string) ruleset.Version {
	files := []rule.File{{Name: "rules.yaml", Data: fmt.Appendf(nil, "rules:\n  - {id: %s, limit: 10/s}\n", id)}}
	return ruleset.Version{
		Number: number, Time: time.Unix(1_700_000_000, int64(number)*1000).UTC(), Author: "Ann " + id, Comment: "why: “" + id + "”",
		Hash: ruleset.HashOf(files), Files: files,
	}
}

// Source tests a source. open returns a new handle of the same, at first empty,
// source.
func Source(t *testing.T, open func(t *testing.T) ruleset.Source) {
	t.Run("keepsVersions", func(t *testing.T) { keepsVersions(t, open) })
	t.Run("letsOneOfManyPublish", func(t *testing.T) { letsOnePublish(t, open) })
	t.Run("reportsChanges", func(t *testing.T) { reportsChanges(t, open) })
}

// Shared tests that every handle of the source sees the same versions.
func Shared(t *testing.T, open func(t *testing.T) ruleset.Source) {
	one, other := open(t), open(t)
	publish(t, one, newest(t, one), Rules(newest(t, one)+5, "shared"))
	got, err := other.Get(t.Context(), newest(t, one))
	if err != nil || got.Author != "Ann shared" {
		t.Errorf("the other sees %+v, %v", got, err)
	}
}

func keepsVersions(t *testing.T, open func(t *testing.T) ruleset.Source) {
	s := open(t)
	ctx := t.Context()
	if all, err := s.History(ctx, 10); err != nil || len(all) != 0 {
		t.Fatalf("a new source has %v, %v", all, err)
	}
	if _, err := s.Get(ctx, 1); !errors.Is(err, ruleset.ErrNone) {
		t.Errorf("Get of nothing: %v", err)
	}
	publish(t, s, 0, Rules(1, "one"))
	publish(t, s, 1, Rules(4, "four"))
	wantConflict(t, s, 1, Rules(5, "five"), 4)
	wantConflict(t, s, 0, Rules(5, "five"), 4)
	all, err := s.History(ctx, 10)
	if err != nil || len(all) != 2 {
		t.Fatalf("history %v, %v", all, err)
	}
	for i, want := range []ruleset.Version{Rules(4, "four"), Rules(1, "one")} {
		wantVersion(t, all[i], want, false)
		got, err := s.Get(ctx, want.Number)
		if err != nil {
			t.Fatal(err)
		}
		wantVersion(t, got, want, true)
	}
	if all, err := s.History(ctx, 1); err != nil || len(all) != 1 || all[0].Number != 4 {
		t.Errorf("the newest is %v, %v", all, err)
	}
	if _, err := s.Get(ctx, 3); !errors.Is(err, ruleset.ErrNone) {
		t.Errorf("Get of a number that was left out: %v", err)
	}
}

// wantVersion compares versions. Times may differ by a millisecond, because
// databases round them.
func wantVersion(t *testing.T, got, want ruleset.Version, whole bool) {
	t.Helper()
	if got.Number != want.Number || got.Author != want.Author || got.Comment != want.Comment || got.Hash != want.Hash {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if d := got.Time.Sub(want.Time); d.Abs() > time.Millisecond {
		t.Errorf("version %d is %v off in time", got.Number, d)
	}
	if whole && ruleset.HashOf(got.Files) != want.Hash {
		t.Errorf("version %d has other files: %q", got.Number, got.Files)
	}
	if !whole && got.Files != nil {
		t.Errorf("the history of version %d has files", got.Number)
	}
}

func publish(t *testing.T, s ruleset.Source, after uint64, v ruleset.Version) {
	t.Helper()
	if _, err := s.Publish(t.Context(), after, v); err != nil {
		t.Fatal(err)
	}
}

func wantConflict(t *testing.T, s ruleset.Source, after uint64, v ruleset.Version, newest uint64) {
	t.Helper()
	_, err := s.Publish(t.Context(), after, v)
	conflict, ok := errors.AsType[*ruleset.ConflictError](err)
	if !ok || conflict.Newest.Number != newest {
		t.Errorf("publishing after %d: %v, want a conflict with %d", after, err, newest)
	}
}

func newest(t *testing.T, s ruleset.Source) uint64 {
	t.Helper()
	all, err := s.History(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		return 0
	}
	return all[0].Number
}

// letsOnePublish lets many goroutines publish after the same version. Exactly
// one must succeed.
func letsOnePublish(t *testing.T, open func(t *testing.T) ruleset.Source) {
	s := open(t)
	for round := range 5 {
		after := newest(t, s)
		var done sync.WaitGroup
		results := make([]error, 8)
		for i := range results {
			done.Go(func() {
				_, results[i] = s.Publish(t.Context(), after, Rules(after+1+uint64(i), fmt.Sprintf("r%d-%d", round, i)))
			})
		}
		done.Wait()
		won := 0
		for _, err := range results {
			if err == nil {
				won++
			} else if _, ok := errors.AsType[*ruleset.ConflictError](err); !ok {
				t.Error(err)
			}
		}
		if won != 1 {
			t.Errorf("%d of 8 published after version %d", won, after)
		}
	}
}

func reportsChanges(t *testing.T, open func(t *testing.T) ruleset.Source) {
	s := open(t)
	ctx, end := context.WithCancel(t.Context())
	changed, done := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(done)
		s.Watch(ctx, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	}()
	select {
	case <-changed:
	case <-time.After(patience):
		t.Fatal("the watch does not begin")
	}
	end()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("the watch does not end")
	}
}

// Secret tests that nodes which start together get one secret, and keep it. open opens the same
// source each time.
func Secret(t *testing.T, open func(t *testing.T) ruleset.Fleet) {
	var all sync.WaitGroup
	texts := make([]string, 8)
	for i := range texts {
		f := open(t)
		all.Go(func() {
			var err error
			if texts[i], err = f.Secret(t.Context(), fmt.Sprint("the secret of the node ", i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	later, err := open(t).Secret(t.Context(), "another secret")
	if err != nil || ruleset.CheckSecret(later) != nil || !strings.HasPrefix(later, "the secret of the node ") {
		t.Errorf("%q, %v", later, err)
	}
	for i, text := range texts {
		if text != later {
			t.Errorf("node %d has %q, a later one %q", i, text, later)
		}
	}
}

// Fleet tests the announcements of nodes.
func Fleet(t *testing.T, f ruleset.Fleet) {
	ctx := t.Context()
	if nodes, err := f.Nodes(ctx); err != nil || len(nodes) != 0 {
		t.Fatalf("at first %v, %v", nodes, err)
	}
	b := ruleset.Node{ID: "b", Address: "host-b:8080", Version: 3, Hash: "x", Since: time.Unix(1_700_000_000, 0).UTC()}
	for _, n := range []ruleset.Node{b, {ID: "a", Version: 1}, {ID: "a", Version: 2}} {
		if err := f.Announce(ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	nodes, err := f.Nodes(ctx)
	if err != nil || len(nodes) != 2 || nodes[0].ID != "a" || nodes[0].Version != 2 || nodes[1] != b {
		t.Errorf("%+v, %v", nodes, err)
	}
}
