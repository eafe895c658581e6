package ruleset

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint/rule"
)

// A version is published once readers take it for the rules of the folder, even
// if one of its files cannot be written yet.
func TestAVersionThatCannotBePutInPlaceIsPublished(t *testing.T) {
	dir := t.TempDir()
	obstacle := filepath.Join(dir, "c.yaml", "sub")
	write(t, filepath.Join(dir, "a.yaml"), rules("a"))
	must(t, os.MkdirAll(obstacle, 0o700))
	var logs bytes.Buffer
	f := newFollowed(t, Options{Source: NewFiles(dir, "", slog.New(slog.NewTextHandler(&logs, nil))), Local: true})
	must(t, f.Load(t.Context()))
	f.wantSet("a")
	v := published(t, f, []rule.File{{Name: "c.yaml", Data: []byte(rules("c"))}})
	f.wantSet("c")
	if listed, err := f.History(t.Context(), 1); err != nil || listed[0].Number != v.Number || listed[0].Author != "Ann" {
		t.Errorf("%+v, %v", listed, err)
	}
	if !strings.Contains(logs.String(), "cannot be written to the folder") {
		t.Error(logs.String())
	}
	must(t, os.RemoveAll(filepath.Dir(obstacle)))
	must(t, os.Chtimes(folder(dir).pending(), time.Time{}, time.Now().Add(-2*leftBehind)))
	if _, err := readFiles(dir); err != nil || text(t, filepath.Join(dir, "c.yaml")) != rules("c") {
		t.Errorf("it is not put in place later: %v", err)
	}
}

// A process that starts right after the crash of another finds a pending
// version that is too young to settle. It returns to it later, so that an edit
// an hour later takes effect.
func TestAnInterruptedPublishIsFinishedSoon(t *testing.T) {
	dir := t.TempDir()
	next := []rule.File{{Name: "a.yaml", Data: []byte(rules("b"))}}
	data, err := Encode(Version{Hash: HashOf(next), Files: next})
	must(t, err)
	write(t, filepath.Join(dir, "a.yaml"), rules("a"))
	write(t, folder(dir).pending(), string(seal(data)))
	synctest.Test(t, func(t *testing.T) {
		must(t, os.Chtimes(folder(dir).pending(), time.Time{}, time.Now()))
		looks := 0
		f := NewFiles(dir, "", quiet())
		f.changed = func() { looks++; _, _ = f.History(t.Context(), 1) }
		for range 3 {
			_, err := f.History(t.Context(), 1)
			must(t, err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if looks != 1 || text(t, filepath.Join(dir, "a.yaml")) != rules("b") {
			t.Errorf("%d looks later: %s", looks, text(t, filepath.Join(dir, "a.yaml")))
		}
		write(t, filepath.Join(dir, "a.yaml"), rules("edited"))
		f.Refresh()
		if listed, err := f.History(t.Context(), 1); err != nil || listed[0].Number != 2 {
			t.Errorf("%+v, %v", listed, err)
		}
	})
}
