package rule

import (
	"bytes"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"
)

// maxReparsed bounds the bytes that are parsed again to locate a mistake, to
// about one second of work. A file is parsed again about four times at most.
const maxReparsed = 4 << 20

// brokenLine returns the line at which data stops being valid YAML and the
// column at which its text begins.
//
// The parser itself names the line at which the enclosing list or mapping
// begins, which may be the first line of the file. brokenLine starts at the
// point to which the parser has read, which is at or shortly after the mistake.
// It removes lines from the end as long as the rest is still invalid. This also
// leads from an unclosed bracket or quote to the line that opens it. brokenLine
// returns false when the search would take too long: in a huge file, or when
// the opening is far back, and then the parser's line is used.
func brokenLine(data []byte) (line, column int, ok bool) {
	if len(data) > maxReparsed {
		return 0, 0, false
	}
	read := readUntilMistake(data)
	for spent := 0; ; {
		if spent += len(read); spent > min(maxReparsed, 4*len(data)+64<<10) {
			return 0, 0, false
		}
		before := read[:bytes.LastIndexByte(bytes.TrimRight(read, "\r\n"), '\n')+1]
		if isYAML(before) {
			text := data[len(before):]
			line = bytes.Count(before, []byte("\n")) + 1
			return line, len(text) - len(bytes.TrimLeft(text, " ")) + 1, true
		}
		read = before
	}
}

func isYAML(data []byte) bool {
	return errors.Is(parseYAML(bytes.NewReader(data)), io.EOF)
}

// parseYAML parses every document. It returns io.EOF, or the syntax error.
func parseYAML(r io.Reader) (err error) {
	for decoder := yaml.NewDecoder(r); err == nil; {
		var document yaml.Node
		err = decoder.Decode(&document)
	}
	return err
}

func readUntilMistake(data []byte) []byte {
	r := &sipper{data: data}
	_ = parseYAML(r)
	return data[:r.read]
}

// sipper returns one byte for each Read, so that a parser reads no further than
// it needs.
type sipper struct {
	data []byte
	read int
}

func (s *sipper) Read(p []byte) (int, error) {
	if s.read == len(s.data) {
		return 0, io.EOF
	}
	n := copy(p[:min(1, len(p))], s.data[s.read:])
	s.read += n
	return n, nil
}
