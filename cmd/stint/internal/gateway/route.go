package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stintdev/stint/internal/hostname"
)

// MaxRoutes bounds the routes that a request is compared with.
const MaxRoutes = 1000

// route leads requests to a group of upstreams.
type route struct {
	name     string
	host     string // normalized; empty: every host
	prefix   string // of the path, in the form of Options.PathForm; may end with a slash
	group    *group
	strip    string // without a final slash
	add      string // without a final slash
	request  headerEdit
	response headerEdit
	metrics  RouteMetrics
	fallback *FallbackOptions // nil: the gateway's own answers
}

// routes finds the route of a request.
type routes struct {
	all  []*route // most specific first
	only *route   // the single route, if it matches every request; else nil
	form func(path string) (string, error)
}

func newRoutes(o *Options, groups []*group) (*routes, error) {
	all := o.Routes
	switch {
	case len(groups) == 0:
		return nil, errors.New("gateway: no upstream (give at least one group of servers)")
	case len(all) == 0:
		all = []RouteOptions{{Name: "default", Group: groups[0].options.Name}}
	case len(all) > MaxRoutes:
		return nil, fmt.Errorf("gateway: %d routes (use at most %d)", len(all), MaxRoutes)
	}
	t := &routes{form: o.PathForm}
	for i := range all {
		for j := range i {
			if problem := all[i].Conflict(&all[j]); problem != "" {
				return nil, fmt.Errorf("gateway: route %q: %s (change one)", all[i].name(), problem)
			}
		}
		one, err := newRoute(&all[i], groups, o)
		if err != nil {
			return nil, err
		}
		t.all = append(t.all, one)
	}
	slices.SortStableFunc(t.all, moreSpecific)
	if one := t.all[0]; len(t.all) == 1 && one.host == "" && one.prefix == "/" {
		t.only = one
	}
	return t, nil
}

func newRoute(o *RouteOptions, groups []*group, common *Options) (*route, error) {
	if err := o.Check(common.PathForm); err != nil {
		return nil, fmt.Errorf("gateway: route %q: %w", o.name(), err)
	}
	edit := newHeaderEdit(&o.RequestHeaders)
	for name := range edit.names {
		if common.Identifies(http.CanonicalHeaderKey(name)) {
			return nil, fmt.Errorf("gateway: route %q: request_headers: %s identifies the client, according to the settings (remove it from the list)", o.name(), name)
		}
	}
	i := slices.IndexFunc(groups, func(gr *group) bool { return gr.options.Name == o.Group })
	if i < 0 {
		return nil, fmt.Errorf("gateway: route %q: there is no group %q (use one of the groups)", o.name(), o.Group)
	}
	return &route{
		name: o.name(), host: hostname.Normalize(o.Host), prefix: cmp.Or(o.PathPrefix, "/"), group: groups[i],
		strip: strings.TrimSuffix(o.StripPrefix, "/"), add: strings.TrimSuffix(o.AddPrefix, "/"),
		request: edit, response: newHeaderEdit(&o.ResponseHeaders),
		metrics: common.RouteMetrics(o.name()), fallback: o.Fallback,
	}, nil
}

func (o *RouteOptions) name() string { return cmp.Or(o.Name, o.Host+cmp.Or(o.PathPrefix, "/")) }

// moreSpecific orders routes so that the first one that matches is the most specific. Of
// two wildcards that match one host, the longer is the more specific.
func moreSpecific(a, b *route) int {
	return cmp.Or(
		cmp.Compare(hostKind(a.host), hostKind(b.host)),
		cmp.Compare(len(b.host), len(a.host)),
		cmp.Compare(a.host, b.host),
		cmp.Compare(len(b.prefix), len(a.prefix)),
	)
}

func hostKind(host string) int {
	switch {
	case host == "":
		return 2
	case host[0] == '*':
		return 1
	}
	return 0
}

// findRoute sets the route of the exchange and, if the route changes paths, the path that
// the group gets. It returns the answer to a request that cannot be routed, or nil.
func (x *exchange) findRoute(all *routes, r *http.Request) *failure {
	t, form, problem := all.find(r)
	if problem != nil {
		return problem
	}
	x.begin(t)
	if t.strip == "" && t.add == "" {
		return nil
	}
	rest, ok := t.stripped(r.URL.EscapedPath(), form, all.form)
	if !ok {
		return &failure{http.StatusBadRequest, "BAD_PATH", "The path is not written as its route is; write it without dot segments and escapes", 0}
	}
	escaped := cmp.Or(t.add+rest, "/")
	x.path = &url.URL{RawPath: escaped}
	x.path.Path, _ = url.PathUnescape(escaped) // made of parts that are valid
	return nil
}

// find returns the most specific route of a request and, unless every request has the same
// route, the form of its path. It returns the answer to a request without a route.
func (t *routes) find(r *http.Request) (_ *route, path string, _ *failure) {
	if t.only != nil {
		return t.only, "", nil
	}
	path, err := t.form(r.URL.EscapedPath())
	if err != nil {
		return nil, "", ambiguousPath(err)
	}
	host := hostname.Normalize(r.Host)
	for _, one := range t.all {
		if one.matches(host, path) {
			return one, path, nil
		}
	}
	return nil, "", &failure{http.StatusNotFound, "NO_ROUTE", "No route leads to this host and path", 0}
}

func ambiguousPath(err error) *failure {
	return &failure{http.StatusBadRequest, "BAD_PATH", "The path can be read in several ways: " + err.Error(), 0}
}

func (t *route) matches(host, path string) bool {
	return (t.host == "" || hostname.Match(t.host, host)) && hasPrefix(path, t.prefix)
}

// hasPrefix compares as rules do: the prefix /v1/ also matches the path /v1, which is the
// form of /v1/.
func hasPrefix(path, prefix string) bool {
	return strings.HasPrefix(path, prefix) || len(path)+1 == len(prefix) && path == prefix[:len(path)] && prefix[len(path)] == '/'
}

// stripped returns an escaped path without the prefix that the route strips.
//
// The group gets the rest of the path as the client wrote it, because a final slash or an
// escape may matter there. But the prefix cannot simply be cut off: "/v1/../v1/orders" is
// /v1/orders for the rules and the route, and "/../v1/orders" without its first five
// characters. So the rest, read on its own, must be what follows the prefix in the form of
// the whole path, and must not leave its root for servers that read ";" in another way. If
// it is not so, stripped returns false.
func (t *route) stripped(escaped, form string, formOf func(string) (string, error)) (string, bool) {
	if t.strip == "" {
		return escaped, true
	}
	rest, ok := strings.CutPrefix(escaped, t.strip)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	restForm, err := formOf(rest)
	if err != nil || t.strip+strings.TrimSuffix(restForm, "/") != form {
		return "", false
	}
	decoded, err := url.PathUnescape(rest)
	return rest, err == nil && !climbs(decoded)
}
