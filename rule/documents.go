package rule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint/internal/jsonpos"
)

// documents parses a file into its documents. A file that is valid JSON is
// parsed as JSON, because the YAML parser does not accept all JSON; any other
// file is parsed as YAML. A syntax mistake is recorded, and the documents
// before it are returned.
func (r *reader) documents(file File) (list []*yaml.Node) {
	if jsonpos.IsDocument(file.Data) {
		return append(list, jsonNode(jsonpos.Parse(file.Data)))
	}
	decoder := yaml.NewDecoder(bytes.NewReader(file.Data))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			r.syntaxMistake(file, err)
			return list
		}
		list = append(list, document.Content...)
	}
}

var yamlLine = regexp.MustCompile(`^line (\d+): `)

// syntaxMistake records a syntax error. A JSON error names a byte offset. A
// YAML error names at most a line, which may be wrong, so the position is
// searched for.
func (r *reader) syntaxMistake(file File, err error) {
	if strings.HasSuffix(file.Name, ".json") {
		var wrong *json.SyntaxError
		var value any
		if err := json.Unmarshal(file.Data, &value); errors.As(err, &wrong) {
			r.mistake(r.place(file.Data, int(wrong.Offset)-1), "not JSON: "+wrong.Error(), "mend the syntax; nothing of the file was read")
		}
		return
	}
	data, text := file.Data, strings.TrimPrefix(err.Error(), "yaml: ")
	at := position{r.file, 1, 1}
	var anchor string
	if n, _ := fmt.Sscanf(text, "unknown anchor '%s", &anchor); n == 1 {
		at = r.place(data, bytes.Index(data, []byte("*"+strings.TrimRight(anchor, "'"))))
	} else if strings.Contains(text, "UTF-8") {
		at = r.place(data, firstInvalid(data))
	}
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ := strconv.ParseInt(m[1], 10, 32)
		at.line, text = max(1, int32(line)), strings.TrimPrefix(text, m[0])
		if line, column, ok := brokenLine(data); ok {
			at.line, at.column = int32(line), int32(column)
		} else if strings.HasPrefix(text, "did not find expected") {
			at.line++ // the parser counts its lines from 0, its scanner from 1
		}
	}
	r.mistake(at, "not YAML: "+text, "mend the syntax here or below; nothing after it was read")
}

// place returns the line and column of a byte, or those of the first byte when
// there is none at offset.
func (r *reader) place(data []byte, offset int) position {
	before := data[:max(0, offset)]
	line := bytes.Count(before, []byte("\n"))
	return position{r.file, int32(line + 1), int32(len(before) - bytes.LastIndexByte(before, '\n'))}
}

func firstInvalid(data []byte) int {
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		if c == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// jsonNode converts a JSON value to a YAML node.
func jsonNode(v *jsonpos.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v.Text, Line: v.Line, Column: v.Column}
	switch v.Kind {
	case jsonpos.Object:
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
	case jsonpos.Array:
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
	case jsonpos.Null:
		n.Tag = "!!null"
	}
	for _, item := range v.Items {
		n.Content = append(n.Content, jsonNode(item))
	}
	return n
}

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
	parsed := &sipper{data: data}
	_ = parseYAML(parsed)
	read := data[:parsed.read]
	for spent := 0; ; {
		if spent += len(read); spent > min(maxReparsed, 4*len(data)+64<<10) {
			return 0, 0, false
		}
		before := read[:bytes.LastIndexByte(bytes.TrimRight(read, "\r\n"), '\n')+1]
		if errors.Is(parseYAML(bytes.NewReader(before)), io.EOF) {
			text := data[len(before):]
			line = bytes.Count(before, []byte("\n")) + 1
			return line, len(text) - len(bytes.TrimLeft(text, " ")) + 1, true
		}
		read = before
	}
}

// parseYAML parses every document. It returns io.EOF, or the syntax error.
func parseYAML(r io.Reader) (err error) {
	for decoder := yaml.NewDecoder(r); err == nil; {
		var document yaml.Node
		err = decoder.Decode(&document)
	}
	return err
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
