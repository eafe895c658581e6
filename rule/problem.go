package rule

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Problem is one mistake in a rule file, or one warning about it.
type Problem struct {
	File   string
	Line   int // from 1; 0 when the problem concerns the whole file
	Column int // from 1
	What   string
	Mend   string // may be empty
}

// Error returns "file:line:column: what (mend)".
func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": " + p.What)
	if p.Mend != "" {
		b.WriteString(" (" + p.Mend + ")")
	}
	return b.String()
}

// Problems lists every mistake, in order of file and line.
type Problems []Problem

// Error returns the problems, one on each line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].Error()
	}
	return strings.Join(lines, "\n")
}

// maxProblems bounds the number of recorded mistakes, so that a huge invalid
// file stays cheap.
const maxProblems = 10_000

// position is a place in one of the files of a set.
type position struct{ file, line, column int32 }

// located is a text and its position.
type located struct {
	text string
	at   position
}

// findings collects mistakes and warnings while files are read and compiled.
type findings struct {
	files    []string
	mistakes Problems
	warnings Problems
	seen     map[Problem]bool
	stop     bool // a bound was exceeded; stop reading
}

func (f *findings) problem(at position, what, mend string) Problem {
	return Problem{File: f.files[at.file], Line: int(at.line), Column: int(at.column), What: what, Mend: mend}
}

// mistake records a problem that rejects the set. A duplicate, as when several
// rules meet the same mistake of one tier, is recorded once.
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

// inOrder sorts the problems by position in the files.
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
