package deploytest

import (
	"encoding/json"
	"net"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// strictCompose has every key that compose.yaml may have: one that Compose does not know, or
// that the tests do not check, fails the decoder.
type strictCompose struct {
	Services map[string]strictService
	Secrets  map[string]struct{ Environment string }
}

type strictService struct {
	Image       string
	Build       struct{ Context, Dockerfile string }
	Command     []string
	Environment map[string]string
	Ports       []string
	Volumes     []string
	Secrets     []string
	DependsOn   []string `yaml:"depends_on"`
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
	StopGrace   string   `yaml:"stop_grace_period"`
	Restart     string
	Healthcheck struct {
		Test     []string
		Interval string
	}
}

// listens are the ports of the services. Those of Stint are the defaults of its flags, which
// the command of compose.yaml may change, and those of others are fixed by their images.
var listens = map[string][]string{
	"stint": {"8080", "8081", "6070"}, "prometheus": {"9090"}, "alertmanager": {"9093"}, "grafana": {"3000"}, "redis": {"6379"},
}

// configured are the files that the images read, beneath what is mounted.
var configured = map[string]string{
	"stint": "/etc/stint/rules/rules.yaml", "prometheus": "/etc/prometheus/prometheus.yml", "alertmanager": "/etc/alertmanager/alertmanager.yml",
	"grafana": "/etc/grafana/provisioning/datasources",
}

func strictly(t *testing.T, file string, into any) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(read(t, file)))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func strictComposeFile(t *testing.T) (c strictCompose) {
	t.Helper()
	strictly(t, "compose.yaml", &c)
	return c
}

func TestServicesOfComposeFitTogether(t *testing.T) {
	c := strictComposeFile(t)
	for name, s := range c.Services {
		if (s.Image == "") == (s.Build.Dockerfile == "") || s.Restart != "unless-stopped" {
			t.Errorf("%s: image %q, built from %q, restart %q", name, s.Image, s.Build.Dockerfile, s.Restart)
		}
		for _, other := range s.DependsOn {
			if _, ok := c.Services[other]; !ok || other == name {
				t.Errorf("%s depends on %s", name, other)
			}
		}
		for _, p := range s.Ports {
			if parts := strings.Split(p, ":"); len(parts) != 3 || parts[1] != parts[2] || !slices.Contains(listens[name], parts[2]) {
				t.Errorf("%s: port %s is none of its ports %v", name, p, listens[name])
			}
		}
		for _, v := range s.Volumes {
			if parts := strings.Split(v, ":"); len(parts) != 3 || parts[2] != "ro" || !path.IsAbs(parts[1]) {
				t.Errorf("%s: volume %s", name, v)
			}
		}
		if file := configured[name]; file != "" {
			exists(t, mounted(t, s, file))
		}
	}
}

// mounted returns the file of this repository that a service has at a path.
func mounted(t *testing.T, s strictService, at string) string {
	t.Helper()
	for _, v := range s.Volumes {
		parts := strings.Split(v, ":")
		if rest, ok := strings.CutPrefix(at, parts[1]); ok && (rest == "" || rest[0] == '/') {
			return filepath.Join(parts[0], rest)
		}
	}
	t.Errorf("nothing is mounted at %s", at)
	return ""
}

// isService reports an address that is not that of a service and one of its ports.
func isService(t *testing.T, c *strictCompose, where, address string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if _, ok := c.Services[host]; err != nil || !ok || !slices.Contains(listens[host], port) {
		t.Errorf("%s: %s is no service of compose.yaml with a port of its own (%v)", where, address, err)
	}
}

// secret is where a container has a secret.
var secret = regexp.MustCompile(`/run/secrets/([a-z-]+)`)

func hasSecrets(t *testing.T, c *strictCompose, service, text string) {
	t.Helper()
	for _, m := range secret.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(c.Services[service].Secrets, m[1]) {
			t.Errorf("the service %s does not get the secret %s", service, m[1])
		}
	}
}

func TestAddressesAndSecretsWithinComposeAreKnown(t *testing.T) {
	c := strictComposeFile(t)
	flags := strings.Join(c.Services["stint"].Command, " ")
	hasSecrets(t, &c, "stint", flags)
	store, err := url.Parse(regexp.MustCompile(`--store=(\S+)`).FindStringSubmatch(flags)[1])
	if err != nil {
		t.Fatal(err)
	}
	isService(t, &c, "--store", store.Host)
	if at := regexp.MustCompile(`--rules=(\S+)`).FindStringSubmatch(flags)[1]; at != "/etc/stint/rules" {
		t.Errorf("the rules are at %s", at)
	}

	const config = "prometheus/prometheus.yml"
	hasSecrets(t, &c, "prometheus", read(t, config))
	for _, m := range regexp.MustCompile(`targets: \["(.*)"\]`).FindAllStringSubmatch(read(t, config), -1) {
		isService(t, &c, config, m[1])
	}
	var p struct {
		RuleFiles []string `yaml:"rule_files"`
	}
	if err := yaml.Unmarshal([]byte(read(t, config)), &p); err != nil || len(p.RuleFiles) == 0 {
		t.Fatal(p, err)
	}
	for _, file := range p.RuleFiles {
		exists(t, mounted(t, c.Services["prometheus"], path.Join("/etc/prometheus", file)))
	}
}

// TestGrafanaIsProvisioned checks what Grafana reads at its start: a source of data that is the
// one of the dashboards, and the folder in which they are mounted.
func TestGrafanaIsProvisioned(t *testing.T) {
	c := strictComposeFile(t)
	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, URL string
			IsDefault            bool           `yaml:"isDefault"`
			JSONData             map[string]any `yaml:"jsonData"`
		}
	}
	var providers struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Folder, Type string
			Options            struct{ Path string }
		}
	}
	one := func(folder string) string {
		found, err := filepath.Glob(filepath.Join("grafana/provisioning", folder, "*.y*ml"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %v, %v", folder, found, err)
		}
		return found[0]
	}
	strictly(t, one("datasources"), &sources)
	strictly(t, one("dashboards"), &providers)
	if len(sources.Datasources) != 1 || !sources.Datasources[0].IsDefault || sources.Datasources[0].Type != "prometheus" || sources.APIVersion != 1 {
		t.Fatalf("%+v", sources)
	}
	at, err := url.Parse(sources.Datasources[0].URL)
	if err != nil {
		t.Fatal(err)
	}
	isService(t, &c, "the source of data", at.Host)
	if len(providers.Providers) != 1 || providers.Providers[0].Type != "file" || providers.APIVersion != 1 {
		t.Fatalf("%+v", providers)
	}
	dashboards, err := filepath.Glob(filepath.Join(mounted(t, c.Services["grafana"], providers.Providers[0].Options.Path), "*.json"))
	if err != nil || len(dashboards) != 5 {
		t.Fatalf("%v, %v", dashboards, err)
	}
	for _, file := range dashboards {
		var d any
		if err := json.Unmarshal([]byte(read(t, file)), &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		wantSources(t, file, d, sources.Datasources[0].UID)
	}
}

// wantSources reports each source of data below a value that is neither a variable of the
// dashboard, nor Grafana itself, nor the one provisioned.
func wantSources(t *testing.T, file string, of any, uid string) {
	t.Helper()
	switch v := of.(type) {
	case []any:
		for _, one := range v {
			wantSources(t, file, one, uid)
		}
	case map[string]any:
		if source, ok := v["datasource"].(map[string]any); ok {
			if got, _ := source["uid"].(string); got != uid && !strings.HasPrefix(got, "$") && got != "-- Grafana --" {
				t.Errorf("%s: the source of data %q is not provisioned", file, got)
			}
		}
		for _, one := range v {
			wantSources(t, file, one, uid)
		}
	}
}
