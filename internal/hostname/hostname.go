// Package hostname compares the host names of requests with those of settings.
//
// Use it wherever a host decides something, such as a rule or a route. Otherwise a client
// could spell one host in several ways ("API.example.com:443", "api.example.com.") and get
// another rule, or a route whose rule does not match. No function of this package panics
// on any input.
package hostname

import "strings"

// Normalize returns a Host header in lower case, without its port and without the final
// dot.
func Normalize(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.Contains(host[i:], "]") && (host[0] == '[' || strings.Count(host, ":") == 1) {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// IsPattern reports whether a normalized pattern can match a host: a name, an address, or
// "*." before a name. Requests carry names in ASCII ("xn--bcher-kva.example"), so that a
// name with other letters would match none.
func IsPattern(pattern string) bool {
	name := strings.TrimPrefix(pattern, "*.")
	return name != "" && len(name) <= 255 && !strings.ContainsFunc(name, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune("*@/", c)
	})
}

// Match reports whether a normalized host has the name in the pattern. The pattern
// "*.example.com" matches every name below example.com, at any depth, but not example.com
// itself.
func Match(pattern, host string) bool {
	if suffix, wild := strings.CutPrefix(pattern, "*"); wild {
		return strings.HasSuffix(host, suffix)
	}
	return host == pattern
}
