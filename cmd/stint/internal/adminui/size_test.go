package adminui

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
)

// Bounds on what a browser loads, compressed, in bytes.
const (
	mostFirst  = 60 << 10
	mostEditor = 250 << 10
)

// The first load is the page with all files that it names. The editor is everything else.
func TestThePagesAreSmall(t *testing.T) {
	text, err := fs.ReadFile(dist, "dist/"+index)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{index: true}
	for _, match := range regexp.MustCompile(`(?:src|href)="([^":]+)"`).FindAllSubmatch(text, -1) {
		named[string(match[1])] = true
	}
	first, editor := 0, 0
	for name, f := range newSite(dist) {
		size := len(f.plain)
		if zipped := f.gzipped(); zipped != nil {
			size = len(zipped)
		}
		if named[path.Base(name)] {
			first += size
		} else {
			editor += size
		}
	}
	if len(named) != 3 || first > mostFirst || editor > mostEditor {
		t.Errorf("the first load, %d files, has %d bytes (at most %d), the editor %d (at most %d)", len(named), first, mostFirst, editor, mostEditor)
	}
	t.Logf("first load %d bytes, editor %d bytes", first, editor)
}

// The page has no script and no style of its own, which its policy would block.
func TestThePageHasNoInlineCode(t *testing.T) {
	text, err := fs.ReadFile(dist, "dist/"+index)
	if err != nil {
		t.Fatal(err)
	}
	if bad := regexp.MustCompile(`<style|style=|\son\w+=|<script[^>]*>[^<]|https?://`).FindString(string(text)); bad != "" || !strings.Contains(string(text), "<script") {
		t.Errorf("the page has %q", bad)
	}
}
