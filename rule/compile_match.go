package rule

import (
	"fmt"
	"net/netip"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/stintdev/stint/internal/hostname"
	"github.com/stintdev/stint/internal/urlpath"
)

// maxRegex is the longest endpoint_regex, in bytes.
const maxRegex = 4096

func (c *compiler) compileMatch(d *rawMatch) conditions {
	m := conditions{tier: noTier, methods: c.compileMethods(d.methods), cidrs: c.compileNetworks(d.cidrs)}
	if c.checkPath(d.path, "path") {
		m.kept.path = urlpath.Normalize(d.path.text)
		m.path = c.decodedPath(d.path, "path")
	}
	if c.checkPath(d.prefix, "path_prefix") {
		m.kept.prefix = withFinalSlash(d.prefix.text, urlpath.Normalize(d.prefix.text))
		m.prefix = withFinalSlash(d.prefix.text, c.decodedPath(d.prefix, "path_prefix"))
	}
	m.host = c.compileHost(d.host)
	if d.apiKey.text != "" && c.checkPattern(d.apiKey) {
		g := newGlob(d.apiKey.text)
		m.apiKey = &g
	}
	for _, h := range d.headers {
		m.headers = append(m.headers, c.compileHeader(h))
	}
	m.regex = c.compileRegex(d.regex)
	return m
}

func (c *compiler) compileMethods(list []located) (methods []string) {
	for _, t := range list {
		if !isToken(t.text) {
			c.mistake(t.at, fmt.Sprintf("methods: %.40q is not a method", t.text), "write it as GET or POST")
		}
		methods = append(methods, strings.ToUpper(t.text))
	}
	return methods
}

func (c *compiler) compileNetworks(list []located) (networks []netip.Prefix) {
	for _, t := range list {
		p, ok := parseNetwork(t.text)
		if !ok {
			c.mistake(t.at, fmt.Sprintf("cidr: %.80q is not a network", t.text), "write it as 10.0.0.0/8 or 2001:db8::/32")
		}
		networks = append(networks, p)
	}
	return networks
}

func (c *compiler) checkPath(t located, field string) bool {
	switch {
	case t.text == "":
		return false
	case !strings.HasPrefix(t.text, "/"):
		c.mistake(t.at, fmt.Sprintf("%s: %.80q does not begin with /", field, t.text), fmt.Sprintf("write /%.80s", t.text))
		return false
	case strings.ContainsAny(t.text, "?#"):
		c.mistake(t.at, fmt.Sprintf("%s: %.80q has a query or fragment, which is not part of a path", field, t.text), "remove the text from ? or # on")
		return false
	}
	return true
}

func (c *compiler) decodedPath(t located, field string) string {
	form, err := urlpath.Decode(t.text)
	if err != nil {
		c.mistake(t.at, fmt.Sprintf("%s: %.80q: %v", field, t.text, err), "write the decoded path, such as /v1/orders")
	}
	return form
}

// withFinalSlash restores the final slash of a prefix in its normal form,
// because /v1/ is more specific than /v1.
func withFinalSlash(prefix, form string) string {
	if strings.HasSuffix(prefix, "/") && !strings.HasSuffix(form, "/") {
		form += "/"
	}
	return form
}

func (c *compiler) compileHost(t located) string {
	if t.text == "" {
		return ""
	}
	host := hostname.Normalize(t.text)
	if !hostname.IsPattern(host) || strings.Contains(t.text, "/") {
		c.mistake(t.at, fmt.Sprintf("host: %.80q is not a host name", t.text), "write it in ASCII as api.example.com, or *.example.com for every name below it")
	}
	return host
}

func (c *compiler) compileHeader(h rawPair) headerCondition {
	if !isToken(h.name.text) {
		c.mistake(h.name.at, fmt.Sprintf("headers: %.80q is not a header name", h.name.text), "write it as {x-plan: gold}")
	}
	c.checkPattern(h.value)
	return headerCondition{c.slotOf("header:"+h.name.text, h.name.at), newGlob(h.value.text)}
}

// compileRegex compiles an expression once, even if several rules use it.
func (c *compiler) compileRegex(t located) *regexp.Regexp {
	if t.text == "" {
		return nil
	}
	if re, ok := c.regexes[t.text]; ok {
		return re
	}
	if len(t.text) > maxRegex {
		c.mistake(t.at, fmt.Sprintf("endpoint_regex: is %d bytes long", len(t.text)), fmt.Sprintf("use at most %d", maxRegex))
		return nil
	}
	if !c.checkRegexSize(t) {
		c.regexes[t.text] = nil
		return nil
	}
	re, err := regexp.Compile(t.text)
	if err != nil {
		c.mistake(t.at, "endpoint_regex: "+strings.TrimPrefix(err.Error(), "error parsing regexp: "), "write it in RE2's syntax: https://golang.org/s/re2syntax")
		return nil
	}
	c.regexes[t.text] = re
	return re
}

// Bounds on the size of expressions, in instructions of the regexp machine. A
// match executes at most that many instructions for each byte of a path.
const (
	maxRegexSize   = 5_000     // instructions of one expression
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
		c.mistake(t.at, fmt.Sprintf("endpoint_regex: needs more than %d steps for each byte of a path", maxRegexSize), "repeat less, or use path or path_prefix")
		return false
	case c.regexSizes > maxRegexesSize:
		c.mistake(t.at, fmt.Sprintf("endpoint_regex: all expressions together need more than %d steps", maxRegexesSize), "use path or path_prefix where they suffice")
		return false
	}
	return true
}

// regexSize estimates the number of instructions of the expression, capped
// slightly above the bound.
func regexSize(tree *syntax.Regexp) int {
	size := 1 + len(tree.Rune)
	if tree.Op == syntax.OpCharClass {
		size = 1 + len(tree.Rune)/16 // a class of characters is one instruction that searches a list
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
