package rule

import (
	"bytes"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"
)

// maxReparsed bounds how many bytes are parsed again to find a mistake: about a
// second's worth. A file is parsed again about four times at most.
const maxReparsed = 4 << 20

// brokenLine returns the line at which data stops being YAML, and the column
// at which its text begins. The parser itself names the line where the list or
// the mapping around the mistake begins, which may be the first of the file.
// What it has read of data ends at or soon after the mistake; lines are taken
// off that as long as what is left is no YAML either, which also leads from a
// bracket or a quote that nothing closes to the line that opens it. It is
// false where that would take too long: in a huge file, and after an opening
// long ago, which the parser names.
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

// parseYAML reads every document, and returns io.EOF or what is wrong.
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

// sipper gives one byte at a time, so that a parser reads no more than it
// needs.
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
