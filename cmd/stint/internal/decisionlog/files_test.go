package decisionlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"time"
)

// rotated writes a log with two old files and a present one, each with two lines of 8 bytes. The
// files end at 03:00, at 04:00 and not yet.
func rotated(t *testing.T) (path string, at func(hour, minute int) time.Time) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "decisions.jsonl")
	at = func(hour, minute int) time.Time {
		return time.Date(2026, time.January, 2, hour, minute, 0, 0, time.UTC)
	}
	now := at(2, 0)
	f, err := Open(FileOptions{Path: path, MaxSize: 16, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 6 {
		if _, err := f.WriteLines(fmt.Appendf(nil, "line_%d!\n", n)); err != nil {
			t.Fatal(err)
		}
		if now = now.Add(time.Second); n%2 == 1 {
			now = at(n/2+3, 0)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"decisions.jsonl.1", "decisions.jsonl.gz", "decisions.jsonl2", "decisions.jsonl.20260102T010000.000000.gz"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), other), []byte("another file\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path, at
}

func TestAllFilesOfALogAreRead(t *testing.T) {
	path, at := rotated(t)
	const all = "line_0!\nline_1!\nline_2!\nline_3!\nline_4!\nline_5!\n"
	for name, c := range map[string]struct {
		since, until time.Time
		most         int64
		want         string
		files        int
		leftOut      bool
	}{
		"all":                       {most: 1000, want: all, files: 3},
		"just all":                  {most: 48, want: all, files: 3},
		"since the end of one":      {since: at(3, 0), most: 1000, want: all, files: 3},
		"since a little later":      {since: at(3, 1), most: 1000, want: all[16:], files: 2},
		"since the last":            {since: at(9, 0), most: 1000, want: all[32:], files: 1},
		"until a time in the past":  {until: at(3, 30), most: 1000, want: all[:32], files: 2},
		"until the end of one":      {until: at(3, 0), most: 1000, want: all[:16], files: 1},
		"until before all":          {until: at(1, 0), most: 1000, want: all[:16], files: 1},
		"the newest lines":          {most: 24, want: all[24:], files: 2, leftOut: true},
		"no part of a line":         {most: 23, want: all[32:], files: 2, leftOut: true},
		"a part of the last file":   {most: 8, want: all[40:], files: 1, leftOut: true},
		"less than one line":        {most: 5, want: "", files: 1, leftOut: true},
		"newest of a span":          {until: at(3, 30), most: 8, want: all[24:32], files: 1, leftOut: true},
		"since and until in one":    {since: at(3, 1), until: at(3, 2), most: 1000, want: all[16:32], files: 1},
		"the files of whole length": {most: 32, want: all[16:], files: 2, leftOut: true},
	} {
		f, err := OpenFiles(path, c.since, c.until, c.most)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(iotest.OneByteReader(f))
		if err != nil || string(text) != c.want || f.Files != c.files || f.OlderLeftOut != c.leftOut {
			t.Errorf("%s: %q, error %v, %d files, left out %v", name, text, err, f.Files, f.OlderLeftOut)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAFileThatIsRemovedMeanwhileIsSkipped(t *testing.T) {
	path, _ := rotated(t)
	f, err := OpenFiles(path, time.Time{}, time.Time{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := errors.Join(os.Remove(path+".20260102T030000.000000"), os.Rename(path, path+".20260102T050000.000000")); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(f); string(text) != "line_2!\nline_3!\nline_4!\nline_5!\n" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := OpenFiles(filepath.Join(t.TempDir(), "none"), time.Time{}, time.Time{}, 1000); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
