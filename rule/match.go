package rule

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// conditions is what a request must be for a rule to count it. Each that is
// given must hold.
type conditions struct {
	tier    int32 // of the declared ones; noTier: any
	methods []string
	path    string
	prefix  string
	kept    pathForms // of path and prefix, for a set that keeps paths encoded
	host    string    // "*.example.com" is any name below it
	apiKey  *glob
	headers []headerCondition
	cidrs   []netip.Prefix
	regex   *regexp.Regexp
}

type pathForms struct{ path, prefix string }

type headerCondition struct {
	slot slot
	glob glob
}

// match reports whether every condition holds, the cheap ones first. A rule
// asks for no attribute that it has no condition on.
func (c *conditions) match(q *request) bool {
	return (c.tier == noTier || q.tierOf() == c.tier) &&
		(len(c.methods) == 0 || c.matchMethod(q)) &&
		(c.path == "" && c.prefix == "" || c.matchPath(q)) &&
		(c.host == "" || c.matchHost(q)) &&
		(c.apiKey == nil || c.matchKey(q)) &&
		c.matchHeaders(q) &&
		(len(c.cidrs) == 0 || c.matchIP(q)) &&
		(c.regex == nil || c.matchRegex(q))
}

func (c *conditions) matchMethod(q *request) bool {
	method, ok := q.get(slotMethod)
	return ok && slices.Contains(c.methods, method)
}

func (c *conditions) matchPath(q *request) bool {
	path, ok := q.get(slotPath)
	want := pathForms{c.path, c.prefix}
	if q.set.keepsPaths {
		want = c.kept
	}
	return ok && (want.path == "" || want.path == path) && hasPathPrefix(path, want.prefix)
}

// hasPathPrefix takes the prefix as plain text, but that /v1/ also is the
// beginning of /v1, which is how a path without its final slash reads.
func hasPathPrefix(path, prefix string) bool {
	return strings.HasPrefix(path, prefix) ||
		len(path)+1 == len(prefix) && prefix[len(path)] == '/' && strings.HasPrefix(prefix, path)
}

func (c *conditions) matchHost(q *request) bool {
	host, ok := q.get(slotHost)
	if !ok {
		return false
	}
	if suffix, wild := strings.CutPrefix(c.host, "*"); wild {
		return strings.HasSuffix(host, suffix)
	}
	return host == c.host
}

func (c *conditions) matchKey(q *request) bool {
	key, ok := q.get(slotAPIKey)
	return ok && c.apiKey.match(key)
}

func (c *conditions) matchHeaders(q *request) bool {
	for i := range c.headers {
		value, ok := q.get(c.headers[i].slot)
		if !ok || !c.headers[i].glob.match(value) {
			return false
		}
	}
	return true
}

func (c *conditions) matchIP(q *request) bool {
	a, ok := q.ip()
	if !ok {
		return false
	}
	for _, p := range c.cidrs {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

func (c *conditions) matchRegex(q *request) bool {
	path, ok := q.get(slotPath)
	return ok && c.regex.MatchString(path)
}
