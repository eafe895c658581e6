package secret

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, content string) (text *Text, path string, log *bytes.Buffer) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "token")
	write(t, path, content)
	text, err := OpenText("http-token-file", "token", path)
	if err != nil {
		t.Fatal(err)
	}
	log = &bytes.Buffer{}
	text.LogTo(slog.New(slog.NewTextHandler(log, nil)))
	return text, path, log
}

func TestATextIsReadAgain(t *testing.T) {
	text, path, log := open(t, "\ufeff old\r\n")
	if text.Value() != "old" || !text.Is([]byte("old")) || text.Is([]byte("new")) || text.Is(nil) {
		t.Errorf("at first: %q", text.Value())
	}
	text.Refresh()
	if log.Len() > 0 {
		t.Errorf("an unchanged file was logged: %s", log)
	}
	write(t, path, "new\n")
	if text.Value() != "old" {
		t.Error("the file was read without Refresh")
	}
	if text.Fresh() != "new" || !text.Is([]byte("new")) || text.Is([]byte("old")) {
		t.Errorf("after a change: %q", text.Value())
	}
	if said := log.String(); !strings.Contains(said, "secret file reloaded") || !strings.Contains(said, "setting=http-token-file") || !strings.Contains(said, path) {
		t.Error(said)
	}
	log.Reset()
	text.Reload()
	if !strings.Contains(log.String(), "secret file reloaded") {
		t.Error("Reload logged nothing")
	}
}

// TestAMistakeKeepsWhatWasRead also checks that the mistake is logged once and that the
// next valid content is read.
func TestAMistakeKeepsWhatWasRead(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"empty":         func(path string) error { return os.WriteFile(path, []byte(" \n"), 0o600) },
		"several lines": func(path string) error { return os.WriteFile(path, []byte("hidden1\nhidden2\n"), 0o600) },
		"gone":          os.Remove,
		"a folder": func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o700)
		},
		"huge": func(path string) error { return os.Truncate(path, maxFile+1) },
		"a link to nothing": func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Symlink(path+".none", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			text, path, log := open(t, "hidden0")
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				text.Refresh()
			}
			if text.Value() != "hidden0" {
				t.Errorf("%q is in force", text.Value())
			}
			said := log.String()
			if strings.Count(said, "secret file rejected") != 1 || !strings.Contains(said, "level=ERROR") || !strings.Contains(said, path) {
				t.Errorf("logged: %s", said)
			}
			if strings.Contains(said, "hidden") {
				t.Errorf("the log shows the secret: %s", said)
			}
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			write(t, path, "mended")
			if text.Fresh() != "mended" {
				t.Error("the corrected file was not read")
			}
		})
	}
}

func TestNoSecretIsNobodysSecret(t *testing.T) {
	var none *Text
	if none.Is(nil) || none.Is([]byte("x")) || none.Value() != "" || none.Fresh() != "" || Fixed("") != nil {
		t.Error("an empty secret matches")
	}
	fixed := Fixed("hidden")
	fixed.Refresh()
	if !fixed.Is([]byte("hidden")) || fixed.Fresh() != "hidden" || fixed.Paths() != nil {
		t.Error("a fixed secret does not match itself")
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if shown := fmt.Sprintf(format, fixed); strings.Contains(shown, "hidden") {
			t.Errorf("%s shows %s", format, shown)
		}
	}
}

// TestFilesThatBelongTogether checks that files take effect together or not at all.
func TestFilesThatBelongTogether(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	write(t, one, "1")
	write(t, two, "1")
	inForce := ""
	files, err := Open("pair", []string{one, two}, func(contents [][]byte) error {
		if !bytes.Equal(contents[0], contents[1]) {
			return fmt.Errorf("%s is not %s", contents[0], contents[1])
		}
		inForce = string(contents[0])
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	write(t, one, "2")
	files.Refresh()
	if inForce != "1" {
		t.Errorf("%q is in force between two writes", inForce)
	}
	write(t, two, "2")
	files.Refresh()
	if inForce != "2" {
		t.Errorf("%q is in force after both", inForce)
	}
	if _, err := Open("pair", []string{one, filepath.Join(dir, "none")}, func([][]byte) error { return nil }); err == nil || !strings.HasPrefix(err.Error(), "pair: ") {
		t.Error(err)
	}
}

func TestNoFilesApplyNothing(t *testing.T) {
	base := &tls.Config{MinVersion: tls.VersionTLS12}
	none, err := OpenClientTLS(ClientFiles{})
	none.OnChange(func() { t.Error("changed") })
	if err != nil || none.Apply(base) != base || none.Config(base) != base {
		t.Errorf("%v, %v", none, err)
	}
}

// TestAPipeIsReadOnce: a second read would wait for a writer that never comes.
func TestAPipeIsReadOnce(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	if _, err := write.WriteString("hidden\n"); err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("/proc/self/fd/%d", read.Fd())
	if _, err := os.Stat(path); err != nil {
		t.Skip("this system has no /proc")
	}
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := OpenText("store-password-file", "password", path)
	if err != nil {
		t.Fatal(err)
	}
	text.Reload()
	if text.Fresh() != "hidden" || text.Paths() != nil {
		t.Errorf("%q, to be watched: %v", text.Value(), text.Paths())
	}
}
