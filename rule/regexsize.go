package rule

import (
	"fmt"
	"regexp/syntax"
)

// Bounds on the size of expressions, in instructions of the regexp machine. A
// match executes at most that many instructions for each byte of a path.
const (
	maxRegexSize   = 5_000     // one expression
	maxRegexesSize = 1_000_000 // all expressions of a set; repeated expressions count once
)

// checkRegexSize rejects an expression that is short but expands to a large
// program, such as a{1000}b{1000}, before it is compiled.
func (c *compiler) checkRegexSize(t located) bool {
	tree, err := syntax.Parse(t.text, syntax.Perl)
	if err != nil {
		return true // compiling reports the error
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

// regexSize estimates the number of instructions of the expression, capped
// slightly above the bound.
func regexSize(tree *syntax.Regexp) int {
	size := 1 + len(tree.Rune)
	if tree.Op == syntax.OpCharClass {
		size = 1 + len(tree.Rune)/16 // one instruction that searches a list
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
