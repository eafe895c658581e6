package main

import (
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// plain is text of others, made harmless for whoever reads it at a terminal: it
// moves no cursor, and says things in the order that it has them.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ReplaceAll(strings.ToValidUTF8(text, string(unicode.ReplacementChar)), "\r\n", "\n"))
}

// cell is text of others in one line, as a cell of a table.
func cell(text string) string {
	return orDash(strings.Join(strings.Fields(plain(text)), " "))
}

// exact is text of others as it is, for a program or a file that reads it; for
// a terminal it is plain.
func exact(out any, text string) string {
	if isTerminal(out) {
		return plain(text)
	}
	return text
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
