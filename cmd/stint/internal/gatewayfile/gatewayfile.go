// Package gatewayfile reads the file that names the upstreams and routes of the gateway.
//
// Use it at the start of a server. It reports every mistake of a file with its line and
// how to correct it, and promises that [gateway.New] accepts what it returns.
package gatewayfile

import (
	"crypto/tls"
	"fmt"

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
	r := &reader{path: path, form: pathForm, groups: map[string]*yaml.Node{}}
	if root == nil {
		return nil, fmt.Errorf("%s: is empty (write upstreams and routes)", path)
	}
	var s Settings
	readFields(r, root, "the file", map[string]field[Settings]{"upstreams": readGroups, "routes": readRoutes}, &s)
	r.checkRoutes(root, &s)
	if len(r.mistakes) > 0 {
		return nil, r.mistakes
	}
	return &s, nil
}

func readGroups(r *reader, n *yaml.Node, s *Settings) {
	r.pairs(n, "upstreams", func(key, value *yaml.Node) {
		if key.Value == "" {
			r.mistake(key, "an upstream has no name", "write it as api: http://10.0.0.1:9000")
			return
		}
		g := gateway.GroupOptions{Name: key.Value}
		r.groups[g.Name] = key
		var at map[string]*yaml.Node
		if value.Kind == yaml.ScalarNode || value.Kind == yaml.SequenceNode {
			readServers(r, value, &g) // short for {servers: …}
		} else {
			at = readFields(r, value, fmt.Sprintf("the upstream %.40q", g.Name), groupFields, &g)
		}
		r.checkEach(key, at, g.Check())
		s.Groups = append(s.Groups, g)
	})
}

// groupFields are the keys of a group of upstreams.
var groupFields = map[string]field[gateway.GroupOptions]{
	"servers": readServers,
	"host": func(r *reader, n *yaml.Node, g *gateway.GroupOptions) {
		g.Host = gateway.HostPolicy(r.choice(n, "host", "auto", "client", "upstream"))
	},
	"health": func(r *reader, n *yaml.Node, g *gateway.GroupOptions) {
		readFields(r, n, "health", map[string]field[gateway.GroupOptions]{
			"path":     func(r *reader, n *yaml.Node, g *gateway.GroupOptions) { g.HealthPath = r.text(n, "path") },
			"interval": func(r *reader, n *yaml.Node, g *gateway.GroupOptions) { g.HealthInterval = r.duration(n, "interval") },
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

func readServers(r *reader, n *yaml.Node, g *gateway.GroupOptions) {
	if yamlfile.Target(n).Kind == yaml.ScalarNode {
		g.Servers = []gateway.ServerOptions{readServer(r, n)}
		return
	}
	r.items(n, "servers", func(item *yaml.Node) { g.Servers = append(g.Servers, readServer(r, item)) })
}

// readServer reads a URL, or a URL with a weight.
func readServer(r *reader, n *yaml.Node) (s gateway.ServerOptions) {
	found := len(r.mistakes)
	if n.Kind == yaml.ScalarNode {
		s.URL = r.url(n)
	} else {
		readFields(r, n, "a server", map[string]field[gateway.ServerOptions]{
			"url":    func(r *reader, n *yaml.Node, s *gateway.ServerOptions) { s.URL = r.url(n) },
			"weight": func(r *reader, n *yaml.Node, s *gateway.ServerOptions) { s.Weight = r.positive(n, "weight") },
		}, &s)
	}
	if len(r.mistakes) == found {
		r.check(n, s.Check())
	}
	return s
}

func readTLS(r *reader, n *yaml.Node, g *gateway.GroupOptions) {
	files := secret.ClientFiles{Prefix: "upstreams." + g.Name + ".tls."}
	var name string
	text := func(to *string) field[gateway.GroupOptions] {
		return func(r *reader, n *yaml.Node, _ *gateway.GroupOptions) { *to = r.text(n, "a name") }
	}
	readFields(r, n, "tls", map[string]field[gateway.GroupOptions]{
		"ca": text(&files.CA), "cert": text(&files.Cert), "key": text(&files.Key), "server_name": text(&name),
	}, g)
	var err error
	if g.Files, err = secret.OpenClientTLS(files); err != nil {
		r.mistake(n, err.Error(), "name files in PEM form, a certificate together with its key")
	}
	g.TLS = &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12}
}

func readRoutes(r *reader, n *yaml.Node, s *Settings) {
	r.items(n, "routes", func(item *yaml.Node) {
		var o gateway.RouteOptions
		at := readFields(r, item, "a route", routeFields, &o)
		r.checkEach(item, at, o.Check(r.form))
		r.routes = append(r.routes, located{item, at["upstream"]})
		s.Routes = append(s.Routes, o)
	})
}

// routeFields are the keys of a route.
var routeFields = map[string]field[gateway.RouteOptions]{
	"name":             func(r *reader, n *yaml.Node, o *gateway.RouteOptions) { o.Name = r.text(n, "name") },
	"host":             func(r *reader, n *yaml.Node, o *gateway.RouteOptions) { o.Host = r.text(n, "host") },
	"path_prefix":      func(r *reader, n *yaml.Node, o *gateway.RouteOptions) { o.PathPrefix = r.text(n, "path_prefix") },
	"upstream":         func(r *reader, n *yaml.Node, o *gateway.RouteOptions) { o.Group = r.text(n, "upstream") },
	"strip_prefix":     func(r *reader, n *yaml.Node, o *gateway.RouteOptions) { o.StripPrefix = r.text(n, "strip_prefix") },
	"add_prefix":       func(r *reader, n *yaml.Node, o *gateway.RouteOptions) { o.AddPrefix = r.text(n, "add_prefix") },
	"request_headers":  func(r *reader, n *yaml.Node, o *gateway.RouteOptions) { readHeaders(r, n, &o.RequestHeaders) },
	"response_headers": func(r *reader, n *yaml.Node, o *gateway.RouteOptions) { readHeaders(r, n, &o.ResponseHeaders) },
	"fallback":         readFallback,
}

func readHeaders(r *reader, n *yaml.Node, o *gateway.HeaderOptions) {
	readFields(r, n, "headers of a route", map[string]field[gateway.HeaderOptions]{
		"set": func(r *reader, n *yaml.Node, o *gateway.HeaderOptions) {
			o.Set = map[string]string{}
			r.pairs(n, "set", func(key, value *yaml.Node) { o.Set[key.Value] = r.text(value, key.Value) })
		},
		"remove": func(r *reader, n *yaml.Node, o *gateway.HeaderOptions) {
			r.items(n, "remove", func(item *yaml.Node) { o.Remove = append(o.Remove, r.text(item, "a name")) })
		},
	}, o)
}

// checkRoutes checks what one route alone does not show.
func (r *reader) checkRoutes(root *yaml.Node, s *Settings) {
	if len(s.Routes) > gateway.MaxRoutes {
		r.mistake(root, fmt.Sprintf("there are %d routes", len(s.Routes)), fmt.Sprintf("use at most %d", gateway.MaxRoutes))
		return
	}
	used := map[string]bool{}
	for i := range s.Routes {
		o, at := &s.Routes[i], r.routes[i]
		if _, known := r.groups[o.Group]; !known && at.group != nil {
			r.mistake(at.group, fmt.Sprintf("there is no upstream %.40q", o.Group), r.nearest(o.Group))
		} else if at.group == nil {
			r.mistake(at.route, "a route without upstream", "write upstream: and the name of one of the upstreams")
		}
		used[o.Group] = true
		for j := range i {
			if problem := o.Conflict(&s.Routes[j]); problem != "" {
				r.mistake(at.route, problem, fmt.Sprintf("compare it with the route in line %d", r.routes[j].route.Line))
			}
		}
	}
	switch {
	case len(r.groups) == 0 && len(r.mistakes) == 0:
		r.mistake(root, "there are no upstreams", "write upstreams: {api: http://127.0.0.1:9000}")
	case len(s.Routes) == 0 && len(r.groups) == 1: // all requests go to it
	default:
		for name, key := range r.groups {
			if !used[name] {
				r.mistake(key, fmt.Sprintf("no route leads to the upstream %.40q", name), "add a route, or remove the upstream")
			}
		}
	}
	r.sort()
}

// located is a route with the place of its group; nil if it names none.
type located struct{ route, group *yaml.Node }
