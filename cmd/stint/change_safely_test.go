package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// blockEnd separates what the blocks of a document print.
const blockEnd = "---- the end of a block"

// TestChangeSafelyDocumentHolds runs the commands of the page in one shell, with one real
// server and one Redis server, because each step builds on the steps above it. What they
// print must be what the page shows.
func TestChangeSafelyDocumentHolds(t *testing.T) {
	t.Parallel()
	document := contentOf(t, "../../docs/change-safely.md")
	p := newPage(t)
	for _, m := range fileBlock.FindAllStringSubmatch(document, -1) {
		writeFile(t, filepath.Join(p.folder, m[1]), m[2])
	}
	blocks := consoleBlock.FindAllStringSubmatch(document, -1)
	if len(blocks) < 15 {
		t.Fatalf("found %d blocks of commands in the document", len(blocks))
	}
	script := ""
	for _, m := range blocks {
		commands, _ := parts(m[1])
		script += commands + "echo '" + blockEnd + "'\n"
	}
	printed := strings.Split(p.bash(p.functions, script), blockEnd+"\n")
	if len(printed) != len(blocks)+1 {
		t.Fatalf("%d of %d blocks ran", len(printed)-1, len(blocks))
	}
	for i, m := range blocks {
		commands, want := parts(m[1])
		if !prints(want, printed[i]) {
			t.Errorf("%s\nprints\n%s\nthe document shows\n%s", commands, printed[i], want)
		}
	}
}

// parts splits a block into its commands, which stand after a dollar sign, and what they
// print. A server that the block starts is started by the function of the page, which waits
// until it is ready.
func parts(block string) (commands, output string) {
	for line := range strings.Lines(block) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			commands += strings.Replace(command, " &\n", "\n", 1)
		} else {
			output += line
		}
	}
	return commands, output
}

// prints reports whether a document shows what was printed. Columns may have any width,
// and `…` stands for any text within a line.
func prints(document, printed string) bool {
	want, got := lines(document), lines(strings.TrimRight(printed, "\n"))
	if len(want) != len(got) {
		return false
	}
	for i, line := range want {
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(line), more, ".*") + "$"
		if !regexp.MustCompile(pattern).MatchString(got[i]) {
			return false
		}
	}
	return true
}
