package rule

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// maxProblems bounds how many mistakes are listed, so that a huge file of
// nothing else stays cheap.
const maxProblems = 10_000

// position is a place in one of the files of a set.
type position struct{ file, line, column int32 }

// located is text and where it stands.
type located struct {
	text string
	at   position
}

// findings gathers mistakes and warnings as files are read and compiled.
type findings struct {
	files    []string
	mistakes Problems
	warnings Problems
	seen     map[Problem]bool
	stop     bool // a bound was met: there is no point in going on
}

func (f *findings) problem(at position, what, mend string) Problem {
	return Problem{File: f.files[at.file], Line: int(at.line), Column: int(at.column), What: what, Mend: mend}
}

// mistake adds a problem that refuses the set. The same one twice, as when
// several rules meet a mistake of one tier, is listed once.
func (f *findings) mistake(at position, what, mend string) {
	p := f.problem(at, what, mend)
	if len(f.mistakes) >= maxProblems || f.seen[p] {
		return
	}
	f.seen[p] = true
	f.mistakes = append(f.mistakes, p)
}

func (f *findings) warn(at position, what, mend string) {
	p := f.problem(at, what, mend)
	if len(f.warnings) >= maxProblems || f.seen[p] {
		return
	}
	f.seen[p] = true
	f.warnings = append(f.warnings, p)
}

// inOrder returns the problems as a reader of the files meets them.
func (f *findings) inOrder(ps Problems) Problems {
	order := make(map[string]int, len(f.files))
	for i, name := range f.files {
		order[name] = i
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		if a.File != b.File {
			return order[a.File] - order[b.File]
		}
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return ps
}

func at(file int32, n *yaml.Node) position {
	return position{file, int32(min(n.Line, 1<<30)), int32(min(n.Column, 1<<30))}
}
