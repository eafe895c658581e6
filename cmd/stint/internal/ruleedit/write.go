package ruleedit

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint/internal/jsonpos"
	"github.com/stintdev/stint/rule"
)

// change is an edit of the nodes of one file.
type change struct {
	file  int
	path  []step // from the file's documents down to the changed node
	op    op
	apply func() // applies the change; path is valid before it runs
}

// step is one step from a list or mapping to an entry: the index of an item or
// a key.
type step struct {
	in    *yaml.Node
	index int
}

type op uint8

const (
	opReplace op = iota
	opInsert     // the index is the end of the container
	opRemove
)

// ErrNotEditable means that a file cannot be edited at one place, because the
// changed text would not parse as intended.
var ErrNotEditable = errors.New("the text of the rules cannot be edited at this place (write the whole set instead)")

// write applies the change and returns the files with the new text. It rewrites
// only the innermost enclosing entry that stands on lines of its own; all other
// lines stay as they are. A text is accepted only if it parses as the changed
// nodes.
func (e *editor) write(c *change) (*accepted, error) {
	data := e.files[c.file].Data
	if jsonpos.IsDocument(data) {
		c.apply()
		text := appendJSON(nil, e.tops[c.file].Content[0])
		if indent := indentOf(data); indent != "" {
			var b bytes.Buffer
			if err := json.Indent(&b, text, "", indent); err != nil {
				return nil, err
			}
			text = b.Bytes()
		}
		return e.accept(c, append(text, '\n'))
	}
	lines := strings.Split(string(data), "\n")
	spans := spansOf(lines, c)
	e.detach(c)
	c.apply()
	if c.op == opInsert && len(c.path) == 1 {
		return e.appended(c)
	}
	for _, s := range slices.Backward(spans) {
		text, err := s.splice(lines)
		if err != nil {
			continue
		}
		if w, err := e.accept(c, text); err == nil {
			return w, nil
		}
	}
	documents := e.raw[c.file]
	for i, document := range documents {
		document.Content[0] = e.tops[c.file].Content[i]
	}
	text, err := encode(documents...)
	if err != nil {
		return nil, ErrNotEditable
	}
	return e.accept(c, text)
}

// appended writes a new document after the others.
func (e *editor) appended(c *change) (*accepted, error) {
	var b bytes.Buffer
	b.Write(e.files[c.file].Data)
	if b.Len() > 0 && !bytes.HasSuffix(b.Bytes(), []byte("\n")) {
		b.WriteByte('\n')
	}
	if c.path[0].index > 0 {
		b.WriteString("---\n")
	}
	text, err := encode(c.path[0].in.Content[c.path[0].index])
	if err != nil {
		return nil, err
	}
	b.Write(text)
	return e.accept(c, b.Bytes())
}

// accepted holds the files after a change to one of them.
type accepted struct {
	files  []rule.File
	places map[place]*yaml.Node // the original node of each of their nodes
}

// accept returns the files with the new text if it parses as the nodes say.
func (e *editor) accept(c *change, data []byte) (*accepted, error) {
	documents, err := parseNodes(rule.File{Name: e.files[c.file].Name, Data: data})
	if err != nil {
		return nil, err
	}
	top := e.tops[c.file]
	if len(documents) != len(top.Content) {
		return nil, ErrNotEditable
	}
	w := &accepted{places: make(map[place]*yaml.Node), files: slices.Clone(e.files)}
	w.files[c.file].Data = data
	for i, document := range documents {
		if !sameNodes(document.Content[0], top.Content[i]) {
			return nil, ErrNotEditable
		}
		pairPlaces(document.Content[0], top.Content[i], w.places)
	}
	return w, nil
}

// encode returns the documents as YAML.
func encode(documents ...*yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	for _, document := range documents {
		if err := encoder.Encode(document); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), encoder.Close()
}

// indentOf returns the indentation of the first indented line, or "" when there
// is none.
func indentOf(data []byte) string {
	for line := range bytes.Lines(bytes.TrimSpace(data)) {
		if text := bytes.TrimLeft(line, " \t"); len(text) > 0 && len(text) < len(line) {
			return string(line[:len(line)-len(text)])
		}
	}
	if bytes.ContainsRune(bytes.TrimSpace(data), '\n') {
		return "  "
	}
	return ""
}
