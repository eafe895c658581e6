package rule

import (
	"fmt"
	"regexp/syntax"
)

// Bounds of expressions, in the steps of the machine that runs them. A match
// takes at most as many steps for each byte of a path.
const (
	maxRegexSize   = 5_000     // of one
	maxRegexesSize = 1_000_000 // of all in a set, the same one counted once
)

// checkRegexSize refuses an expression that is short and yet large, as
// a{1000}b{1000} is, before it is compiled.
func (c *compiler) checkRegexSize(t located) bool {
	tree, err := syntax.Parse(t.text, syntax.Perl)
	if err != nil {
		return true // for who compiles it to tell
	}
	size := regexSize(tree)
	c.regexSizes += size
	switch {
	case size > maxRegexSize:
		c.mistake(t.at, fmt.Sprintf("endpoint_regex: takes over %d steps a byte", maxRegexSize), "repeat less, or use path or path_prefix")
		return false
	case c.regexSizes > maxRegexesSize:
		c.mistake(t.at, fmt.Sprintf("endpoint_regex: all expressions together take over %d steps", maxRegexesSize), "use path or path_prefix where they do")
		return false
	}
	return true
}

// regexSize is about how many steps the expression has, but no more than a
// little over the bound.
func regexSize(tree *syntax.Regexp) int {
	size := 1 + len(tree.Rune)
	if tree.Op == syntax.OpCharClass {
		size = 1 + len(tree.Rune)/16 // one step that looks in a list
	}
	for _, sub := range tree.Sub {
		if size += regexSize(sub); size > maxRegexSize {
			return maxRegexSize + 1
		}
	}
	if tree.Op == syntax.OpRepeat {
		size *= max(tree.Min, tree.Max, 1)
	}
	return min(size, maxRegexSize+1)
}
