package httplimit

import (
	"net/url"
	"strings"
)

// query returns the value of a name. It reads as [url.ParseQuery] does, but
// takes ";" for "&", as some servers do. A name that stands there twice is an
// error: some servers take the first value, some the last, and some join them.
// So is a value that cannot be decoded, which some servers take as it stands.
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

// spells reports whether key, which may be encoded, is name.
func spells(key, name string) bool {
	if !strings.ContainsAny(key, "%+") {
		return key == name
	}
	text, err := url.QueryUnescape(key)
	return err == nil && text == name
}
