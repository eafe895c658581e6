package envoyrls

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/stintdev/stint"
)

// hashMark begins a part of a key that is a hash. Text that begins with it is hashed
// too, so text can never equal the hash of another text.
const hashMark = '#'

// maxPart bounds the parts of a key, in bytes.
const maxPart = 256

// key returns the key of a descriptor: the value and the key of each entry, then the
// domain. Different descriptors have different keys. The value of the first entry
// comes first, because a Cluster distributes keys by their first part.
func key(domain string, entries []*common.RateLimitDescriptor_Entry, shared []string) string {
	var room [9]string // on the stack; enough for as many entries as are usual
	parts := room[:0]
	for i, entry := range entries {
		pattern := ""
		if shared != nil {
			pattern = shared[i]
		}
		parts = append(parts, valuePart(entry.GetValue(), pattern), part(entry.GetKey()))
	}
	joined := stint.JoinKey(append(parts, part(domain))...)
	if len(joined) > stint.MaxKey {
		return string(hashMark) + hashed(joined) // begins with two marks, unlike every part
	}
	return joined
}

// valuePart returns the part of a key for a value, or for the pattern that the value
// is counted as. A client that sends the text of a pattern as its value does not share
// the counter of that pattern.
func valuePart(value, pattern string) string {
	switch {
	case pattern != "":
		return part(pattern)
	case strings.IndexByte(value, '*') >= 0:
		return string(hashMark) + "*" + hashed(value) // unlike any other part
	}
	return part(value)
}

// part returns text as a part of a key: unchanged if it is valid in a key, and hashed if not.
func part(text string) string {
	if len(text) > maxPart || text == "" || text[0] == hashMark || !plain(text) && stint.ValidateKey(text) != nil {
		return hashed(text)
	}
	return text
}

// plain reports whether text is entirely printable ASCII, as nearly all is.
func plain(text string) bool {
	for i := range len(text) {
		if text[i]-' ' > '~'-' ' {
			return false
		}
	}
	return true
}

func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return string(hashMark) + base64.RawURLEncoding.EncodeToString(sum[:])
}
