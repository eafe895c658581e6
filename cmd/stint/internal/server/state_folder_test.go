package server

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// fillStateDir makes folders as other rule sources have left them, each a minute younger
// than the one before.
func fillStateDir(t *testing.T, dir string, n int) (folders []string) {
	t.Helper()
	first := time.Now().Add(-30 * 24 * time.Hour)
	for i := range n {
		path := filepath.Join(dir, fmt.Sprintf("rules-%016x", i))
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(path, "1.json"), "{}")
		age(t, path, first.Add(time.Duration(i)*time.Minute))
		folders = append(folders, path)
	}
	return folders
}

func age(t *testing.T, path string, when time.Time) {
	t.Helper()
	if err := os.Chtimes(path, when, when); err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestAStartRemovesTheOldestStateFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folders := fillStateDir(t, dir, maxStateFolders+4)
	others := []string{filepath.Join(dir, "rules-of-mine"), filepath.Join(dir, "backup")}
	for _, path := range others {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f := openStateFolder(dir, "/etc/stint/rules.yaml", slog.New(slog.DiscardHandler))
	defer f.close()
	if got := len(stateFolders(dir)); got != maxStateFolders || !exists(f.path) {
		t.Errorf("%d folders are left, and its own: %t", got, exists(f.path))
	}
	for i, path := range folders {
		if want := i >= 5; exists(path) != want {
			t.Errorf("folder %d of %d exists: %t", i, len(folders), !want)
		}
	}
	for _, path := range others {
		if !exists(path) {
			t.Errorf("%s was removed", path)
		}
	}
}

func TestNoServerRemovesTheStateOfAnotherThatRuns(t *testing.T) {
	t.Parallel()
	if !folderLocks {
		t.Skip("this system has no locks of folders")
	}
	dir := t.TempDir()
	first := run(t, Config{Rules: rulesFile(t, orders), StateDir: dir})
	used := first.rules.state.path
	fillStateDir(t, dir, maxStateFolders+4)
	age(t, used, time.Now().Add(-400*24*time.Hour)) // it seems to be the oldest
	second := run(t, Config{Rules: rulesFile(t, orders), StateDir: dir})
	if got := len(stateFolders(dir)); got != maxStateFolders || !exists(used) || !exists(second.rules.state.path) {
		t.Errorf("%d folders are left; the first server's: %t, the second's: %t", got, exists(used), exists(second.rules.state.path))
	}

	first.stop()
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	age(t, used, time.Now().Add(-400*24*time.Hour))
	third := openStateFolder(dir, "/etc/stint/third.yaml", slog.New(slog.DiscardHandler))
	defer third.close()
	if got := len(stateFolders(dir)); got != maxStateFolders || exists(used) || !exists(second.rules.state.path) {
		t.Errorf("%d folders are left; the stopped server's: %t, the second's: %t", got, exists(used), exists(second.rules.state.path))
	}
}

// A folder that was removed between its making and the lock is made again.
func TestAFolderThatWasRemovedMeanwhileIsMadeAgain(t *testing.T) {
	t.Parallel()
	if !folderLocks {
		t.Skip("this system has no locks of folders")
	}
	dir := t.TempDir()
	f := openStateFolder(dir, "a", slog.New(slog.DiscardHandler))
	removing, err := os.Open(f.path)
	if err != nil {
		t.Fatal(err)
	}
	defer removing.Close()
	f.close()
	if !removeUnused(f.path, time.Now()) || sameFolder(removing, f.path) {
		t.Fatal("the folder was not removed")
	}
	f.hold()
	defer f.close()
	if f.locked == nil || !sameFolder(f.locked, f.path) || removeUnused(f.path, time.Now()) {
		t.Error("the folder was not made and locked again")
	}
}
