package adminapi

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/stintdev/stint/cmd/stint/internal/ruleedit"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// tagOf returns the entity tag of a text.
func tagOf(text []byte) string {
	sum := sha256.Sum256(text)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

// contents holds files and their parsed parts.
type contents struct {
	files []rule.File
	parts *ruleedit.Contents // nil if err is not nil
	err   error              // the files are not valid YAML
}

func contentsOf(files []rule.File) *contents {
	parts, err := ruleedit.ReadContents(files)
	return &contents{files, parts, err}
}

// tagger returns the entity tag of the edited part, or "" if the part does not
// exist.
type tagger func(c *contents) (string, error)

// setTag returns the tag of a whole set.
func setTag(c *contents) (string, error) { return hashTag(c.files), nil }

func hashTag(files []rule.File) string { return `"` + ruleset.HashOf(files)[:24] + `"` }

// ruleTag returns the tag of one rule. Changes of other rules do not affect it.
func ruleTag(id string) tagger {
	return partTag(func(parts *ruleedit.Contents) (string, bool) { return parts.Rule(id) })
}

func tierTag(tier string) tagger {
	return partTag(func(parts *ruleedit.Contents) (string, bool) { return parts.Tier(tier) })
}

func partTag(find func(*ruleedit.Contents) (string, bool)) tagger {
	return func(c *contents) (string, error) {
		if c.err != nil {
			return "", c.err
		}
		text, ok := find(c.parts)
		if !ok {
			return "", nil
		}
		return tagOf([]byte(text)), nil
	}
}
