package rule

import (
	"fmt"
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
