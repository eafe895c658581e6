package deploy

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// envoy is the way to the filter in envoy.yaml; a field that it does not know
// is an error.
type envoy struct {
	StaticResources struct {
		Listeners []struct {
			Name         string
			Address      any
			FilterChains []struct {
				Filters []struct {
					Name   string
					Config struct {
						Type             string `yaml:"@type"`
						StatPrefix       string `yaml:"stat_prefix"`
						UseRemoteAddress bool   `yaml:"use_remote_address"`
						UpgradeConfigs   any    `yaml:"upgrade_configs"`
						RouteConfig      any    `yaml:"route_config"`
						HTTPFilters      []struct {
							Name   string
							Config map[string]any `yaml:"typed_config"`
						} `yaml:"http_filters"`
					} `yaml:"typed_config"`
				}
			} `yaml:"filter_chains"`
		}
		Clusters []struct {
			Name           string
			ConnectTimeout string `yaml:"connect_timeout"`
			LoadAssignment any    `yaml:"load_assignment"`
		}
	} `yaml:"static_resources"`
}

// authorization is the filter of envoy.yaml, judged by Envoy's own schema.
func authorization(t *testing.T) *authv3.ExtAuthz {
	t.Helper()
	var e envoy
	strict(t, "envoy/envoy.yaml", &e)
	manager := e.StaticResources.Listeners[0].FilterChains[0].Filters[0].Config
	if !manager.UseRemoteAddress {
		t.Error("a client chooses its address")
	}
	config := manager.HTTPFilters[0].Config
	delete(config, "@type")
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	var filter authv3.ExtAuthz
	if err := protojson.Unmarshal(text, &filter); err != nil {
		t.Fatal(err)
	}
	if err := filter.ValidateAll(); err != nil {
		t.Fatal(err)
	}
	return &filter
}

func strict(t *testing.T, path string, v any) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(read(t, path)))
	decoder.KnownFields(true)
	if err := decoder.Decode(v); err != nil {
		t.Fatal(err)
	}
}

func TestEnvoyAsksStint(t *testing.T) {
	filter := authorization(t)
	service := filter.GetHttpService()
	if service.GetPathPrefix() != "/v1/auth;error_status=429" || service.GetServerUri().GetCluster() != "stint" {
		t.Errorf("it asks %v", service)
	}
	for _, allowed := range filter.GetAllowedHeaders().GetPatterns() {
		name := allowed.GetExact()
		if name == "" || strings.HasPrefix(name, "x-original-") || strings.HasPrefix(name, "x-forwarded-") && name != "x-forwarded-for" || name == "forwarded" {
			t.Errorf("the client would choose %v", allowed)
		}
	}
}

// traefik is what dynamic.yaml has; a field that it does not know is an error.
type traefik struct {
	HTTP struct {
		Routers map[string]struct {
			Rule, Service string
			EntryPoints   []string `yaml:"entryPoints"`
			Middlewares   []string
		}
		Middlewares map[string]struct {
			Headers struct {
				CustomRequestHeaders map[string]string `yaml:"customRequestHeaders"`
			}
			ForwardAuth struct {
				Address             string
				TrustForwardHeader  bool     `yaml:"trustForwardHeader"`
				AuthResponseHeaders []string `yaml:"authResponseHeaders"`
			} `yaml:"forwardAuth"`
		}
		Services map[string]struct {
			LoadBalancer struct{ Servers []struct{ URL string } } `yaml:"loadBalancer"`
		}
	}
}

func TestTraefikAsksStint(t *testing.T) {
	var c traefik
	strict(t, "traefik/dynamic.yaml", &c)
	router := c.HTTP.Routers["application"]
	if len(router.Middlewares) != 2 || len(c.HTTP.Services[router.Service].LoadBalancer.Servers) != 1 {
		t.Fatalf("got %+v", router)
	}
	removed := c.HTTP.Middlewares[router.Middlewares[0]].Headers.CustomRequestHeaders
	for _, name := range []string{"X-Original-URI", "X-Original-Method", "Forwarded", "X-Stint-Token"} {
		if value, ok := removed[name]; !ok || value != "" {
			t.Errorf("a client's %s reaches Stint", name)
		}
	}
	asks := c.HTTP.Middlewares[router.Middlewares[1]].ForwardAuth
	if asks.Address != "http://127.0.0.1:8080/v1/auth" || asks.TrustForwardHeader {
		t.Errorf("it asks %+v", asks)
	}
	for _, name := range asks.AuthResponseHeaders {
		if !strings.HasPrefix(http.CanonicalHeaderKey(name), "X-Ratelimit-") {
			t.Errorf("%s is not of Stint", name)
		}
	}
}

var (
	section = regexp.MustCompile(`(?m)^## `)
	excerpt = regexp.MustCompile("(?s)```(?:nginx|haproxy|caddyfile|apache|yaml)\n(.*?)```")
)

// What the guide shows of a file stands in that file.
func TestGuideShowsTheFiles(t *testing.T) {
	shown := 0
	for _, part := range section.Split(read(t, "../docs/forward-auth.md"), -1) {
		name, text, _ := strings.Cut(part, "\n")
		excerpts := excerpt.FindAllStringSubmatch(text, -1)
		if len(excerpts) == 0 {
			continue
		}
		file := unindented(folder(t, strings.ToLower(name)))
		for _, m := range excerpts {
			if shown++; !strings.Contains(file, unindented(m[1])) {
				t.Errorf("%s: not in its files:\n%s", name, m[1])
			}
		}
	}
	if shown < 9 {
		t.Errorf("%d excerpts", shown)
	}
}

// folder is the text of all files of one.
func folder(t *testing.T, name string) string {
	t.Helper()
	entries, err := os.ReadDir(name)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, e := range entries {
		all.WriteString(read(t, filepath.Join(name, e.Name())))
	}
	return all.String()
}

func unindented(text string) string {
	var all strings.Builder
	for line := range strings.Lines(text) {
		all.WriteString(strings.TrimLeft(line, " \t-"))
	}
	return all.String()
}
