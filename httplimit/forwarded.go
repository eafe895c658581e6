package httplimit

import "strings"

// badHop is what lastForwarded returns for an element without a valid "for". It is not
// parsable as an address.
const badHop = "?"

// lastForwarded cuts the last element from a line of Forwarded (RFC 7239) and returns
// the node of its "for", unquoted.
//
// It reads from right to left, because only the elements that trusted proxies appended
// at the end are known to be well formed. A quote that a client left open further left
// must not hide them.
func lastForwarded(line string) (rest, hop string) {
	comma := lastOutsideQuotes(line, ',')
	element := strings.Trim(line[comma+1:], " \t")
	rest = line[:max(comma, 0)]
	if element == "" {
		return rest, ""
	}
	return rest, forNode(element)
}

// forNode returns the value of an element's "for", of which there must be exactly one.
func forNode(element string) string {
	node := ""
	for element != "" {
		semicolon := lastOutsideQuotes(element, ';')
		name, value, _ := strings.Cut(element[semicolon+1:], "=")
		element = element[:max(semicolon, 0)]
		if !strings.EqualFold(strings.Trim(name, " \t"), "for") {
			continue
		}
		if node != "" { // a duplicate: RFC 7239 allows each name once
			return badHop
		}
		node = unquote(strings.Trim(value, " \t"))
	}
	if node == "" {
		return badHop
	}
	return withoutHiddenPort(node)
}

// withoutHiddenPort cuts an obfuscated port (RFC 7239, section 6.3), which parseHop
// cannot parse.
func withoutHiddenPort(node string) string {
	if hidden := strings.LastIndex(node, ":_"); hidden > 0 {
		return node[:hidden]
	}
	return node
}

// lastOutsideQuotes returns the index of the last c outside quoted strings, −1 if
// there is none.
func lastOutsideQuotes(s string, c byte) int {
	quoted := false
	for i := len(s) - 1; i >= 0; i-- {
		switch {
		case s[i] == '"' && !escaped(s, i):
			quoted = !quoted
		case s[i] == c && !quoted:
			return i
		}
	}
	return -1
}

// escaped reports whether an odd number of backslashes stands before i.
func escaped(s string, i int) bool {
	n := i
	for n > 0 && s[n-1] == '\\' {
		n--
	}
	return (i-n)%2 == 1
}

// unquote returns the text of a token or a quoted string, or badHop for an
// unterminated string.
func unquote(value string) string {
	if value == "" || value[0] != '"' {
		return value
	}
	if len(value) < 2 || value[len(value)-1] != '"' || escaped(value, len(value)-1) {
		return badHop
	}
	value = value[1 : len(value)-1]
	if !strings.Contains(value, `\`) {
		return value
	}
	var text strings.Builder
	for i := 0; i < len(value); i++ {
		if value[i] == '\\' {
			i++
		}
		text.WriteByte(value[i])
	}
	return text.String()
}
