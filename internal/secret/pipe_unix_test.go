//go:build unix

package secret

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestAFileThatBecomesAPipeIsRefused: opening the pipe would wait for a writer.
func TestAFileThatBecomesAPipeIsRefused(t *testing.T) {
	text, path, log := open(t, "hidden0")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip("this file system has no pipes: ", err)
	}
	if text.Fresh() != "hidden0" || strings.Count(log.String(), "secret file rejected") != 1 {
		t.Errorf("%q is in force; logged: %s", text.Value(), log)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, path, "mended")
	if text.Fresh() != "mended" {
		t.Error("the corrected file was not read")
	}
}
