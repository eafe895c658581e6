// Package httpfield knows which HTTP header fields may have commas within one line.
// With that it undoes the joining of several lines of a field into one.
//
// A recipient may join the lines of a field with commas (RFC 9110, section 5.3). Some
// proxies join them when they ask whether a request may pass, but send them separately
// to the application.
package httpfield

import (
	"maps"
	"net/http"
	"strings"
)

// IsList reports whether the value of a field is a list, so that it may span several
// lines. The name is canonical.
func IsList(name string) bool {
	switch name {
	case "Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Cache-Control", "Forwarded",
		"If-Match", "If-None-Match", "Pragma", "Prefer", "Tracestate", "Via", "X-Forwarded-For":
		return true
	}
	return false
}

// hasCommas reports whether one line of a field commonly has commas. None of these
// fields identifies a client.
func hasCommas(name string) bool {
	switch name {
	case "Cookie", "Date", "If-Modified-Since", "If-Range", "If-Unmodified-Since", "Referer", "User-Agent", "X-Forwarded-Proto":
		return true
	}
	return IsList(name) || strings.HasPrefix(name, "Sec-Ch-")
}

// Separate splits the header lines that a proxy may have joined: at each comma, except
// in fields that commonly have commas. A field that must have one value then has
// several lines, and its reader refuses the request. Otherwise two joined API keys
// would count as a third key. Names must be canonical. If nothing needs splitting,
// Separate returns h itself.
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

// apart splits the joined lines of one field.
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
// before it: it is a parameter, such as realm="x", and not a scheme with a token. It
// does not track quotes, because an unclosed quote would hide the next line.
func isParameter(part string) bool {
	part = strings.TrimLeft(part, " \t")
	word, rest := part, ""
	if end := strings.IndexAny(part, " \t="); end >= 0 {
		word, rest = part[:end], strings.TrimLeft(part[end:], " \t")
	}
	return word != "" && strings.HasPrefix(rest, "=")
}
