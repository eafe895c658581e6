package rule

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestAPipeIsReadOnceItHasEnded(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("rules: [{id: a, limit: 1/s}]\n"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := ReadFiles(fmt.Sprintf("/dev/fd/%d", r.Fd()))
	if err != nil || len(files) != 1 || len(files[0].Data) == 0 {
		t.Errorf("%v, %v", files, err)
	}
}

// A file that is replaced by a pipe must not block the watcher.
func TestReadingAPipeWithoutAWriterDoesNotBlock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rules.yaml")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skip(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := ReadFiles(name)
		read <- err
	}()
	select {
	case err := <-read:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * readTime):
		t.Fatal("still waiting")
	}
}
