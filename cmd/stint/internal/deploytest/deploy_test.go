// Package deploytest tests what can be tested of the deployment files without a
// container engine: that they parse, that what they name exists, and that
// the program takes the flags they pass.
package deploytest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// TestMain runs the tests in the folder deploy, from which they name files.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../../../deploy"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// instruction is one of a Dockerfile, its continued lines joined.
type instruction struct{ name, rest string }

func dockerfile(t *testing.T) (all []instruction) {
	t.Helper()
	text := strings.ReplaceAll(read(t, "Dockerfile"), "\\\n", " ")
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		all = append(all, instruction{name, strings.TrimSpace(rest)})
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// last returns the last instruction of a name.
func last(t *testing.T, name string) string {
	t.Helper()
	for _, i := range slices.Backward(dockerfile(t)) {
		if i.name == name {
			return i.rest
		}
	}
	t.Fatalf("no %s", name)
	return ""
}

func TestDockerfileHasKnownInstructionsAlone(t *testing.T) {
	known := []string{"FROM", "WORKDIR", "COPY", "RUN", "USER", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
	for i, in := range dockerfile(t) {
		if !slices.Contains(known, in.name) || in.rest == "" {
			t.Errorf("instruction %d: %s %s", i, in.name, in.rest)
		}
		if i == 0 && in.name != "FROM" {
			t.Errorf("it begins with %s", in.name)
		}
	}
}

func TestDockerfileCopiesWhatThereIs(t *testing.T) {
	var stages []string
	for _, in := range dockerfile(t) {
		fields := strings.Fields(in.rest)
		switch {
		case in.name == "FROM" && len(fields) == 3 && fields[1] == "AS":
			stages = append(stages, fields[2])
		case in.name == "COPY" && strings.HasPrefix(fields[0], "--from="):
			if stage := strings.TrimPrefix(fields[0], "--from="); !slices.Contains(stages, stage) {
				t.Errorf("COPY from %s, which is no stage of %v", stage, stages)
			}
		case in.name == "COPY":
			for _, source := range fields[:len(fields)-1] {
				exists(t, filepath.Join("..", source))
			}
		}
	}
	exists(t, "../cmd/stint")
}

func exists(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestDockerfileBuildsWithTheModulesGo(t *testing.T) {
	m := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))
	if from := dockerfile(t)[0].rest; m == nil || from != "golang:"+m[1]+" AS build" {
		t.Errorf("built from %q, the module wants %v", from, m)
	}
}

func TestImageRunsWithoutRootAndWithoutAShell(t *testing.T) {
	if user := last(t, "USER"); strings.HasPrefix(user, "0") || strings.HasPrefix(user, "root") {
		t.Errorf("it runs as %s", user)
	}
	for _, name := range []string{"ENTRYPOINT", "CMD"} {
		var args []string
		if err := json.Unmarshal([]byte(last(t, name)), &args); err != nil {
			t.Errorf("%s is no JSON list, so that it needs a shell: %v", name, err)
		}
	}
}

// compose is the part of compose.yaml that the tests check.
type compose struct {
	Services map[string]struct {
		Image   string
		Build   struct{ Context, Dockerfile string }
		Command []string
		Ports   []string
		Volumes []string
		Secrets []string
	}
	Secrets map[string]struct{ Environment string }
}

func composeFile(t *testing.T) (c compose) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, "compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Services) != 5 {
		t.Fatalf("got %d services", len(c.Services))
	}
	return c
}

func TestComposeNamesWhatThereIs(t *testing.T) {
	c := composeFile(t)
	for name, s := range c.Services {
		if s.Image == "" {
			exists(t, filepath.Join(s.Build.Context, s.Build.Dockerfile))
		} else if !regexp.MustCompile(`^[a-z/]+:v?\d+\.\d+`).MatchString(s.Image) {
			t.Errorf("%s: the image %q is not pinned to a version", name, s.Image)
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			exists(t, source)
		}
		for _, secret := range s.Secrets {
			if c.Secrets[secret].Environment == "" {
				t.Errorf("%s: the secret %q is not defined", name, secret)
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: port %s is open to other machines", name, p)
			}
		}
	}
}

func TestPrometheusAsksStint(t *testing.T) {
	var p struct {
		ScrapeConfigs []struct {
			Authorization struct {
				CredentialsFile string `yaml:"credentials_file"`
			}
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "prometheus/prometheus.yml")), &p); err != nil {
		t.Fatal(err)
	}
	if len(p.ScrapeConfigs) != 1 || p.ScrapeConfigs[0].StaticConfigs[0].Targets[0] != "stint:6070" {
		t.Fatalf("got %+v", p)
	}
	secret := filepath.Base(p.ScrapeConfigs[0].Authorization.CredentialsFile)
	if _, ok := composeFile(t).Secrets[secret]; !ok {
		t.Errorf("the secret %q is not defined", secret)
	}
}

func TestProgramTakesWhatTheFilesPass(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	stint := filepath.Join(t.TempDir(), "stint")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", stint, "../cmd/stint").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	command := composeFile(t).Services["stint"].Command
	help, err := exec.CommandContext(ctx, stint, command[0], "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, help)
	}
	for _, arg := range command[1:] {
		if flag, _, _ := strings.Cut(arg, "="); !bytes.Contains(help, []byte(flag+" ")) {
			t.Errorf("stint serve does not know %s", flag)
		}
	}
	healthCheckSucceeds(ctx, t, stint)
}

// healthCheckSucceeds runs the image's health check against a server that
// runs, and against none.
func healthCheckSucceeds(ctx context.Context, t *testing.T, stint string) {
	t.Helper()
	_, list, _ := strings.Cut(last(t, "HEALTHCHECK"), "CMD ")
	var args []string
	if err := json.Unmarshal([]byte(list), &args); err != nil || args[0] != "/stint" {
		t.Fatalf("%v in %s", err, list)
	}
	check := func(server string) error {
		return exec.CommandContext(ctx, stint, append(args[1:], "--server", server)...).Run()
	}
	if err := check("http://127.0.0.1:1"); err == nil {
		t.Error("healthy without a server")
	}
	if err := check("http://" + serve(ctx, t, stint)); err != nil {
		t.Errorf("unhealthy: %v", err)
	}
}

// serve starts the server and returns the address of its check API.
func serve(ctx context.Context, t *testing.T, stint string) string {
	t.Helper()
	c := exec.CommandContext(ctx, stint, "serve", "--rules", "../examples/demo", "--http", "127.0.0.1:0", "--grpc", "off", "--admin", "off")
	logs, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	listening := regexp.MustCompile(`name=http addr=(\S+)`)
	var addr string
	for lines := bufio.NewScanner(logs); lines.Scan(); {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			addr = m[1]
		}
		if strings.Contains(lines.Text(), "msg=ready") {
			return addr
		}
	}
	t.Fatal("never ready")
	return ""
}
