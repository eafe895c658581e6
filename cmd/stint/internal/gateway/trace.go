package gateway

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"
)

// W3C Trace Context (https://www.w3.org/TR/trace-context/). The gateway records no span
// of its own, so it forwards a valid context unchanged: a span id that is never reported
// would break the trace. Without a valid context it begins a trace.

const maxTraceMembers = 32

// setTrace writes a valid trace context, derived from the request, to out.
func setTrace(in, out http.Header) {
	parents, state := in["Traceparent"], strings.Join(in["Tracestate"], ",")
	delete(out, "Tracestate")
	if len(parents) != 1 || !validTraceparent(parents[0]) {
		out["Traceparent"] = []string{newTraceparent()}
		return
	}
	out["Traceparent"] = parents
	if state != "" && validTracestate(state) {
		out["Tracestate"] = []string{state}
	}
}

// newTraceparent begins a trace. It is marked as sampled, because an upstream that follows its
// caller's decision would record nothing without the mark. Ids have to be unique, not
// secret.
func newTraceparent() string {
	var id [24]byte
	for i := 0; i < len(id); i += 8 {
		binary.BigEndian.PutUint64(id[i:], rand.Uint64())
	}
	id[0] |= 1 // neither id may be all zero
	id[16] |= 1
	text := append(make([]byte, 0, 64), "00-"...)
	text = append(hex.AppendEncode(text, id[:16]), '-')
	text = append(hex.AppendEncode(text, id[16:]), "-01"...)
	return string(text)
}

// validTraceparent accepts version-traceid-parentid-flags in lower-case hexadecimal. A
// version after 00 may append more after another hyphen.
func validTraceparent(s string) bool {
	parts := strings.SplitN(s, "-", 5)
	if len(parts) < 4 || len(parts) > 4 && parts[0] == "00" {
		return false
	}
	version, trace, parent, flags := parts[0], parts[1], parts[2], parts[3]
	return isHex(version, 2) && version != "ff" && isID(trace, 32) && isID(parent, 16) && isHex(flags, 2)
}

func isHex(s string, length int) bool {
	return len(s) == length && strings.Trim(s, "0123456789abcdef") == ""
}

// isID accepts an id of the given length that is not all zero.
func isID(s string, length int) bool { return isHex(s, length) && strings.Trim(s, "0") != "" }

// validTracestate accepts a list of at most 32 members key=value with unique keys.
func validTracestate(s string) bool {
	seen := make(map[string]bool)
	for member := range strings.SplitSeq(s, ",") {
		member = strings.Trim(member, " \t")
		if member == "" {
			continue // allowed, so that lists can be joined
		}
		key, value, found := strings.Cut(member, "=")
		if !found || !validStateKey(key) || !validStateValue(value) || seen[key] {
			return false
		}
		seen[key] = true
	}
	return len(seen) > 0 && len(seen) <= maxTraceMembers
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
