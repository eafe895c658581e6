package ruleset

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/rule"
)

func published(t *testing.T, f *followed, files []rule.File) Version {
	t.Helper()
	v, err := f.Publish(t.Context(), Change{Files: files, Anyway: true, Author: "Ann", Comment: "why"})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func text(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return string(data)
}

func TestPublishingWritesTheFileThroughItsLinkWithItsMode(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target.yaml")
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, target, rules("one"))
	must(t, os.Chmod(target, 0o640))
	must(t, os.Symlink(target, path))
	f := begin(t, path)
	f.wantSet("one")
	if v := published(t, f, file("two")); v.Number != 2 || v.Author != "Ann" {
		t.Errorf("%+v", v)
	}
	f.wantSet("two")
	info, err := os.Lstat(path)
	must(t, err)
	if text(t, target) != rules("two") || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the target holds %q, the path is %v", text(t, target), info.Mode())
	}
	if info, err = os.Stat(target); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	// An edit in place is a new version, and restored content is a new version too.
	write(t, target, rules("three"))
	f.wantSet("three")
	old, err := f.Get(t.Context(), 1)
	must(t, err)
	if v := published(t, f, old.Files); v.Number != 4 {
		t.Errorf("rolled back as %d", v.Number)
	}
	f.wantSet("one")
	all, err := f.History(t.Context(), 10)
	if err != nil || len(all) != 4 || all[1].Author != "" || all[2].Author != "Ann" {
		t.Errorf("%+v, %v", all, err)
	}
}

// The history survives a restart, and an edit in between adds a version.
func TestTheHistoryOfAFileOutlivesTheProcess(t *testing.T) {
	path, dir := filepath.Join(t.TempDir(), "rules.yaml"), t.TempDir()
	write(t, path, rules("one"))
	open := func(want string, number uint64) {
		t.Helper()
		f := newFollowed(t, Options{Source: NewFiles(path, dir, quiet()), Local: true})
		must(t, f.Load(t.Context()))
		f.wantSet(want)
		f.wantVersion(number)
	}
	open("one", 1)
	open("one", 1)
	write(t, path, rules("two"))
	open("two", 2)
	f := newFollowed(t, Options{Source: NewFiles(path, dir, quiet()), Local: true})
	must(t, f.Load(t.Context()))
	published(t, f, file("three"))
	open("three", 3)
}

// A history that cannot be written is logged. It prevents neither serving nor
// publishing.
func TestAHistoryThatCannotBeWrittenStopsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, rules("one"))
	f := newFollowed(t, Options{Source: NewFiles(path, filepath.Join(path, "history"), quiet()), Local: true})
	must(t, f.Load(t.Context()))
	f.wantSet("one")
	for n, id := range []string{"two", "three"} {
		if v := published(t, f, file(id)); int(v.Number) != n+2 {
			t.Errorf("published as %d", v.Number)
		}
		f.wantSet(id)
	}
	if all, err := f.History(t.Context(), 10); err != nil || len(all) != 1 || all[0].Number != 3 {
		t.Errorf("%v, %v", all, err)
	}
}

// Two processes share a file and its history, as the old and the new one do
// during a server update. Each version has one number and one author.
func TestTwoProcessesShareTheHistoryOfAFile(t *testing.T) {
	path, dir := filepath.Join(t.TempDir(), "rules.yaml"), t.TempDir()
	write(t, path, rules("one"))
	open := func() *followed {
		f := newFollowed(t, Options{Source: NewFiles(path, dir, quiet()), Local: true})
		must(t, f.Load(t.Context()))
		f.wantSet("one")
		f.run()
		<-f.Following()
		return f
	}
	one, other := open(), open()
	published(t, one, file("two"))
	one.wantSet("two")
	other.wantSet("two")
	if _, v := other.Current(); v.Number != 2 || v.Author != "Ann" {
		t.Errorf("the other runs %+v", v.listed())
	}
	if v := published(t, other, file("two")); v.Number != 3 { // the same content again
		t.Errorf("published as %d", v.Number)
	}
	other.wantSet("two")
	if v := published(t, one, file("three")); v.Number != 4 {
		t.Errorf("published as %d", v.Number)
	}
	one.drain("three")
	other.wantSet("three")
	must(t, replace(path, []byte(rules("four")))) // atomic, because one still reads what it published
	one.wantSet("four")
	other.wantSet("four")
	one.wantVersion(5)
	other.wantVersion(5)
}

// drain receives sets until the one with these rules.
func (f *followed) drain(ids string) {
	f.t.Helper()
	for {
		select {
		case s := <-f.sets:
			if idsOf(s) == ids {
				return
			}
		case <-time.After(patientTime):
			f.t.Fatalf("no set with rules %q", ids)
		}
	}
}

// One writer edits the file while another publishes to it.
func TestAnEditInBetweenIsAConflict(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, rules("one"))
	f := newFollowed(t, Options{Source: NewFiles(path, "", quiet()), Local: true})
	must(t, f.Load(t.Context()))
	write(t, path, rules("edited"))
	_, err := f.Publish(t.Context(), Change{Files: file("two"), After: 1})
	if conflict, ok := errors.AsType[*ConflictError](err); !ok || conflict.Newest.Number != 2 {
		t.Errorf("%v, want a conflict with 2", err)
	}
	if text(t, path) != rules("edited") {
		t.Errorf("the file holds %q", text(t, path))
	}
}

func TestAFailedWriteIsReported(t *testing.T) {
	folder := t.TempDir()
	must(t, os.Mkdir(filepath.Join(folder, "..1"), 0o700))
	write(t, filepath.Join(folder, "..1", "rules.yaml"), rules("one"))
	must(t, os.Symlink("..1", filepath.Join(folder, "..data")))
	must(t, os.Symlink(filepath.Join("..data", "rules.yaml"), filepath.Join(folder, "rules.yaml")))
	plain := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, plain, rules("one"))
	for path, want := range map[string]string{folder: "ConfigMap", filepath.Join(folder, "rules.yaml"): "ConfigMap", plain: "is one file"} {
		f := newFollowed(t, Options{Source: NewFiles(path, "", quiet()), Local: true})
		must(t, f.Load(t.Context()))
		files := file("two")
		if want == "is one file" {
			files = append(files, rule.File{Name: "b.yaml", Data: []byte(rules("b"))})
		}
		_, err := f.Publish(t.Context(), Change{Files: files, Anyway: true})
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
		f.wantVersion(1)
	}
}

func TestPublishingReplacesTheFilesOfAFolder(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "a.yaml"), rules("a"))
	write(t, filepath.Join(folder, "b.yaml"), rules("b"))
	write(t, filepath.Join(folder, "notes.txt"), "kept")
	f := begin(t, folder)
	f.wantSet("a b")
	published(t, f, []rule.File{{Name: "b.yaml", Data: []byte(rules("b2"))}, {Name: "c.yaml", Data: []byte(rules("c"))}})
	f.wantSet("b2 c")
	entries, err := os.ReadDir(folder)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "b.yaml c.yaml notes.txt" {
		t.Errorf("the folder has %s", got)
	}
}

// A process is killed between any two steps of writing a folder. The next
// reader sees the version before or the version after.
func TestAFolderThatIsHalfWrittenIsReadWhole(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "a.yaml"), rules("a"))
	write(t, filepath.Join(folder, "b.yaml"), rules("b"))
	next := []rule.File{{Name: "b.yaml", Data: []byte(rules("b2"))}, {Name: "c.yaml", Data: []byte(rules("c"))}}
	data, err := Encode(Version{Hash: HashOf(next), Files: next})
	must(t, err)
	steps := []struct {
		name string
		step func()
		want string
	}{
		{"nothing", func() {}, "a b"},
		{"a temporary file", func() { write(t, filepath.Join(folder, ".stint-1.tmp"), "half") }, "a b"},
		{"the version, whole", func() { write(t, filepath.Join(folder, pendingName), string(seal(data))) }, "b2 c"},
		{"one file", func() { write(t, filepath.Join(folder, "b.yaml"), rules("b2")) }, "b2 c"},
		{"all files", func() { write(t, filepath.Join(folder, "c.yaml"), rules("c")) }, "b2 c"},
		{"old files removed", func() { must(t, os.Remove(filepath.Join(folder, "a.yaml"))) }, "b2 c"},
		{"the end", func() { must(t, os.Remove(filepath.Join(folder, pendingName))) }, "b2 c"},
	}
	for _, s := range steps {
		s.step()
		f := newFollowed(t, Options{Source: NewFiles(folder, "", quiet()), Local: true})
		if err := f.Load(t.Context()); err != nil {
			t.Fatalf("after %s: %v", s.name, err)
		}
		f.wantSet(s.want)
	}
	write(t, filepath.Join(folder, pendingName), string(seal(data))[:100])
	f := newFollowed(t, Options{Source: NewFiles(folder, "", quiet()), Local: true})
	if err := f.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a damaged version: %v", err)
	}
}

// The next reader settles the pending version of a killed process, once it is
// too old for a running process to do so.
func TestAnInterruptedPublishIsFinished(t *testing.T) {
	folder := t.TempDir()
	pending := filepath.Join(folder, pendingName)
	next := []rule.File{{Name: "b.yaml", Data: []byte(rules("b"))}}
	data, err := Encode(Version{Hash: HashOf(next), Files: next})
	must(t, err)
	write(t, filepath.Join(folder, "a.yaml"), rules("a"))
	write(t, pending, string(seal(data)))
	_, err = readFiles(folder)
	must(t, err)
	if _, err := os.Stat(pending); err != nil {
		t.Errorf("another process is putting it in place: %v", err)
	}
	must(t, os.Chtimes(pending, time.Time{}, time.Now().Add(-2*leftBehind)))
	_, err = readFiles(folder)
	must(t, err)
	if _, err := os.Stat(pending); !os.IsNotExist(err) {
		t.Errorf("it was left: %v", err)
	}
	if _, err := os.Stat(filepath.Join(folder, "a.yaml")); !os.IsNotExist(err) {
		t.Error("a file of the version before is there still")
	}
}
