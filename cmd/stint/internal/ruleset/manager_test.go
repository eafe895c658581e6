package ruleset

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stintdev/stint/rule"
)

// elsewhere is a remote source that tests can break. A Memory holds its
// versions.
type elsewhere struct {
	Memory

	changed func()

	broken struct {
		sync.Mutex

		err  error
		list func([]Version) []Version
	}
	watching chan struct{}
}

func newElsewhere() *elsewhere { return &elsewhere{watching: make(chan struct{})} }

func (e *elsewhere) Watch(ctx context.Context, changed func()) {
	e.changed = changed
	changed()
	close(e.watching)
	<-ctx.Done()
}

func (e *elsewhere) fail(err error) {
	e.broken.Lock()
	defer e.broken.Unlock()
	e.broken.err = err
}

// restore resets the source to its state at a version.
func (e *elsewhere) restore(number uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.versions {
		if e.versions[i].Number > number {
			e.versions = e.versions[:i]
			return
		}
	}
}

func (e *elsewhere) History(ctx context.Context, n int) ([]Version, error) {
	e.broken.Lock()
	err := e.broken.err
	e.broken.Unlock()
	if err != nil {
		return nil, err
	}
	return e.Memory.History(ctx, n)
}

// put publishes to the source without a manager.
func (e *elsewhere) put(t *testing.T, number uint64, text string) {
	t.Helper()
	files := []rule.File{{Name: "rules.yaml", Data: []byte(text)}}
	if err := e.add(Version{Number: number, Hash: HashOf(files), Files: files}); err != nil {
		t.Fatal(err)
	}
}

// start loads and runs a manager of the source.
func start(t *testing.T, e *elsewhere) *followed {
	t.Helper()
	f := newFollowed(t, Options{Source: e})
	must(t, f.Load(t.Context()))
	f.run()
	<-f.Following()
	<-e.watching
	return f
}

// wantBoth expects a set and an error, in either order.
func (f *followed) wantBoth(ids, part string) {
	f.t.Helper()
	if got := idsOf(<-f.sets); got != ids {
		f.t.Errorf("got rules %q, want %q", got, ids)
	}
	if err := <-f.errors; !strings.Contains(err.Error(), part) {
		f.t.Errorf("got error %v, want %q", err, part)
	}
}

func (f *followed) wantVersion(number uint64) {
	f.t.Helper()
	if _, v := f.Current(); v.Number != number {
		f.t.Errorf("runs version %d, want %d", v.Number, number)
	}
}

func TestANodeRunsWhatIsPublished(t *testing.T) {
	e := newElsewhere()
	f := start(t, e)
	f.wantSet("default ip-backstop")
	f.wantVersion(0)
	e.put(t, 3, rules("one"))
	e.changed()
	f.wantSet("one")
	f.wantVersion(3)
	e.put(t, 4, "rules: [{id: one, limt: 10/s}]")
	e.changed()
	f.wantError("version 4: rules.yaml:1:")
	f.wantVersion(3)
	must(t, e.add(Version{Number: 5, Hash: "another", Files: []rule.File{{Name: "a.yaml", Data: []byte("rules: []")}}}))
	e.changed()
	f.wantError("version 5 of the source is damaged")
	f.wantVersion(3)
	e.put(t, 6, rules("two"))
	e.changed()
	f.wantSet("two")
	_, v := f.Current()
	must(t, f.accept(v, false)) // as a look does that comes while it is published
	if len(f.sets) != 0 {
		t.Error("a version was put in force twice")
	}
}

func TestASourceThatWentBackIsNotFollowed(t *testing.T) {
	e := newElsewhere()
	f := start(t, e)
	f.wantSet("default ip-backstop")
	e.put(t, 1, rules("one"))
	e.put(t, 2, rules("two"))
	e.changed()
	f.wantSet("two")
	e.restore(1)
	e.changed()
	f.wantError("the newest version of the source is 1, as if restored from a backup")
	e.put(t, 2, rules("other"))
	e.changed()
	f.wantError("version 2 of the source differs from version 2 of this node")
	e.restore(0)
	e.changed()
	f.wantError("the source no longer has any version")
	f.wantVersion(2)

	// A publish gets a number above that of every running version.
	v, err := f.Publish(t.Context(), Change{Files: []rule.File{{Name: "a.yaml", Data: []byte(rules("new"))}}, Anyway: true, Author: "Ann"})
	if err != nil || v.Number != 3 || v.Author != "Ann" || v.Time.IsZero() {
		t.Fatalf("%+v, %v", v, err)
	}
	f.wantSet("new")
	f.wantVersion(3)
}

func TestARestartWithoutTheSourceRunsTheLocalCopy(t *testing.T) {
	e, dir := newElsewhere(), filepath.Join(t.TempDir(), "copy")
	first := newFollowed(t, Options{Source: e, CopyDir: dir})
	e.put(t, 7, rules("seven"))
	must(t, first.Load(t.Context()))
	first.wantSet("seven")

	e.fail(errors.New("the source is away"))
	second := newFollowed(t, Options{Source: e, CopyDir: dir})
	must(t, second.Load(t.Context()))
	second.wantBoth("seven", "the source is away")
	second.wantVersion(7)

	e.fail(nil)
	e.restore(0)
	e.put(t, 5, rules("five"))
	third := newFollowed(t, Options{Source: e, CopyDir: dir})
	must(t, third.Load(t.Context()))
	third.wantBoth("seven", "restored from a backup")
	third.wantVersion(7)
}

// Each byte of the copy is corrupted in turn. A node then starts from the copy
// before it.
func TestADamagedLocalCopyIsNotRun(t *testing.T) {
	e, dir := newElsewhere(), t.TempDir()
	f := newFollowed(t, Options{Source: e, CopyDir: dir})
	for number, id := range map[uint64]string{1: "one", 2: "two"} {
		must(t, f.copies.set(Version{Number: number, Hash: HashOf(file(id)), Files: file(id)}))
	}
	e.fail(errors.New("away"))
	path := f.copies.path(2)
	whole, err := os.ReadFile(path)
	must(t, err)
	for i := range whole {
		bad := append([]byte(nil), whole...)
		bad[i] ^= 1
		must(t, os.WriteFile(path, bad, 0o600))
		if v := f.copies.newest(); v.Number != 1 {
			t.Fatalf("byte %d destroyed: version %d is taken", i, v.Number)
		}
		must(t, os.WriteFile(path, whole[:i], 0o600))
		if v := f.copies.newest(); v.Number != 1 {
			t.Fatalf("%d bytes of %d: version %d is taken", i, len(whole), v.Number)
		}
	}
	must(t, f.Load(t.Context()))
	f.wantBoth("one", "away")
}

func file(id string) []rule.File { return []rule.File{{Name: "rules.yaml", Data: []byte(rules(id))}} }

func TestTwoOperatorsAtOnce(t *testing.T) {
	e := newElsewhere()
	f := start(t, e)
	f.wantSet("default ip-backstop")
	ctx := t.Context()
	if v, err := f.Publish(ctx, Change{Files: file("ann"), After: 0}); err != nil || v.Number != 1 {
		t.Fatal(v, err)
	}
	f.wantSet("ann")
	_, err := f.Publish(ctx, Change{Files: file("bob"), After: 0})
	conflict, ok := errors.AsType[*ConflictError](err)
	if !ok || conflict.Newest.Number != 1 {
		t.Fatalf("%v, want a conflict", err)
	}
	if v, err := f.Publish(ctx, Change{Files: file("bob"), Anyway: true}); err != nil || v.Number != 2 {
		t.Fatal(v, err)
	}
	f.wantSet("bob")
}

func TestMistakesAreNotPublished(t *testing.T) {
	e := newElsewhere()
	f := start(t, e)
	f.wantSet("default ip-backstop")
	good := []byte(rules("a"))
	for want, c := range map[string]Change{
		"did you mean":           {Files: []rule.File{{Name: "a.yaml", Data: []byte("rules: [{id: a, limt: 1/s}]")}}},
		"contain no file":        {},
		"occurs twice":           {Files: []rule.File{{Name: "x/a.yaml", Data: good}, {Name: "y/a.yaml", Data: nil}}},
		"not the name of a rule": {Files: []rule.File{{Name: "../..", Data: good}}},
		"author":                 {Files: file("a"), Author: strings.Repeat("x", 201)},
		"comment":                {Files: file("a"), Comment: "\xff"},
	} {
		c.Anyway = true
		_, err := f.Publish(t.Context(), c)
		if _, ok := errors.AsType[*InvalidError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if all, _ := e.Memory.History(t.Context(), 10); len(all) != 0 {
		t.Errorf("published: %v", all)
	}
}

// A manager confirms the rules in force only while they are the newest of the source.
func TestRejectedRulesAreNotConfirmed(t *testing.T) {
	e := newElsewhere()
	confirmed, checked := 0, make(chan int, 100) // confirmed is touched by the goroutine that checks
	f := newFollowed(t, Options{Source: e, OnCurrent: func() { confirmed++; checked <- confirmed }})
	must(t, f.Load(t.Context()))
	f.wantSet("default ip-backstop")
	f.run()
	<-f.Following()
	e.put(t, 1, "rules: [{id: one, limt: 10/s}]")
	e.changed()
	f.wantError("version 1: rules.yaml:1:")
	e.put(t, 2, rules("one"))
	e.changed()
	f.wantSet("one")
	for want := 1; want <= 3; want++ { // of Load, of the first check, and of version 2
		if got := <-checked; got != want {
			t.Fatalf("confirmed %d times, want %d", got, want)
		}
	}
}

// A remote source counts as down after three failed checks and as up after one
// success.
func TestASourceIsDownAfterThreeFailedChecks(t *testing.T) {
	e := newElsewhere()
	checked := make(chan error, 100)
	f := newFollowed(t, Options{Source: e, OnCheck: func(err error) { checked <- err }})
	must(t, f.Load(t.Context()))
	must(t, <-checked)
	f.run()
	<-f.Following()
	must(t, <-checked)
	e.fail(errors.New("away"))
	for n := 1; n <= 4; n++ {
		e.changed()
		if err := <-checked; err == nil {
			t.Fatal("a check of the source succeeded")
		}
		if f.Up() != (n < 3) {
			t.Errorf("after %d failures up is %v", n, f.Up())
		}
	}
	e.fail(nil)
	e.changed()
	if err := <-checked; err != nil || !f.Up() {
		t.Errorf("%v, up %v", err, f.Up())
	}
	f.wantBoth("default ip-backstop", "away") // each error is reported once
	if len(f.errors) != 0 {
		t.Errorf("the same error was said again: %v", <-f.errors)
	}
}

func TestOldVersionsInMemoryAndOnDiskLoseTheirFiles(t *testing.T) {
	disk := &archive{t.TempDir(), 2, 4}
	for n := range uint64(6) {
		must(t, disk.add(Version{Number: n + 1, Author: "Ann", Hash: HashOf(file("a")), Files: file("a")}))
	}
	if got := disk.numbers(); len(got) != 4 || got[0] != 6 || got[3] != 3 {
		t.Errorf("kept %v", got)
	}
	for number, whole := range map[uint64]bool{6: true, 5: true, 4: false, 2: false} {
		if _, err := disk.get(number); (err == nil) != whole {
			t.Errorf("version %d: %v", number, err)
		}
	}
	if all := disk.list(10); len(all) != 4 || all[3].Author != "Ann" {
		t.Errorf("%+v", all)
	}
	if err := disk.add(Version{Number: 6}); !errors.Is(err, errTaken) {
		t.Errorf("a number twice: %v", err)
	}
	m := &Memory{}
	for n := range uint64(wholeInMemory + 1) {
		must(t, m.add(Version{Number: n + 1, Files: file("a")}))
	}
	if _, err := m.get(1); !errors.Is(err, ErrNone) {
		t.Errorf("version 1: %v", err)
	}
	if _, err := m.get(2); err != nil {
		t.Error(err)
	}
}

// A change of one rule starts from the rules in force if the source has an older or unusable
// version. Starting from that version would drop all other rules.
func TestAChangeIsMadeOnWhatIsInForceWhereTheSourceHasLess(t *testing.T) {
	e := newElsewhere()
	f := start(t, e)
	f.wantSet("default ip-backstop")
	wantBase := func(when string, ids string, after uint64) {
		t.Helper()
		base, newest, err := f.Base(t.Context())
		must(t, err)
		set, err := base.Set()
		must(t, err)
		if got := idsOf(set); got != ids || newest.Number != after {
			t.Errorf("%s: made on %q, to follow %d; want %q and %d", when, got, newest.Number, ids, after)
		}
	}
	wantBase("an empty source", "default ip-backstop", 0)
	e.put(t, 1, rules("one"))
	e.put(t, 2, rules("two"))
	e.changed()
	f.wantSet("two")
	e.put(t, 3, rules("three"))
	wantBase("a version that this node has not heard of", "three", 3)
	e.restore(1)
	wantBase("a backup", "two", 1)
	e.restore(0)
	wantBase("a source that lost everything", "two", 0)
	must(t, e.add(Version{Number: 4, Hash: "of files that are no longer kept"}))
	wantBase("a version without files", "two", 4)
	e.fail(errors.New("the source is away"))
	if _, _, err := f.Base(t.Context()); err == nil {
		t.Error("a change is made although nobody knows what is the newest version")
	}
}

// fleet is a source with an unreachable node that runs a higher version.
type fleet struct{ Memory }

func (*fleet) Announce(context.Context, Node) error                      { return nil }
func (*fleet) Secret(_ context.Context, proposed string) (string, error) { return proposed, nil }
func (*fleet) Nodes(context.Context) ([]Node, error) {
	return []Node{{ID: "ahead", Version: 9}, {ID: "behind", Version: 2}}, nil
}

// A node that starts after the source has lost everything has none of the rules
// that the other nodes run. A rule published through it would be the only one
// left.
func TestAPartIsNotChangedBehindTheOthers(t *testing.T) {
	source := &fleet{}
	k := NewManager(Options{Source: source, OnSet: func(*rule.Set, Version) {}})
	for number := range uint64(9) {
		_, newest, err := k.Base(t.Context())
		if behind, ok := errors.AsType[*BehindError](err); !ok || behind.Ahead.ID != "ahead" || newest.Number != number {
			t.Errorf("version %d: %d, %v", number, newest.Number, err)
		}
		must(t, source.add(Version{Number: number + 1, Hash: HashOf(file("x")), Files: file("x")}))
	}
	if base, _, err := k.Base(t.Context()); err != nil || base.Number != 9 {
		t.Errorf("%d, %v", base.Number, err)
	}
}

// A new version gets a number above that of every version that a node runs. After a backup is
// restored, a node with a higher number would reject it.
func TestAVersionIsNumberedAboveWhatAnyNodeRuns(t *testing.T) {
	k := NewManager(Options{Source: &fleet{}, OnSet: func(*rule.Set, Version) {}})
	v, err := k.Publish(t.Context(), Change{Files: []rule.File{{Name: "a.yaml", Data: []byte(rules("one"))}}})
	if err != nil || v.Number != 10 {
		t.Errorf("%d, %v", v.Number, err)
	}
}

// A node that starts from its copy is stale until the source has confirmed the
// copy or provided a newer version.
func TestALocalCopyIsStaleUntilTheSourceConfirmsIt(t *testing.T) {
	for name, publish := range map[string]bool{"confirmed": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			e, dir := newElsewhere(), t.TempDir()
			first := newFollowed(t, Options{Source: e, CopyDir: dir})
			e.put(t, 7, rules("seven"))
			must(t, first.Load(t.Context()))
			first.wantSet("seven")
			again := newFollowed(t, Options{Source: e, CopyDir: dir})
			must(t, again.Load(t.Context()))
			again.wantSet("seven")
			if first.Stale() || again.Stale() {
				t.Error("stale beside a source that answers")
			}

			e.fail(errors.New("the source is away"))
			checked := make(chan error, 10)
			f := newFollowed(t, Options{Source: e, CopyDir: dir, OnCheck: func(err error) { checked <- err }})
			must(t, f.Load(t.Context()))
			f.wantBoth("seven", "the source is away")
			f.run()
			<-f.Following()
			for range 2 {
				if err := <-checked; err == nil {
					t.Error("a check of the source succeeded")
				}
			}
			if nodes, err := f.Nodes(t.Context()); !f.Stale() || err != nil || len(nodes) != 1 || !nodes[0].Stale {
				t.Errorf("stale %v, nodes %+v, %v", f.Stale(), nodes, err)
			}
			e.fail(nil)
			if publish {
				e.put(t, 8, rules("eight"))
			}
			e.changed()
			must(t, <-checked)
			if publish {
				f.wantSet("eight")
			}
			<-e.watching
			e.changed()
			must(t, <-checked) // the check before it has ended
			if f.Stale() || f.Self().Stale {
				t.Error("stale though the source answers")
			}
		})
	}
}

// A source that lists a version but fails to return it is also down after three
// looks.
func TestASourceThatGivesNothingIsDown(t *testing.T) {
	e := newElsewhere()
	f := start(t, e)
	f.wantSet("default ip-backstop")
	must(t, e.add(Version{Number: 3, Hash: "of files that are lost"}))
	for n := 1; n <= 3; n++ {
		if err := f.check(t.Context(), false); !errors.Is(err, ErrNone) {
			t.Fatal(err)
		}
		if f.Up() != (n < 3) {
			t.Errorf("after %d failures up is %v", n, f.Up())
		}
	}
	e.put(t, 4, rules("four"))
	must(t, f.check(t.Context(), false))
	if !f.Up() {
		t.Error("down though the source answers")
	}
}
