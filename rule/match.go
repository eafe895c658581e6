package rule

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// conditions are the match conditions of a rule. Every condition that is set
// must hold.
type conditions struct {
	tier    int32 // index of a declared tier; noTier matches any
	methods []string
	path    string
	prefix  string
	kept    pathForms // forms of path and prefix for a set with KeepPathEncoding
	host    string    // "*.example.com" matches every subdomain
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

// match reports whether every condition holds. Cheap conditions are tested
// first. A rule reads only the attributes that it has conditions on.
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

// hasPathPrefix compares the prefix as plain text, with one exception: the
// prefix /v1/ also matches the path /v1, which is the normal form of /v1/.
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
