package examples_test

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// bars are the most lines that parts of the programs may have. A part is a file, or
// the lines of a file from the first line that contains one text to the first line
// that contains another.
var bars = []struct {
	file, from, to string
	most           int
}{
	{file: "redisleases/main.go", from: "redisopen.Open", to: "store.Close", most: 8},
	{file: "tiers/middleware.go", most: 40},
	{file: "waiting/main.go", most: 20},
}

func TestProgramsAreSmall(t *testing.T) {
	for _, bar := range bars {
		lines := codeLines(t, bar.file)
		if bar.from != "" {
			lines = between(lines, bar.from, bar.to)
		}
		t.Logf("%-28s %3d lines, at most %d", bar.file, len(lines), bar.most)
		if len(lines) > bar.most || len(lines) == 0 {
			t.Errorf("%s has %d lines between %q and %q, not 1 to %d", bar.file, len(lines), bar.from, bar.to, bar.most)
		}
	}
	files, err := filepath.Glob("*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	adapters, err := filepath.Glob("adapters/*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range append(files, adapters...) {
		folder := filepath.Dir(program)
		lines := 0
		sources, err := filepath.Glob(folder + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range sources {
			if !strings.HasSuffix(file, "_test.go") {
				lines += len(codeLines(t, file))
			}
		}
		t.Logf("%-28s %3d lines in all", folder, lines)
	}
}

// codeLines returns the lines of a file that hold more than comments.
func codeLines(t *testing.T, path string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Split(string(text), "\n")
	file := token.NewFileSet().AddFile(path, -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	last := 0
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return lines
		}
		if line := file.Line(pos); line > last && (tok != token.SEMICOLON || literal != "\n") {
			last = line
			lines = append(lines, all[line-1])
		}
	}
}

func between(lines []string, from, to string) []string {
	first := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, from) })
	if first < 0 {
		return nil
	}
	last := slices.IndexFunc(lines[first:], func(l string) bool { return strings.Contains(l, to) })
	return lines[first : first+last+1]
}
