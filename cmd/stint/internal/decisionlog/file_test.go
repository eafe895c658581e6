package decisionlog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func names(t *testing.T, folder string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestFilesRotateBySizeAndAge(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "decisions.jsonl")
	now := time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)
	f, err := Open(FileOptions{Path: path, MaxSize: 20, MaxAge: time.Hour, Keep: 2, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	write := func(line string) {
		t.Helper()
		if n, err := f.WriteLines([]byte(line + "\n")); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		now = now.Add(time.Second)
	}
	for _, line := range []string{"1: first line", "2: makes 20 bytes", "3: a new file"} {
		write(line)
	}
	if got := content(t, path); got != "3: a new file\n" {
		t.Errorf("%q", got)
	}
	now = now.Add(time.Hour)
	write("4")
	now = now.Add(time.Hour)
	write("5")
	want := []string{"decisions.jsonl", "decisions.jsonl.20260102T040408.000000", "decisions.jsonl.20260102T050409.000000"}
	if got := names(t, folder); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := content(t, filepath.Join(folder, want[1])) + content(t, filepath.Join(folder, want[2])) + content(t, path); got != "3: a new file\n4\n5\n" {
		t.Errorf("%q", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
}

// A process that starts every hour still begins a new file each day.
func TestTheAgeOfAFileSurvivesARestart(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "decisions.jsonl")
	now := time.Date(2026, time.January, 2, 3, 0, 0, 0, time.UTC)
	for i, c := range []struct {
		line string
		old  int // files afterwards
	}{
		{fmt.Sprintf(`{"t_us":%d,"key":"a"}`, now.UnixMicro()), 0}, {"1", 0}, {"2", 0}, {"3: a line without a time begins the file", 1}, // after 3 h
		{"4", 1}, {"5", 1}, {"6", 1}, {"7", 1}, // its age is unknown, and that of each process too small
	} {
		f, err := Open(FileOptions{Path: path, MaxAge: 150 * time.Minute, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteLines([]byte(c.line + "\n")); err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if got := len(names(t, folder)) - 1; got != c.old {
			t.Errorf("line %d: %d old files, want %d", i, got, c.old)
		}
		now = now.Add(time.Hour)
	}
	for text, want := range map[string]bool{`{"t_us":5,"a":1}`: true, `{"t_us":5`: false, `{"t_us":x,`: false, `{"t_us":-5,`: false, `{"t_us":99999999999999999999,`: false, "": false, `{"key":1,`: false} {
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := firstTime(file); got.IsZero() == want {
			t.Errorf("%s: %v", text, got)
		}
		_ = file.Close()
	}
}

func TestAFileGoesOnAfterItsLastLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	for name, test := range map[string]struct{ before, after string }{
		"killedInALine": {"1\n2\n{\"half", "1\n2\n3\n"},
		"complete":      {"1\n2\n", "1\n2\n3\n"},
		"onlyHalfALine": {strings.Repeat("x", 100_000), "3\n"},
		"longLastLine":  {"1\n" + strings.Repeat("x", 100_000), "1\n3\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(test.before), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := Open(FileOptions{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteLines([]byte("3\n")); err != nil {
				t.Error(err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if got := content(t, path); got != test.after {
				t.Errorf("%.40q", got)
			}
		})
	}
}

func TestARenamedFileIsReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	f, err := Open(FileOptions{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteLines([]byte("1\n"))
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteLines([]byte("2\n"))
	if err := f.Reopen(); err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteLines([]byte("3\n"))
	if a, b := content(t, path+".1"), content(t, path); a != "1\n2\n" || b != "3\n" {
		t.Errorf("%q, %q", a, b)
	}
}

func TestPathsThatCannotBeWrittenAreRefused(t *testing.T) {
	folder := t.TempDir()
	for _, path := range []string{folder, filepath.Join(folder, "none", "log")} {
		if _, err := Open(FileOptions{Path: path}); err == nil {
			t.Errorf("%s is opened", path)
		}
	}
}

func TestKeysAreReadFromFiles(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a, err := ReadKey(file("a", "0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	const inOpenSSL = "8c5a56d3ca9710a2" // printf %s sk_live_1 | openssl dgst -sha256 -hmac 0123456789abcdef
	if got := string(appendHash(nil, &a, "sk_live_1")); got != `"`+inOpenSSL+`"` {
		t.Errorf("the hash is %s, want %s", got, inOpenSSL)
	}
	if b, err := ReadKey(file("b", "0123456789abcdef\n")); err != nil || a.sample != b.sample {
		t.Error("a line feed at the end changes the key", err)
	}
	if c, err := ReadKey(file("c", "0123456789abcdeF")); err != nil || a.sample == c.sample {
		t.Error("two keys are equal", err)
	}
	if a, b := NewKey(), NewKey(); a.sample == b.sample {
		t.Error("two random keys are equal")
	}
	for path, want := range map[string]string{
		file("short", "0123456789abcde\n"): "has 15 bytes, and at least 16 are needed", folder: "is not a file", filepath.Join(folder, "none"): "no such file",
	} {
		if _, err := ReadKey(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

// Two processes would rename and remove each other's files.
func TestAFileHasOneWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	one, err := Open(FileOptions{Path: path, MaxSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	second := func(want bool) {
		t.Helper()
		other, err := Open(FileOptions{Path: path})
		if (err == nil) != want {
			t.Errorf("a second writer: %v", err)
		}
		if err == nil {
			_ = other.Close()
		}
	}
	second(false)
	for range 2 { // the second write begins a new file
		if _, err := one.WriteLines([]byte("{}\n")); err != nil {
			t.Fatal(err)
		}
	}
	second(false)
	if err := one.Reopen(); err != nil {
		t.Fatal(err)
	}
	second(false)
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	second(true)
}
