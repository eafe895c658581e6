package ruleset

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/rule"
)

// patientTime is the timeout of a wait for an expected event.
const patientTime = 20 * time.Second

// followed is a running manager and the sets that it has installed.
type followed struct {
	*Manager
	t      *testing.T
	sets   chan *rule.Set
	errors chan error
}

func newFollowed(t *testing.T, o Options) *followed {
	f := &followed{t: t, sets: make(chan *rule.Set, 1000), errors: make(chan error, 1000)}
	o.OnSet = func(s *rule.Set, _ Version) { f.sets <- s }
	o.OnError = func(err error) { f.errors <- err }
	f.Manager = NewManager(o)
	return f
}

func begin(t *testing.T, path string) *followed {
	t.Helper()
	f := newFollowed(t, Options{Source: NewFiles(path, t.TempDir(), quiet()), Local: true})
	f.run()
	return f
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (f *followed) run() {
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { f.Run(ctx); close(done) }()
	f.t.Cleanup(func() { end(); <-done })
}

// wantSet waits for a set with these rules.
func (f *followed) wantSet(ids string) {
	f.t.Helper()
	select {
	case s := <-f.sets:
		if got := idsOf(s); got != ids {
			f.t.Fatalf("got rules %q, want %q", got, ids)
		}
	case err := <-f.errors:
		f.t.Fatalf("got error %v, want rules %q", err, ids)
	case <-time.After(patientTime):
		f.t.Fatalf("no set, want rules %q", ids)
	}
}

func (f *followed) wantError(part string) {
	f.t.Helper()
	select {
	case s := <-f.sets:
		f.t.Fatalf("got rules %q, want an error", idsOf(s))
	case err := <-f.errors:
		if !strings.Contains(err.Error(), part) {
			f.t.Fatalf("got error %v, want %q", err, part)
		}
	case <-time.After(patientTime):
		f.t.Fatalf("no error, want %q", part)
	}
}

func idsOf(s *rule.Set) string {
	var ids []string
	for _, r := range s.Rules() {
		ids = append(ids, r.ID)
	}
	return strings.Join(ids, " ")
}

func rules(ids ...string) string {
	var text strings.Builder
	text.WriteString("rules:\n")
	for _, id := range ids {
		text.WriteString("  - {id: " + id + ", limit: 10/s}\n")
	}
	return text.String()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWritingInPlaceHandsOverTheNewSet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, rules("one"))
	f := begin(t, path)
	f.wantSet("one")
	write(t, path, rules("one", "two"))
	f.wantSet("one two")
}

func TestReplacingByRenameHandsOverTheNewSet(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "rules.yaml")
	write(t, path, rules("one"))
	f := begin(t, path)
	f.wantSet("one")
	for _, id := range []string{"two", "three"} {
		write(t, filepath.Join(folder, "rules.yaml~"), rules(id))
		must(t, os.Rename(filepath.Join(folder, "rules.yaml~"), path))
		f.wantSet(id)
	}
}

// A mounted ConfigMap consists of links into a folder that is itself a link and
// is replaced atomically.
func TestSwappingAConfigMapHandsOverTheNewSet(t *testing.T) {
	folder := t.TempDir()
	swap := func(version, text string) {
		must(t, os.Mkdir(filepath.Join(folder, version), 0o700))
		write(t, filepath.Join(folder, version, "rules.yaml"), text)
		must(t, os.Symlink(version, filepath.Join(folder, "..data_tmp")))
		must(t, os.Rename(filepath.Join(folder, "..data_tmp"), filepath.Join(folder, "..data")))
	}
	swap("..1", rules("one"))
	must(t, os.Symlink(filepath.Join("..data", "rules.yaml"), filepath.Join(folder, "rules.yaml")))

	file := begin(t, filepath.Join(folder, "rules.yaml"))
	whole := begin(t, folder)
	file.wantSet("one")
	whole.wantSet("one")
	swap("..2", rules("two"))
	file.wantSet("two")
	whole.wantSet("two")
	must(t, os.RemoveAll(filepath.Join(folder, "..1")))
	swap("..3", rules("three"))
	file.wantSet("three")
	whole.wantSet("three")
}

func TestChangingWhatALinkPointsToHandsOverTheNewSet(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target.yaml")
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, target, rules("one"))
	must(t, os.Symlink(target, path))
	f := begin(t, path)
	f.wantSet("one")
	write(t, target, rules("two"))
	f.wantSet("two")
}

func TestMistakesAreReportedAndTheLastGoodSetIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, rules("one"))
	f := begin(t, path)
	f.wantSet("one")
	write(t, path, "rules: [{id: one, limt: 10/s}]")
	f.wantError("did you mean limit?")
	write(t, path, rules("two"))
	f.wantSet("two")
}

func TestAMissingFileIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	f := begin(t, path)
	f.wantError("no such file")
	write(t, path, rules("one"))
	f.wantSet("one")
	must(t, os.Remove(path))
	f.wantError("no such file")
	write(t, path, rules("two"))
	f.wantSet("two")
}

func TestAFolderIsOneSet(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "b.yaml"), rules("b"))
	f := begin(t, folder)
	f.wantSet("b")
	write(t, filepath.Join(folder, "a.json"), `{"rules":[{"id":"a","limit":"10/s"}]}`)
	f.wantSet("a b")
	must(t, os.Remove(filepath.Join(folder, "b.yaml")))
	f.wantSet("a")
}

// The file beside the rules wakes the watcher. The next set shows that nothing
// was installed for it.
func TestAnUnchangedFileMakesNoNewSet(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "rules.yaml")
	write(t, path, rules("one"))
	f := begin(t, path)
	f.wantSet("one")
	write(t, filepath.Join(folder, "notes.txt"), "nothing to do with rules")
	write(t, path, rules("one"))
	write(t, filepath.Join(folder, "rules.yaml~"), rules("two"))
	must(t, os.Rename(filepath.Join(folder, "rules.yaml~"), path))
	f.wantSet("two")
}

func TestReloadHandsOverWhatHasNotChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, rules("one"))
	f := begin(t, path)
	f.wantSet("one")
	f.Reload()
	f.wantSet("one")
}

// A release replaces the old folder with another one, which may take a while.
func TestAnotherFolderInPlaceHandsOverTheNewSet(t *testing.T) {
	top := t.TempDir()
	folder, next := filepath.Join(top, "app", "conf"), filepath.Join(top, "next")
	path := filepath.Join(folder, "rules.yaml")
	must(t, os.MkdirAll(folder, 0o700))
	write(t, path, rules("one"))
	f := begin(t, path)
	f.wantSet("one")
	for _, id := range []string{"two", "three"} {
		must(t, os.RemoveAll(filepath.Dir(folder)))
		f.wantError("no such file")
		must(t, os.Mkdir(next, 0o700))
		write(t, filepath.Join(next, "rules.yaml"), rules(id))
		must(t, os.Mkdir(filepath.Dir(folder), 0o700))
		must(t, os.Rename(next, folder))
		f.wantSet(id)
		write(t, path, rules(id, "edited"))
		f.wantSet(id + " edited")
	}
}

func TestAnUnwatchableFileIsReadOnReload(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "later")
	f := begin(t, filepath.Join(folder, "rules.yaml"))
	f.wantError("no such file")
	must(t, os.Mkdir(folder, 0o700))
	write(t, filepath.Join(folder, "rules.yaml"), rules("one"))
	f.Reload()
	f.wantSet("one")
}

// The rules change between Load and Run: Run installs them, and it installs
// nothing when they do not change.
func TestRunHandsOverWhatHasChangedSinceLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, rules("one"))
	f := newFollowed(t, Options{Source: NewFiles(path, "", quiet()), Local: true})
	must(t, f.Load(t.Context()))
	f.wantSet("one")
	f.run()
	<-f.Following()
	if len(f.sets)+len(f.errors) != 0 {
		t.Error("what was loaded is handed over again")
	}
	write(t, path, rules("two"))
	f.wantSet("two")
}

func TestRulesThatAreGoneAreKept(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "rules.yaml")
	write(t, path, rules("one"))
	file, whole := begin(t, path), begin(t, folder)
	file.wantSet("one")
	whole.wantSet("one")
	write(t, path, "")
	file.wantError(path + ": has become empty (to have no rules, write rules: [])")
	whole.wantError("has become empty")
	write(t, path, rules("two"))
	file.wantSet("two")
	whole.wantSet("two")
	must(t, os.Remove(path))
	file.wantError("no such file")
	whole.wantError(folder + ": no longer holds a rule file")
	write(t, path, "rules: []\n")
	file.wantSet("")
	whole.wantSet("")
}

func TestAFileThatWasAlwaysEmptyIsNoRules(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "a.yaml"), "")
	f := begin(t, folder)
	f.wantSet("")
	write(t, filepath.Join(folder, "b.yaml"), rules("b"))
	f.wantSet("b")
	f.Reload()
	f.wantSet("b")
}
