package rule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
	shared   map[string]Problems // by store; see Set.StrictSharedKeys
	seen     map[Problem]bool
	stop     bool // a bound was exceeded; stop reading
}

// mistake records a problem that rejects the set.
func (f *findings) mistake(at position, what, mend string) { f.add(&f.mistakes, at, what, mend) }

// warn records a problem that the set is used in spite of.
func (f *findings) warn(at position, what, mend string) { f.add(&f.warnings, at, what, mend) }

// add records a problem once, although several rules can meet the same mistake
// of one tier.
func (f *findings) add(to *Problems, at position, what, mend string) {
	p := Problem{File: f.files[at.file], Line: int(at.line), Column: int(at.column), What: what, Mend: mend}
	if len(*to) < maxProblems && !f.seen[p] {
		f.seen[p] = true
		*to = append(*to, p)
	}
}

// inOrder sorts the problems by position in the files.
func (f *findings) inOrder(ps Problems) Problems {
	order := make(map[string]int, len(f.files))
	for i, name := range f.files {
		order[name] = i
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(order[a.File]-order[b.File], a.Line-b.Line, a.Column-b.Column)
	})
	return ps
}
