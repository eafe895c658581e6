package envoyrls

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/stintdev/stint"
)

// hashMark begins a part of a key that is a hash. Text that begins so is
// itself hashed, so that none can pass for another's hash.
const hashMark = '#'

// maxPart bounds the parts of a key, in bytes.
const maxPart = 256

// key is whose use a descriptor counts: the value and the key of each entry,
// then the domain. Two different descriptors never have the same one. The
// value of the first entry is its first part, by which a Cluster spreads keys.
func key(domain string, entries []*common.RateLimitDescriptor_Entry, shared []string) string {
	var room [9]string // on the stack, for as many entries as are usual
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
		return string(hashMark) + hashed(joined) // begins with two marks, as no part does
	}
	return joined
}

// valuePart is a value as a part of a key, or the pattern that it counts as.
// Who sends the text of a pattern as a value of his own does not count with
// those who share that pattern.
func valuePart(value, pattern string) string {
	switch {
	case pattern != "":
		return part(pattern)
	case strings.IndexByte(value, '*') >= 0:
		return string(hashMark) + "*" + hashed(value) // as no other part begins
	}
	return part(value)
}

// part is text as a part of a key: as it is where that can be.
func part(text string) string {
	if len(text) > maxPart || text == "" || text[0] == hashMark || !plain(text) && stint.ValidateKey(text) != nil {
		return hashed(text)
	}
	return text
}

// plain reports whether all of a text is printable ASCII, as nearly all are.
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
