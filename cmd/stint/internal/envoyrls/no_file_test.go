//go:build unix

package envoyrls

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// An entry of the directory that is not a regular file must neither block the reader
// nor fill the memory.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	s := serve(t, messaging, func(o *Options) {
		if err := os.Mkdir(filepath.Join(o.Dir, "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(filepath.Join(o.Dir, "pipe.yaml"), 0o600); err != nil {
			t.Fatal(err)
		}
		for link, target := range map[string]string{"endless.yaml": "/dev/zero", "gone.yaml": "nowhere", "round.yaml": "round.yaml"} {
			if err := os.Symlink(target, filepath.Join(o.Dir, link)); err != nil {
				t.Fatal(err)
			}
		}
		write(t, filepath.Join(o.Dir, "basic"), limited("basic", "3")) // Envoy's service reads a file without an extension
		write(t, filepath.Join(o.Dir, "long.yaml"), strings.Repeat("#", maxFile+2))
	})
	s.want(request("messaging", "to_number=1"), "OK | OK 2/MINUTE left 1 reset 40")
	r, err := s.folder.read()
	if err != nil {
		t.Fatal(err)
	}
	mistakes := r.err().Error()
	for _, want := range []string{"pipe.yaml: is not a file", "endless.yaml: is not a file", "gone.yaml: no such file", "round.yaml: too many levels", "long.yaml: is 8388609 bytes long"} {
		if !strings.Contains(mistakes, want) {
			t.Errorf("%s\nlacks %s", mistakes, want)
		}
	}
	for _, want := range []string{"sub: is a folder, and what is in it is not read", "basic: is not read, because its name does not end in .yaml"} {
		if !strings.Contains(r.warnings.Error(), want) {
			t.Errorf("%v lacks %s", r.warnings, want)
		}
	}
	if len(r.errs) != 5 {
		t.Errorf("%d mistakes", len(r.errs))
	}
}
