package httplimit

import (
	"net/url"
	"strings"
)

// query returns the first value of a name, as [url.ParseQuery] reads it but
// without the map.
func query(raw, name string) string {
	for pair := range strings.SplitSeq(raw, "&") {
		key, value, _ := strings.Cut(pair, "=")
		if pair == "" || strings.Contains(pair, ";") || !spells(key, name) {
			continue
		}
		if text, err := url.QueryUnescape(value); err == nil {
			return text
		}
	}
	return ""
}

// spells reports whether key, which may be encoded, is name.
func spells(key, name string) bool {
	if !strings.ContainsAny(key, "%+") {
		return key == name
	}
	text, err := url.QueryUnescape(key)
	return err == nil && text == name
}
