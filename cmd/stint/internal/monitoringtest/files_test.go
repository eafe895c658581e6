package monitoringtest

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// top is the top folder of the repository.
const top = "../../../.."

// tool returns the path of the first of these programs that is installed. If no program is
// installed, it skips the test.
func tool(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("needs %s (run scripts/install-test-servers)", names[0])
	return ""
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// jsonnet returns the path of the program that renders the mixin.
func jsonnet(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("JSONNET"); path != "" {
		return path
	}
	path, err := filepath.Abs(filepath.Join(top, "bin", "jsonnet"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip("needs bin/jsonnet (run make bin/jsonnet)")
	}
	return path
}

// The rendered files are those that scripts/mixin makes now, and there are no others.
func TestRenderedFilesAreFresh(t *testing.T) {
	fresh := t.TempDir()
	render := exec.CommandContext(t.Context(), filepath.Join(top, "scripts", "mixin"), fresh)
	render.Env = append(os.Environ(), "JSONNET="+jsonnet(t))
	if out, err := render.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	deploy := filepath.Join(top, "deploy")
	rendered := map[string]bool{}
	err := filepath.WalkDir(fresh, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(fresh, path)
		rendered[name] = true
		if committed, _ := os.ReadFile(filepath.Join(deploy, name)); string(committed) != read(t, path) {
			t.Errorf("deploy/%s is not what deploy/mixin renders: run make mixin", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range dashboardFiles(t) {
		if name, err := filepath.Rel(deploy, path); err != nil || !rendered[name] {
			t.Errorf("%s is not rendered from deploy/mixin: remove it (%v)", path, err)
		}
	}
}

func dashboardFiles(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(top, "deploy/grafana/dashboards/*"))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	return paths
}

// group is a group of rules, in a rule file of Prometheus.
type group struct {
	Rules []struct {
		Record, Alert, Expr string
		Annotations         struct {
			RunbookURL string `yaml:"runbook_url"`
		}
	}
}

func rulesOf(t *testing.T, file string) (groups []group) {
	t.Helper()
	var f struct{ Groups []group }
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(top, "deploy/prometheus", file))), &f); err != nil {
		t.Fatal(err)
	}
	if len(f.Groups) == 0 {
		t.Fatalf("%s has no rules", file)
	}
	return f.Groups
}

// alerts returns the names of the alerts, with the addresses of their pages.
func alerts(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, g := range rulesOf(t, "alerts.yaml") {
		for _, r := range g.Rules {
			all[r.Alert] = r.Annotations.RunbookURL
		}
	}
	return all
}

func TestPrometheusAcceptsTheFiles(t *testing.T) {
	promtool, amtool := tool(t, "promtool"), tool(t, "amtool")
	for _, check := range [][]string{
		{promtool, "check", "rules", "rules.yaml", "alerts.yaml"},
		{promtool, "check", "config", "--syntax-only", "prometheus.yml"},
		{promtool, "test", "rules", "alerts_test.yaml"},
		{amtool, "check-config", "alertmanager.yml"},
	} {
		c := exec.CommandContext(t.Context(), check[0], check[1:]...)
		c.Dir = filepath.Join(top, "deploy/prometheus")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", strings.Join(check[1:], " "), err, out)
		}
	}
}

// Each alert has a unit test in which it fires and one in which it stays silent, which
// promtool runs, and a page with the sections that a reader needs at night.
func TestEachAlertHasTestsAndAPage(t *testing.T) {
	var file struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string
				ExpAlerts []any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(top, "deploy/prometheus/alerts_test.yaml"))), &file); err != nil {
		t.Fatal(err)
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, a := range test.AlertRuleTest {
			fires[a.Alertname] = fires[a.Alertname] || len(a.ExpAlerts) > 0
			silent[a.Alertname] = silent[a.Alertname] || len(a.ExpAlerts) == 0
		}
	}
	index := read(t, filepath.Join(top, "docs/runbooks/README.md"))
	for name, url := range alerts(t) {
		if !fires[name] || !silent[name] {
			t.Errorf("%s: a test in which it fires: %t, in which it is silent: %t", name, fires[name], silent[name])
		}
		if !strings.HasSuffix(url, "/docs/runbooks/"+name+".md") {
			t.Errorf("%s: its page is %s", name, url)
		}
		if !strings.Contains(index, "("+name+".md)") {
			t.Errorf("docs/runbooks/README.md does not list %s", name)
		}
		page := read(t, filepath.Join(top, "docs/runbooks", name+".md"))
		for _, heading := range []string{"# " + name, "## What it means", "## What to look at", "## What to do"} {
			if !slices.Contains(strings.Split(page, "\n"), heading) {
				t.Errorf("the page of %s lacks %q", name, heading)
			}
		}
	}
}

func TestEachPageHasAnAlert(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(top, "docs/runbooks/*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		if _, ok := alerts(t)[name]; !ok && name != "README" {
			t.Errorf("%s is the page of no alert", page)
		}
	}
}

// dashboard is the part of a dashboard that the tests check.
type dashboard struct {
	Title       string
	UID         string
	Annotations struct{ List []struct{ Expr string } }
	Templating  struct{ List []struct{ Name string } }
	Panels      []struct {
		Title, Type, Description string
		Targets                  []struct{ Expr, RefID string }
	}
}

func dashboards(t *testing.T) (all []dashboard) {
	t.Helper()
	for _, path := range dashboardFiles(t) {
		var d dashboard
		if err := json.Unmarshal([]byte(read(t, path)), &d); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, d)
	}
	return all
}

func TestDashboardsAreWhole(t *testing.T) {
	var titles []string
	for _, d := range dashboards(t) {
		titles = append(titles, d.Title)
		for _, p := range d.Panels {
			if p.Type != "row" && (p.Title == "" || p.Description == "" || len(p.Targets) == 0) {
				t.Errorf("%s: panel %q lacks a title, a description or a query", d.Title, p.Title)
			}
			ids := map[string]bool{"": true}
			for _, target := range p.Targets {
				if ids[target.RefID] {
					t.Errorf("%s: panel %q: a query lacks a refId of its own: %s", d.Title, p.Title, target.Expr)
				}
				ids[target.RefID] = true
			}
		}
	}
	slices.Sort(titles)
	if want := []string{"Stint / Clients", "Stint / Gateway", "Stint / Overview", "Stint / Rules", "Stint / Store"}; !slices.Equal(titles, want) {
		t.Errorf("got %q, want %q", titles, want)
	}
}
