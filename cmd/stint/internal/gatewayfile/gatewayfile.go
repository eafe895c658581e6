// Package gatewayfile reads the file that names the upstreams and routes of the gateway.
//
// Use it at the start of a server. It reports every mistake of a file with its line and
// how to correct it, and promises that [gateway.New] accepts what it returns.
package gatewayfile

import (
	"crypto/tls"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint/cmd/stint/internal/gateway"
	"github.com/stintdev/stint/cmd/stint/internal/yamlfile"
	"github.com/stintdev/stint/internal/secret"
)

// Settings are the contents of a file.
type Settings struct {
	Groups []gateway.GroupOptions
	Routes []gateway.RouteOptions
}

// Read reads a file. pathForm is the [gateway.Options] PathForm in force.
func Read(path string, pathForm func(string) (string, error)) (*Settings, error) {
	root, err := yamlfile.Read(path)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return nil, fmt.Errorf("%s: is empty (write upstreams and routes)", path)
	}
	r := &yamlfile.Reader{Path: path}
	d := document{form: pathForm, groups: map[string]*yaml.Node{}}
	yamlfile.Fields(r, root, "the file", map[string]yamlfile.Field[document]{"upstreams": readGroups, "routes": readRoutes}, &d)
	d.checkRoutes(r, root)
	r.Sort()
	if len(r.Mistakes) > 0 {
		return nil, r.Mistakes
	}
	return &d.Settings, nil
}

// document is a file while it is read.
type document struct {
	Settings

	form   func(string) (string, error) // of paths
	groups map[string]*yaml.Node        // by name: where it is named
	routes []located                    // as Settings.Routes
}

// located is a route with the place of its group; nil if it names none.
type located struct{ route, group *yaml.Node }

func readGroups(r *yamlfile.Reader, n *yaml.Node, d *document) {
	r.Pairs(n, "upstreams", func(key, value *yaml.Node) {
		if key.Value == "" {
			r.Mistake(key, "an upstream has no name", "write it as api: http://10.0.0.1:9000")
			return
		}
		g := gateway.GroupOptions{Name: key.Value}
		d.groups[g.Name] = key
		var at map[string]*yaml.Node
		if value.Kind == yaml.ScalarNode || value.Kind == yaml.SequenceNode {
			readServers(r, value, &g) // short for {servers: …}
		} else {
			at = yamlfile.Fields(r, value, fmt.Sprintf("the upstream %.40q", g.Name), groupFields, &g)
		}
		r.CheckEach(key, at, g.Check())
		d.Groups = append(d.Groups, g)
	})
}

// groupFields are the keys of a group of upstreams.
var groupFields = map[string]yamlfile.Field[gateway.GroupOptions]{
	"servers": readServers,
	"host": func(r *yamlfile.Reader, n *yaml.Node, g *gateway.GroupOptions) {
		g.Host = gateway.HostPolicy(r.Choice(n, "host", "auto", "client", "upstream"))
	},
	"health": func(r *yamlfile.Reader, n *yaml.Node, g *gateway.GroupOptions) {
		yamlfile.Fields(r, n, "health", map[string]yamlfile.Field[gateway.GroupOptions]{
			"path": func(r *yamlfile.Reader, n *yaml.Node, g *gateway.GroupOptions) { g.HealthPath = r.Text(n, "path") },
			"interval": func(r *yamlfile.Reader, n *yaml.Node, g *gateway.GroupOptions) {
				g.HealthInterval = r.Duration(n, "interval")
			},
		}, g)
	},
	"tls":         readTLS,
	"timeouts":    readTimeouts,
	"breaker":     readBreaker,
	"ejection":    readEjection,
	"panic_below": readPanicBelow,
	"bulkhead":    readBulkhead,
	"retry":       readRetry,
}

func readServers(r *yamlfile.Reader, n *yaml.Node, g *gateway.GroupOptions) {
	if yamlfile.Target(n).Kind == yaml.ScalarNode {
		g.Servers = []gateway.ServerOptions{readServer(r, n)}
		return
	}
	r.Items(n, "servers", func(item *yaml.Node) { g.Servers = append(g.Servers, readServer(r, item)) })
}

// readServer reads a URL, or a URL with a weight.
func readServer(r *yamlfile.Reader, n *yaml.Node) (s gateway.ServerOptions) {
	found := len(r.Mistakes)
	if n.Kind == yaml.ScalarNode {
		s.URL = r.URL(n)
	} else {
		yamlfile.Fields(r, n, "a server", map[string]yamlfile.Field[gateway.ServerOptions]{
			"url":    func(r *yamlfile.Reader, n *yaml.Node, s *gateway.ServerOptions) { s.URL = r.URL(n) },
			"weight": func(r *yamlfile.Reader, n *yaml.Node, s *gateway.ServerOptions) { s.Weight = r.Positive(n, "weight") },
		}, &s)
	}
	if len(r.Mistakes) == found {
		r.Check(n, s.Check())
	}
	return s
}

func readTLS(r *yamlfile.Reader, n *yaml.Node, g *gateway.GroupOptions) {
	files := secret.ClientFiles{Prefix: "upstreams." + g.Name + ".tls."}
	var name string
	text := func(to *string) yamlfile.Field[gateway.GroupOptions] {
		return func(r *yamlfile.Reader, n *yaml.Node, _ *gateway.GroupOptions) { *to = r.Text(n, "a name") }
	}
	yamlfile.Fields(r, n, "tls", map[string]yamlfile.Field[gateway.GroupOptions]{
		"ca": text(&files.CA), "cert": text(&files.Cert), "key": text(&files.Key), "server_name": text(&name),
	}, g)
	var err error
	if g.Files, err = secret.OpenClientTLS(files); err != nil {
		r.Mistake(n, err.Error(), "name files in PEM form, a certificate together with its key")
	}
	g.TLS = &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12}
}

func readRoutes(r *yamlfile.Reader, n *yaml.Node, d *document) {
	r.Items(n, "routes", func(item *yaml.Node) {
		var o gateway.RouteOptions
		at := yamlfile.Fields(r, item, "a route", routeFields, &o)
		r.CheckEach(item, at, o.Check(d.form))
		d.routes = append(d.routes, located{item, at["upstream"]})
		d.Routes = append(d.Routes, o)
	})
}

// routeFields are the keys of a route.
var routeFields = map[string]yamlfile.Field[gateway.RouteOptions]{
	"name": func(r *yamlfile.Reader, n *yaml.Node, o *gateway.RouteOptions) { o.Name = r.Text(n, "name") },
	"host": func(r *yamlfile.Reader, n *yaml.Node, o *gateway.RouteOptions) { o.Host = r.Text(n, "host") },
	"path_prefix": func(r *yamlfile.Reader, n *yaml.Node, o *gateway.RouteOptions) {
		o.PathPrefix = r.Text(n, "path_prefix")
	},
	"upstream": func(r *yamlfile.Reader, n *yaml.Node, o *gateway.RouteOptions) { o.Group = r.Text(n, "upstream") },
	"strip_prefix": func(r *yamlfile.Reader, n *yaml.Node, o *gateway.RouteOptions) {
		o.StripPrefix = r.Text(n, "strip_prefix")
	},
	"add_prefix":       func(r *yamlfile.Reader, n *yaml.Node, o *gateway.RouteOptions) { o.AddPrefix = r.Text(n, "add_prefix") },
	"request_headers":  func(r *yamlfile.Reader, n *yaml.Node, o *gateway.RouteOptions) { readHeaders(r, n, &o.RequestHeaders) },
	"response_headers": func(r *yamlfile.Reader, n *yaml.Node, o *gateway.RouteOptions) { readHeaders(r, n, &o.ResponseHeaders) },
	"fallback":         readFallback,
}

func readHeaders(r *yamlfile.Reader, n *yaml.Node, o *gateway.HeaderOptions) {
	yamlfile.Fields(r, n, "headers of a route", map[string]yamlfile.Field[gateway.HeaderOptions]{
		"set": func(r *yamlfile.Reader, n *yaml.Node, o *gateway.HeaderOptions) {
			o.Set = map[string]string{}
			r.Pairs(n, "set", func(key, value *yaml.Node) { o.Set[key.Value] = r.Text(value, key.Value) })
		},
		"remove": func(r *yamlfile.Reader, n *yaml.Node, o *gateway.HeaderOptions) {
			r.Items(n, "remove", func(item *yaml.Node) { o.Remove = append(o.Remove, r.Text(item, "a name")) })
		},
	}, o)
}

// checkRoutes checks what one route alone does not show.
func (d *document) checkRoutes(r *yamlfile.Reader, root *yaml.Node) {
	if len(d.Routes) > gateway.MaxRoutes {
		r.Mistake(root, fmt.Sprintf("there are %d routes", len(d.Routes)), fmt.Sprintf("use at most %d", gateway.MaxRoutes))
		return
	}
	used := map[string]bool{}
	for i := range d.Routes {
		o, at := &d.Routes[i], d.routes[i]
		if _, known := d.groups[o.Group]; !known && at.group != nil {
			r.Mistake(at.group, fmt.Sprintf("there is no upstream %.40q", o.Group), yamlfile.Nearest(o.Group, slices.Sorted(maps.Keys(d.groups))))
		} else if at.group == nil {
			r.Mistake(at.route, "a route without upstream", "write upstream: and the name of one of the upstreams")
		}
		used[o.Group] = true
		for j := range i {
			if problem := o.Conflict(&d.Routes[j]); problem != "" {
				r.Mistake(at.route, problem, fmt.Sprintf("compare it with the route in line %d", d.routes[j].route.Line))
			}
		}
	}
	switch {
	case len(d.groups) == 0 && len(r.Mistakes) == 0:
		r.Mistake(root, "there are no upstreams", "write upstreams: {api: http://127.0.0.1:9000}")
	case len(d.Routes) == 0 && len(d.groups) == 1: // all requests go to it
	default:
		for name, key := range d.groups {
			if !used[name] {
				r.Mistake(key, fmt.Sprintf("no route leads to the upstream %.40q", name), "add a route, or remove the upstream")
			}
		}
	}
}
