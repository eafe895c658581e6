package ruleedit

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint/rule"
)

// bodyName is the File of a [rule.Problem] in the body of an edit, as opposed to the
// files of the set.
const bodyName = "body"

// maxBody is the largest body of an edit, in bytes.
const maxBody = 16 << 20

// Edit is one change to the text of a rule set. [PutRule] and similar functions
// make an Edit; [Apply] applies it.
type Edit struct {
	what string
	plan func(e *editor) (*change, error)
}

// NotFoundError means that the set has nothing with the name that an edit or a
// lookup is about.
type NotFoundError struct{ What string }

// Error names what is missing.
func (e *NotFoundError) Error() string { return e.What + " is not in the rules" }

// Apply applies the edits in order and returns the new files and their set. It
// applies all edits or none. Text that no edit touches stays as it is, with its
// comments and order. A file without changes is returned as it was given.
//
// The error is a [*NotFoundError], or [rule.Problems] when the set would have a
// mistake. Problems in the body of an edit name the file "body"; the others
// name a place in the files as they were given.
func Apply(files []rule.File, edits ...Edit) ([]rule.File, *rule.Set, error) {
	var set *rule.Set
	for _, edit := range edits {
		var err error
		if files, set, err = edit.apply(files); err != nil {
			return nil, nil, err
		}
	}
	if set == nil {
		var err error
		set, err = rule.Parse(files...)
		return files, set, err
	}
	return files, set, nil
}

func (e Edit) apply(files []rule.File) ([]rule.File, *rule.Set, error) {
	ed, err := newEditor(files)
	if err != nil {
		return nil, nil, err
	}
	c, err := e.plan(ed)
	if err != nil {
		return nil, nil, err
	}
	w, err := ed.write(c)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", e.what, err)
	}
	set, err := rule.Parse(w.files...)
	if err != nil {
		return nil, nil, ed.relocated(err, c.file, w.places)
	}
	return w.files, set, nil
}

// documentsTag marks the node that lists the documents of a file.
const documentsTag = "!documents"

// editor holds the YAML nodes of the files of a set.
type editor struct {
	files []rule.File
	tops  []*yaml.Node        // for each file, a list of the top nodes of its documents
	raw   [][]*yaml.Node      // for each file, its document nodes
	given map[*yaml.Node]bool // nodes of the edit's body
}

func newEditor(files []rule.File) (*editor, error) {
	e := &editor{files: files, given: map[*yaml.Node]bool{}}
	for _, file := range files {
		raw, err := parseNodes(file)
		if err != nil {
			return nil, err
		}
		top := &yaml.Node{Kind: yaml.SequenceNode, Tag: documentsTag}
		for _, document := range raw {
			top.Content = append(top.Content, document.Content...)
		}
		if nodesBelow(top, map[*yaml.Node]int{}) > maxNodes {
			return nil, rule.Problems{{File: file.Name, What: "aliases expand to too many values", Mend: fmt.Sprintf("repeat at most %d values by aliases, and none within itself", maxNodes)}}
		}
		e.tops, e.raw = append(e.tops, top), append(e.raw, raw)
	}
	return e, nil
}

// body parses the body of an edit: one value without anchors. An anchor could
// replace one of the same name in the file.
func (e *editor) body(data []byte) (*yaml.Node, error) {
	if len(data) > maxBody {
		return nil, bodyProblem(nil, fmt.Sprintf("is %d bytes long", len(data)), fmt.Sprintf("use at most %d", maxBody))
	}
	documents, err := parseNodes(rule.File{Name: bodyName, Data: data})
	if err != nil {
		return nil, err
	}
	if len(documents) != 1 || len(documents[0].Content) != 1 {
		return nil, bodyProblem(nil, fmt.Sprintf("holds %d documents", len(documents)), "send one, in JSON or YAML")
	}
	return documents[0].Content[0], e.markGiven(documents[0].Content[0])
}

// markGiven records that the nodes belong to the edit's body.
func (e *editor) markGiven(n *yaml.Node) error {
	if n.Anchor != "" || n.Kind == yaml.AliasNode {
		return bodyProblem(n, "holds an anchor or an alias", "write out its value")
	}
	e.given[n] = true
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		n.Value = "null" // the encoder would write an absent value as an empty text
	}
	for _, below := range n.Content {
		if err := e.markGiven(below); err != nil {
			return err
		}
	}
	return nil
}

// bodyMapping is body for a mapping.
func (e *editor) bodyMapping(data []byte, what string) (*yaml.Node, error) {
	n, err := e.body(data)
	if err == nil && n.Kind != yaml.MappingNode {
		err = bodyProblem(n, what+" is not a mapping", `write it as {"key": value}`)
	}
	if err == nil {
		err = checkRepeatedKeys(n)
	}
	return n, err
}

// checkRepeatedKeys rejects a mapping with a repeated key.
func checkRepeatedKeys(n *yaml.Node) error {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if seen[n.Content[i].Value] {
			return bodyProblem(n.Content[i], "has this key a second time", "remove one")
		}
		seen[n.Content[i].Value] = true
	}
	return nil
}

func bodyProblem(n *yaml.Node, what, mend string) error {
	p := rule.Problem{File: bodyName, What: what, Mend: mend}
	if n != nil {
		p.Line, p.Column = n.Line, n.Column
	}
	return rule.Problems{p}
}

// relocated translates the positions of problems to the files or the body that
// the caller of the edit knows.
func (e *editor) relocated(err error, file int, places map[place]*yaml.Node) error {
	problems, ok := errors.AsType[rule.Problems](err)
	if !ok {
		return err
	}
	for i := range problems {
		p := &problems[i]
		n := places[place{p.Line, p.Column}]
		if p.File != e.files[file].Name || n == nil {
			continue
		}
		p.Line, p.Column = n.Line, n.Column
		if e.given[n] {
			p.File = bodyName
		}
	}
	return problems
}
