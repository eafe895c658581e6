package ruleedit

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint/rule"
)

// Text is a part of a rule set as its file states it.
type Text struct{ n *yaml.Node }

// JSON returns the part as one line of JSON. Keys keep their order and numbers
// their text.
func (t Text) JSON() []byte { return appendJSON(nil, t.n, "", "") }

// YAML returns the part as YAML, with its comments.
func (t Text) YAML() []byte {
	var b bytes.Buffer
	encoder := newEncoder(&b)
	if err := encoder.Encode(copied(t.n)); err != nil {
		return append(t.JSON(), '\n') // JSON is valid YAML
	}
	_ = encoder.Close() // writes to memory
	return b.Bytes()
}

// TextOfRule returns a rule as its file states it. The error is a
// [*NotFoundError], or [rule.Problems] of files that cannot be read.
func TextOfRule(files []rule.File, id string) (Text, error) {
	e, err := newEditor(files)
	if err != nil {
		return Text{}, err
	}
	found, ok := e.rule(id)
	if !ok {
		return Text{}, &NotFoundError{fmt.Sprintf("rule %.80q", id)}
	}
	return Text{found.read()}, nil
}

// TextOfTier is [TextOfRule] for a declared tier.
func TextOfTier(files []rule.File, tier string) (Text, error) {
	e, err := newEditor(files)
	if err != nil {
		return Text{}, err
	}
	found, ok := e.tier(tier)
	if !ok {
		return Text{}, &NotFoundError{fmt.Sprintf("tier %.80q", tier)}
	}
	return Text{found.read()}, nil
}
