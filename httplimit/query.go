package httplimit

import (
	"net/url"
	"strings"
)

// query returns the value of a query parameter. It parses as [url.ParseQuery] does,
// except that ";" separates parameters as "&" does, because some servers split there.
// A parameter that is given twice is an error: some servers use the first value, some
// the last, and some join them. A value that cannot be decoded is an error too,
// because some servers use it undecoded.
func query(raw, name string) (value string, err error) {
	found := false
	for raw != "" {
		pair := raw
		if end := strings.IndexAny(raw, "&;"); end >= 0 {
			pair, raw = raw[:end], raw[end+1:]
		} else {
			raw = ""
		}
		key, text, _ := strings.Cut(pair, "=")
		if pair == "" || !spells(key, name) {
			continue
		}
		if found {
			return "", refused("query parameter "+name, "is sent several times", "send it once")
		}
		found = true
		if value, err = url.QueryUnescape(text); err != nil {
			return "", refused("query parameter "+name, "cannot be decoded", "write % as %25")
		}
	}
	return value, nil
}

// spells reports whether key, which may be percent-encoded, decodes to name.
func spells(key, name string) bool {
	if !strings.ContainsAny(key, "%+") {
		return key == name
	}
	text, err := url.QueryUnescape(key)
	return err == nil && text == name
}
