package moduletest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

const (
	top  = "../../../.."
	root = "github.com/stintdev/stint"
)

// brings lists for each module, by its folder, the modules of other repositories that it
// may bring to a user, and with them what those require themselves. A module that is
// missing here brings nothing.
var brings = map[string][]string{
	"api":                   {"google.golang.org/grpc"},
	"contrib/stintotel":     {"go.opentelemetry.io/otel"},
	"contrib/stintpolicy":   {"github.com/failsafe-go/failsafe-go"},
	"contrib/stintprom":     {"github.com/prometheus/client_golang"},
	"grpclimit":             {"google.golang.org/grpc"},
	"httplimit/jwtverify":   {"github.com/golang-jwt/jwt/v5"},
	"dynamostore":           {"github.com/aws/aws-sdk-go-v2", "github.com/aws/aws-sdk-go-v2/config", "github.com/aws/aws-sdk-go-v2/service/dynamodb", "github.com/aws/smithy-go"},
	"postgresstore":         {"github.com/jackc/pgx/v5"},
	"redisstore":            {"github.com/redis/rueidis"},
	"remotestore":           {"google.golang.org/grpc"},
	"resilience/grpcclient": {"google.golang.org/grpc"},
	"rule":                  {"go.yaml.in/yaml/v3"},
	"storetest":             {"pgregory.net/rapid"},
}

// notImported are the modules without packages for users.
var notImported = []string{"bench", "cmd/stint", "examples"}

// TestUsersGetWhatTheyImport imports and installs the modules outside this repository.
func TestUsersGetWhatTheyImport(t *testing.T) {
	modules := workingTree(t, top)
	proxy := newProxy(t, modules)
	for _, m := range modules {
		folder := strings.TrimPrefix(strings.TrimPrefix(m.path, root), "/")
		if !slices.Contains(notImported, folder) {
			t.Run(m.path, func(t *testing.T) { importsBringOnlyTheirModules(t, proxy, &m, brings[folder]) })
		}
	}
	t.Run("the program", func(t *testing.T) { programInstalls(t, proxy) })
}

// importsBringOnlyTheirModules builds a program for each import path of a module, and
// lists the modules that the programs require.
func importsBringOnlyTheirModules(t *testing.T, proxy *proxy, m *source, brings []string) {
	t.Helper()
	program := newProgram(t, map[string]string{m.path: proxy.version}, packagesOf(m))
	if _, err := proxy.run(t, program, "build", "-o", t.TempDir(), "./..."); err != nil {
		t.Fatal(err)
	}
	graph := moduleGraph(t, proxy, program)
	allowed := reached(graph, brings)
	for _, other := range others(t, proxy, program) {
		if !allowed[other] {
			t.Errorf("a program that imports %s requires %s, by %v", m.path, other, requiring(graph, other))
		}
	}
}

// programInstalls runs `go install` of the program at a version, which refuses a go.mod
// with replace directives.
func programInstalls(t *testing.T, proxy *proxy) {
	t.Helper()
	bin := t.TempDir()
	t.Setenv("GOBIN", bin)
	if _, err := proxy.run(t, t.TempDir(), "install", root+"/cmd/stint@"+proxy.version); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(bin, "stint")); err != nil {
		t.Error(err)
	}
}

// version returns the version at which the modules require each other.
func version(t *testing.T) string {
	t.Helper()
	work, err := os.ReadFile(filepath.Join(top, "go.work"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.ParseWork("go.work", work, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Replace[0].Old.Version
}

// packagesOf returns the import paths of a module that users can import.
func packagesOf(m *source) []string {
	found := map[string]bool{}
	for _, f := range m.files {
		folder := filepath.ToSlash(filepath.Dir(f.Path()))
		if !strings.HasSuffix(f.Path(), ".go") || strings.HasSuffix(f.Path(), "_test.go") {
			continue
		}
		if steps := strings.Split(folder, "/"); !slices.Contains(steps, "internal") && steps[0] != "scripts" {
			found[strings.TrimSuffix(m.path+"/"+folder, "/.")] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// newProgram writes a module that requires modules at versions, with a program for each
// import path, and returns its folder.
func newProgram(t *testing.T, requires map[string]string, imports []string) string {
	t.Helper()
	folder := t.TempDir()
	mod := "module example.com/program\n\ngo 1.26\n"
	for path, version := range requires {
		mod += fmt.Sprintf("\nrequire %s %s\n", path, version)
	}
	write(t, filepath.Join(folder, "go.mod"), mod)
	for i, path := range imports {
		write(t, filepath.Join(folder, fmt.Sprint("program", i), "main.go"), fmt.Sprintf("package main\n\nimport _ %q\n\nfunc main() {}\n", path))
	}
	return folder
}

// others returns the modules of other repositories that a program requires.
func others(t *testing.T, p *proxy, program string) []string {
	t.Helper()
	text, err := p.run(t, program, "list", "-m", "-f", "{{if not .Main}}{{.Path}}{{end}}", "all")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Fields(text), ours)
}

// moduleGraph returns for each module of a program those that it requires at any version.
func moduleGraph(t *testing.T, p *proxy, program string) map[string][]string {
	t.Helper()
	text, err := p.run(t, program, "mod", "graph")
	if err != nil {
		t.Fatal(err)
	}
	graph := map[string][]string{}
	for line := range strings.Lines(text) {
		edge := strings.Fields(line)
		from, _, _ := strings.Cut(edge[0], "@")
		to, _, _ := strings.Cut(edge[1], "@")
		graph[from] = append(graph[from], to)
	}
	return graph
}

// reached returns modules, what they require, and so on.
func reached(graph map[string][]string, from []string) map[string]bool {
	found := map[string]bool{"go": true, "toolchain": true}
	for next := slices.Clone(from); len(next) > 0; next = next[1:] {
		if !found[next[0]] {
			found[next[0]] = true
			next = append(next, graph[next[0]]...)
		}
	}
	return found
}

// requiring returns the modules that require a module.
func requiring(graph map[string][]string, path string) (from []string) {
	for m, required := range graph {
		if slices.Contains(required, path) {
			from = append(from, m)
		}
	}
	return from
}

func ours(path string) bool { return path == root || strings.HasPrefix(path, root+"/") }

func TestModulesRequireEachOtherAtOneVersion(t *testing.T) {
	for _, m := range workingTree(t, top) {
		if len(m.mod.Replace) > 0 {
			t.Errorf("%s has a replace directive, which `go install` refuses", m.path)
		}
		for _, r := range m.mod.Require {
			if ours(r.Mod.Path) && r.Mod.Version != version(t) {
				t.Errorf("%s requires %v, want %s", m.path, r.Mod, version(t))
			}
		}
		if m.path == root && len(m.mod.Require) > 0 {
			t.Errorf("the module at the top requires %v, want nothing", m.mod.Require[0].Mod)
		}
	}
}
