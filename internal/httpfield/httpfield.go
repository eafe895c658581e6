// Package httpfield knows which header fields of HTTP may have commas in one line,
// so that two lines of a field are told from one.
//
// A recipient may join the lines of a field by commas (RFC 9110, section 5.3). Some
// proxies do so before they ask about a request, and send the lines apart to the
// application.
package httpfield

import (
	"maps"
	"net/http"
	"strings"
)

// IsList reports whether the value of a field is a list, so that it may be sent in
// several lines. The name is canonical.
func IsList(name string) bool {
	switch name {
	case "Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Cache-Control", "Forwarded",
		"If-Match", "If-None-Match", "Pragma", "Prefer", "Tracestate", "Via", "X-Forwarded-For":
		return true
	}
	return false
}

// hasCommas reports whether one line of a field commonly has commas. None of these
// says who a client is.
func hasCommas(name string) bool {
	switch name {
	case "Cookie", "Date", "If-Modified-Since", "If-Range", "If-Unmodified-Since", "Referer", "User-Agent", "X-Forwarded-Proto":
		return true
	}
	return IsList(name) || strings.HasPrefix(name, "Sec-Ch-")
}

// Separate returns a header in which a comma ends a line, as it may have done before
// a proxy joined the lines. Whoever reads a field of one value finds several lines
// then, and refuses the request: two API keys must not count as a third. Names are
// canonical. The header is returned as it is when nothing in it was joined.
func Separate(h http.Header) http.Header {
	var separate http.Header
	for name, lines := range h {
		if hasCommas(name) || !anyHas(lines, ',') {
			continue
		}
		if separate == nil {
			separate = maps.Clone(h)
		}
		separate[name] = apart(name, lines)
	}
	if separate == nil {
		return h
	}
	return separate
}

func anyHas(lines []string, c byte) bool {
	for _, line := range lines {
		if strings.IndexByte(line, c) >= 0 {
			return true
		}
	}
	return false
}

// apart returns the lines of one field that joined may have been made of.
func apart(name string, joined []string) (lines []string) {
	for _, text := range joined {
		first := len(lines)
		for part := range strings.SplitSeq(text, ",") {
			if name == "Authorization" && len(lines) > first && isParameter(part) {
				lines[len(lines)-1] += "," + part
				continue
			}
			lines = append(lines, part)
		}
	}
	for i, line := range lines {
		lines[i] = strings.Trim(line, " \t")
	}
	return lines
}

// isParameter reports whether a part of Authorization belongs to the credentials
// before it: it is a parameter, such as realm="x", and no scheme with a token.
// Quotes are not followed: one that is never closed would hide the next line.
func isParameter(part string) bool {
	part = strings.TrimLeft(part, " \t")
	word, rest := part, ""
	if end := strings.IndexAny(part, " \t="); end >= 0 {
		word, rest = part[:end], strings.TrimLeft(part[end:], " \t")
	}
	return word != "" && strings.HasPrefix(rest, "=")
}
