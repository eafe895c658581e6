package adminapi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/stintdev/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// tagOf is the entity tag of a text.
func tagOf(text []byte) string {
	sum := sha256.Sum256(text)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

// setTag is the tag of a whole set.
func setTag(files []rule.File) (string, error) {
	return `"` + ruleset.HashOf(files)[:24] + `"`, nil
}

// ruleTag is the tag of one rule, which other rules leave as it is.
func ruleTag(id string) func([]rule.File) (string, error) {
	return func(files []rule.File) (string, error) { return textTag(rule.TextOfRule(files, id)) }
}

func tierTag(tier string) func([]rule.File) (string, error) {
	return func(files []rule.File) (string, error) { return textTag(rule.TextOfTier(files, tier)) }
}

func textTag(text rule.Text, err error) (string, error) {
	if _, missing := errors.AsType[*rule.NotFoundError](err); missing {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return tagOf(text.JSON()), nil
}
