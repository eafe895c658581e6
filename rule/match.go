package rule

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/stintdev/stint/internal/hostname"
)

// conditions are the match conditions of a rule. Every condition that is set
// must hold.
type conditions struct {
	tier    int32 // index of a declared tier; noTier matches any
	methods []string
	path    string
	prefix  string
	kept    pathForms // forms of path and prefix for a set with PathKeep
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
	if c.tier != noTier && q.tierOf() != c.tier {
		return false
	}
	if len(c.methods) > 0 {
		if method, ok := q.get(slotMethod); !ok || !slices.Contains(c.methods, method) {
			return false
		}
	}
	if c.path != "" || c.prefix != "" {
		want := pathForms{c.path, c.prefix}
		if q.set.pathEncoding == PathKeep {
			want = c.kept
		}
		path, ok := q.get(slotPath)
		if !ok || want.path != "" && want.path != path || !hasPathPrefix(path, want.prefix) {
			return false
		}
	}
	if c.host != "" {
		if host, ok := q.get(slotHost); !ok || !hostname.Match(c.host, host) {
			return false
		}
	}
	if c.apiKey != nil {
		if key, ok := q.get(slotAPIKey); !ok || !c.apiKey.match(key) {
			return false
		}
	}
	for i := range c.headers {
		if value, ok := q.get(c.headers[i].slot); !ok || !c.headers[i].glob.match(value) {
			return false
		}
	}
	if len(c.cidrs) > 0 {
		a, ok := q.ip()
		if !ok || !slices.ContainsFunc(c.cidrs, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return false
		}
	}
	if c.regex != nil {
		if path, ok := q.get(slotPath); !ok || !c.regex.MatchString(path) {
			return false
		}
	}
	return true
}

// hasPathPrefix compares the prefix as plain text, with one exception: the
// prefix /v1/ also matches the path /v1, which is the normal form of /v1/.
func hasPathPrefix(path, prefix string) bool {
	return strings.HasPrefix(path, prefix) ||
		len(path)+1 == len(prefix) && prefix[len(path)] == '/' && strings.HasPrefix(prefix, path)
}
