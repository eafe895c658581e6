package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// route leads requests to a group of upstreams.
type route struct {
	options RouteOptions
	group   *group
}

// routes finds the route of a request.
type routes struct {
	all []*route // most specific first
}

func newRoutes(all []RouteOptions, groups []*group) (*routes, error) {
	if len(groups) == 0 {
		return nil, errors.New("gateway: no upstream (give at least one group of servers)")
	}
	if len(all) == 0 {
		all = []RouteOptions{{Name: "default", Group: groups[0].options.Name}}
	}
	t := &routes{}
	for _, o := range all {
		i := slices.IndexFunc(groups, func(gr *group) bool { return gr.options.Name == o.Group })
		if i < 0 {
			return nil, fmt.Errorf("gateway: route %q: there is no group %q", o.Name, o.Group)
		}
		t.all = append(t.all, &route{options: o, group: groups[i]})
	}
	return t, nil
}

// find returns the most specific route that matches, or nil.
func (t *routes) find(*http.Request) *route { return t.all[0] }
