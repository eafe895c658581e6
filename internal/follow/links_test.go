package follow

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
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
		t.Errorf("%d folders of two links that go around, want no more than %d", n, maxLinks)
	}
	if got := linkFolders(filepath.Join(dir, "none", "there")); len(got) > 0 {
		t.Errorf("a path that is not there: %q", got)
	}
}
