package filewatch

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestLinkFolders(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"data/v1/config", "releases"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"data/current": "../releases/latest", "releases/latest": filepath.Join(dir, "data", "v1"), "data/v1/config/a": "b", "data/v1/config/b": "a",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	got := linkFolders(filepath.Join(dir, "data", "current", "config"))
	if want := []string{filepath.Join(dir, "data"), filepath.Join(dir, "releases")}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := len(linkFolders(filepath.Join(dir, "data", "v1", "config", "a"))); n != maxLinks {
		t.Errorf("%d folders for two links that form a cycle, want at most %d", n, maxLinks)
	}
	if got := linkFolders(filepath.Join(dir, "none", "there")); len(got) > 0 {
		t.Errorf("a missing path: %q", got)
	}
}

// TestAFileThatComesBehindALink checks that the file is noticed, also if the link came
// first.
func TestAFileThatComesBehindALink(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "mounted", "..v1"), 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "mounted", "token")
	for link, target := range map[string]string{filepath.Join(dir, "mounted", "..data"): "..v1", path: "..data/token"} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	changes := make(chan string, 10)
	f := New(path, func(bool) {
		content, _ := os.ReadFile(path)
		changes <- string(content)
	}, func(err error) { t.Error(err) })
	running := make(chan struct{})
	go func() { defer close(running); f.Run(t.Context()) }()
	t.Cleanup(func() { <-running })
	if got := <-changes; got != "" {
		t.Fatalf("%q exists at first", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "mounted", "..v1", "token"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-changes:
		if got != "secret" {
			t.Errorf("%q was reported", got)
		}
	case <-time.After(10 * time.Second):
		t.Error("the file is not noticed")
	}
}
