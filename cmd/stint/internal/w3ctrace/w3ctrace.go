// Package w3ctrace reads and writes the trace context of a request
// (https://www.w3.org/TR/trace-context/).
//
// It promises that what it accepts is valid by the letter of the standard and bounded in
// size, because callers choose it.
package w3ctrace

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strings"
)

// The names of the header fields as net/http spells them. The metadata of gRPC has them in
// lower case.
const (
	Parent = "Traceparent"
	State  = "Tracestate"
)

// Context names a span in a trace.
type Context struct {
	TraceID [16]byte
	SpanID  [8]byte
	Sampled bool // the span is recorded
}

// New begins a trace. Ids have to be unique, not secret.
func New(sampled bool) (c Context) {
	binary.BigEndian.PutUint64(c.TraceID[:], rand.Uint64()|1<<63) // neither id may be all zero
	binary.BigEndian.PutUint64(c.TraceID[8:], rand.Uint64())
	binary.BigEndian.PutUint64(c.SpanID[:], rand.Uint64()|1<<63)
	c.Sampled = sampled
	return c
}

// String returns the context as a value of [Parent].
func (c Context) String() string {
	text := append(make([]byte, 0, 64), "00-"...)
	text = append(hex.AppendEncode(text, c.TraceID[:]), '-')
	text = append(hex.AppendEncode(text, c.SpanID[:]), "-00"...)
	if c.Sampled {
		text[len(text)-1] = '1'
	}
	return string(text)
}

// Parse reads the values of [Parent] of a request. It returns false unless there is exactly
// one, and it is valid: version-traceid-parentid-flags in lower-case hexadecimal. A version
// after 00 may append more after another hyphen.
func Parse(parents []string) (c Context, ok bool) {
	if len(parents) != 1 {
		return c, false
	}
	parts := strings.SplitN(parents[0], "-", 5)
	if len(parts) < 4 || len(parts) > 4 && parts[0] == "00" {
		return c, false
	}
	version, trace, parent, flags := parts[0], parts[1], parts[2], parts[3]
	if !isHex(version, 2) || version == "ff" || !isID(trace, 32) || !isID(parent, 16) || !isHex(flags, 2) {
		return c, false
	}
	_, _ = hex.Decode(c.TraceID[:], []byte(trace)) // isHex has checked all of them
	_, _ = hex.Decode(c.SpanID[:], []byte(parent))
	var bits [1]byte
	_, _ = hex.Decode(bits[:], []byte(flags))
	c.Sampled = bits[0]&1 != 0
	return c, true
}

func isHex(s string, length int) bool {
	return len(s) == length && strings.Trim(s, "0123456789abcdef") == ""
}

// isID accepts an id of the given length that is not all zero.
func isID(s string, length int) bool { return isHex(s, length) && strings.Trim(s, "0") != "" }

const maxMembers = 32

// ValidState accepts a list of at most 32 members key=value with unique keys. It stops at the
// first member too many: a caller may send thousands.
func ValidState(s string) bool {
	seen := make([]string, 0, maxMembers)
	for member := range strings.SplitSeq(s, ",") {
		member = strings.Trim(member, " \t")
		if member == "" {
			continue // allowed, so that lists can be joined
		}
		key, value, found := strings.Cut(member, "=")
		if !found || !validStateKey(key) || !validStateValue(value) || len(seen) == maxMembers || slices.Contains(seen, key) {
			return false
		}
		seen = append(seen, key)
	}
	return len(seen) > 0
}

// validStateKey accepts a name, or tenant@system.
func validStateKey(key string) bool {
	tenant, system, several := strings.Cut(key, "@")
	if !several {
		return len(key) <= 256 && isStateName(key, "abcdefghijklmnopqrstuvwxyz")
	}
	return len(tenant) <= 241 && isStateName(tenant, "abcdefghijklmnopqrstuvwxyz0123456789") &&
		len(system) <= 14 && isStateName(system, "abcdefghijklmnopqrstuvwxyz")
}

func isStateName(s, first string) bool {
	return s != "" && strings.IndexByte(first, s[0]) >= 0 &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_-*/") == ""
}

// validStateValue accepts 1 to 256 printable characters without comma and equals sign;
// the last is not a space.
func validStateValue(value string) bool {
	if value == "" || len(value) > 256 || value[len(value)-1] == ' ' {
		return false
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == ',' || c == '=' {
			return false
		}
	}
	return true
}
