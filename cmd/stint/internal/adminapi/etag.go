package adminapi

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/stintdev/stint/cmd/stint/internal/ruleedit"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// tagOf is the entity tag of a text.
func tagOf(text []byte) string {
	sum := sha256.Sum256(text)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

// contents is files and what they say, which is read once.
type contents struct {
	files []rule.File
	said  *ruleedit.Contents // nil where err is not
	err   error              // of files that are not YAML
}

func contentsOf(files []rule.File) *contents {
	said, err := ruleedit.ReadContents(files)
	return &contents{files, said, err}
}

// tagger finds the entity tag of what is changed, "" when it is not there.
type tagger func(c *contents) (string, error)

// setTag is the tag of a whole set.
func setTag(c *contents) (string, error) { return hashTag(c.files), nil }

func hashTag(files []rule.File) string { return `"` + ruleset.HashOf(files)[:24] + `"` }

// ruleTag is the tag of one rule, which other rules leave as it is.
func ruleTag(id string) tagger {
	return partTag(func(said *ruleedit.Contents) (string, bool) { return said.Rule(id) })
}

func tierTag(tier string) tagger {
	return partTag(func(said *ruleedit.Contents) (string, bool) { return said.Tier(tier) })
}

func partTag(find func(*ruleedit.Contents) (string, bool)) tagger {
	return func(c *contents) (string, error) {
		if c.err != nil {
			return "", c.err
		}
		text, ok := find(c.said)
		if !ok {
			return "", nil
		}
		return tagOf([]byte(text)), nil
	}
}
