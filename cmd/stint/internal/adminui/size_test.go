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
	mostOthers = 40 << 10
)

// The first load is all that the browser fetches until the first page is complete: the index, the
// files that it names, those that these import, and the charts. The editor is one file, and the
// other pages are another.
func TestThePagesAreSmall(t *testing.T) {
	sizes, texts := map[string]int{}, map[string]string{}
	for name, f := range newSite(dist) {
		size := len(f.plain)
		if zipped := f.gzipped(); zipped != nil {
			size = len(zipped)
		}
		sizes[path.Base(name)], texts[path.Base(name)] = size, string(f.plain)
	}
	first, editor, others := 0, 0, 0
	loaded := loadedFirst(texts)
	for name, size := range sizes {
		switch {
		case loaded[name]:
			first += size
		case strings.HasPrefix(name, "codemirror-"):
			editor += size
		case strings.HasPrefix(name, "others-"):
			others += size
		default:
			t.Errorf("it is not known when %s is loaded", name)
		}
	}
	if len(loaded) != 5 || first > mostFirst {
		t.Errorf("the first load, %d files, has %d bytes (at most %d): %v", len(loaded), first, mostFirst, loaded)
	}
	if editor == 0 || editor > mostEditor || others == 0 || others > mostOthers {
		t.Errorf("the editor has %d bytes (at most %d), the other pages %d (at most %d)", editor, mostEditor, others, mostOthers)
	}
	t.Logf("first load %d bytes, editor %d bytes, other pages %d bytes", first, editor, others)
}

// loadedFirst returns the names of the files of the first load.
func loadedFirst(texts map[string]string) map[string]bool {
	imports := regexp.MustCompile(`(?:src|href)="([^":]+)"|(?:from|import)"\./([^"]+)"|import\("\./(plot-[^"]+)"\)`)
	loaded := map[string]bool{}
	var load func(name string)
	load = func(name string) {
		if loaded[name] {
			return
		}
		loaded[name] = true
		if name != index && path.Ext(name) != ".js" {
			return
		}
		for _, match := range imports.FindAllStringSubmatch(texts[name], -1) {
			load(strings.Join(match[1:], ""))
		}
	}
	load(index)
	return loaded
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
