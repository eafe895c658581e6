package envoyrls

import (
	"os"
	"path/filepath"
	"testing"
)

// RUNTIME_ROOT of Envoy's service is a symbolic link, which a rollout switches to
// another directory.
func TestARootThatIsSwappedIsRead(t *testing.T) {
	dir := t.TempDir()
	for version, requests := range map[string]string{"v1": "3", "v2": "7"} {
		folder := filepath.Join(dir, version, "ratelimit", "config")
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, "a.yaml"), limited("d", requests))
	}
	point := func(version string) {
		t.Helper()
		if err := os.Symlink(version, filepath.Join(dir, "next")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "current")); err != nil {
			t.Fatal(err)
		}
	}
	point("v1")
	f := watched(t, filepath.Join(dir, "current", "ratelimit", "config"))
	f.want(request("d", "k=1"), "OK | OK 3/MINUTE left 2 reset 40")
	point("v2")
	f.wantLoaded(0)
	f.want(request("d", "k=1"), "OK | OK 7/MINUTE left 5 reset 40")
}
