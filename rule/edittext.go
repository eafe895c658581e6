package rule

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// change is what an edit does to the nodes of one file.
type change struct {
	file int
	path []crumb // to what changes, from the documents of the file down
	op   op
	make func() // makes it; the path is that of before
}

// crumb leads from a list or a mapping to one of its entries: the index of an
// item, or of a key.
type crumb struct {
	in    *yaml.Node
	index int
}

type op uint8

const (
	opReplace op = iota
	opInsert     // the index is where the container ends
	opRemove
)

// ErrNotEditable says that a file cannot be edited at one place, because its
// text, changed there, would not read as what was meant.
var ErrNotEditable = errors.New("the file cannot be edited where it says this (write the whole set instead)")

// write makes the change and returns the files with its text. Of the entries
// around what changes, the innermost is written anew that stands on lines of
// its own; the other lines stay as they are. A text is taken only when it
// reads as what was meant.
func (e *editor) write(c *change) (*written, error) {
	data := e.files[c.file].Data
	if isJSON(data) {
		c.make()
		return e.taken(c, append(appendJSON(nil, e.tops[c.file].Content[0], indentOf(data), ""), '\n'))
	}
	lines := strings.Split(string(data), "\n")
	spans := spansOf(lines, c)
	e.detach(c)
	c.make()
	if c.op == opInsert && len(c.path) == 1 {
		return e.appended(c)
	}
	for _, s := range slices.Backward(spans) {
		text, err := s.splice(lines)
		if err != nil {
			continue
		}
		if w, err := e.taken(c, text); err == nil {
			return w, nil
		}
	}
	text, err := e.wholly(c.file)
	if err != nil {
		return nil, ErrNotEditable
	}
	return e.taken(c, text)
}

// appended writes a document of its own behind the others.
func (e *editor) appended(c *change) (*written, error) {
	var b bytes.Buffer
	b.Write(e.files[c.file].Data)
	if b.Len() > 0 && !bytes.HasSuffix(b.Bytes(), []byte("\n")) {
		b.WriteByte('\n')
	}
	if c.path[0].index > 0 {
		b.WriteString("---\n")
	}
	encoder := newEncoder(&b)
	if err := encoder.Encode(c.path[0].in.Content[c.path[0].index]); err != nil {
		return nil, err
	}
	if err := encoder.Close(); err != nil {
		return nil, err
	}
	return e.taken(c, b.Bytes())
}

// written is the files with a change in one of them.
type written struct {
	files     []File
	documents []*yaml.Node          // of that file, read anew
	places    map[place2]*yaml.Node // where each of their nodes came from
}

// taken returns the files with the text in place, when it reads as what the
// nodes say.
func (e *editor) taken(c *change, data []byte) (*written, error) {
	documents, err := parseNodes(File{Name: e.files[c.file].Name, Data: data})
	if err != nil {
		return nil, err
	}
	top := e.tops[c.file]
	if len(documents) != len(top.Content) {
		return nil, ErrNotEditable
	}
	w := &written{places: make(map[place2]*yaml.Node), files: slices.Clone(e.files)}
	w.files[c.file].Data = data
	for i, document := range documents {
		if !sameNodes(document.Content[0], top.Content[i]) {
			return nil, ErrNotEditable
		}
		pairPlaces(document.Content[0], top.Content[i], w.places)
		w.documents = append(w.documents, document.Content[0])
	}
	return w, nil
}

// wholly writes every document of a file anew.
func (e *editor) wholly(file int) ([]byte, error) {
	var b bytes.Buffer
	encoder := newEncoder(&b)
	for i, document := range e.raw[file] {
		document.Content[0] = e.tops[file].Content[i]
		if err := encoder.Encode(document); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), encoder.Close()
}

func newEncoder(b *bytes.Buffer) *yaml.Encoder {
	encoder := yaml.NewEncoder(b)
	encoder.SetIndent(2)
	return encoder
}

// indentOf is how far the first line that is indented is; "" for a text of one
// line.
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
