package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository makes a repository of one small module that has scripts/apidiff, and
// returns a function that runs a command in it.
func repository(t *testing.T) (folder string, run func(command ...string) (output string, err error)) {
	t.Helper()
	program, err := filepath.Abs("../bin/apidiff")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("bin/apidiff is not installed: run make bin/apidiff")
	}
	script, err := os.ReadFile("apidiff")
	if err != nil {
		t.Fatal(err)
	}
	folder = t.TempDir()
	write(t, folder, "scripts/apidiff", string(script))
	write(t, folder, "bin/apidiff", "#!/bin/sh\nexec '"+program+"' \"$@\"\n")
	write(t, folder, "go.mod", "module example.com/limits\n\ngo 1.26.0\n")
	write(t, folder, "limits.go", "package limits\n\nfunc Allow() bool { return true }\n")
	write(t, folder, "store/store.go", "package store\n\nfunc New() {}\n")
	write(t, folder, "bench/bars/bars.go", "package bars\n\nfunc Bars() {}\n")
	write(t, folder, "CHANGELOG.md", "## [Unreleased]\n\n## [0.1.0]\n\n- **Go API:** it exists.\n")
	run = func(command ...string) (string, error) {
		c := exec.CommandContext(t.Context(), command[0], command[1:]...)
		c.Dir = folder
		c.Env = append(os.Environ(), "GOWORK=off", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		out, err := c.CombinedOutput()
		return string(out), err
	}
	for _, command := range []string{"git init -q", "git add -A", "git commit -qm first"} {
		if out, err := run(strings.Fields(command)...); err != nil {
			t.Fatal(command, out, err)
		}
	}
	return folder, run
}

func write(t *testing.T, folder, path, text string) {
	t.Helper()
	path = filepath.Join(folder, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestAPIDiffWithoutATagPasses(t *testing.T) {
	_, run := repository(t)
	if out, err := run("scripts/apidiff"); err != nil || !strings.Contains(out, "no version is tagged yet") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestAPIDiffComparesWithTheLastTag(t *testing.T) {
	folder, run := repository(t)
	if out, err := run("git", "tag", "v0.1.0"); err != nil {
		t.Fatal(out, err)
	}
	expect := func(wantFailure bool, text string) {
		t.Helper()
		out, err := run("scripts/apidiff")
		if (err != nil) != wantFailure || !strings.Contains(out, text) {
			t.Errorf("%v: %s\nwant %q", err, out, text)
		}
		if strings.Contains(out, "Bars") {
			t.Errorf("a package of programs counts as API: %s", out)
		}
	}
	expect(false, "compatible with v0.1.0")
	write(t, folder, "limits.go", "package limits\n\nfunc Allow() bool { return true }\n\nfunc AllowN() {}\n")
	write(t, folder, "bench/bars/bars.go", "package bars\n")
	expect(false, "compatible with v0.1.0")

	write(t, folder, "store/store.go", "package store\n\nfunc New() error { return nil }\n")
	expect(true, "./store.New: changed from func() to func() error")
	write(t, folder, "CHANGELOG.md", "## [Unreleased]\n\n- **Go API:** store.New returns an error.\n\n## [0.1.0]\n")
	expect(false, "./store.New: changed")
	write(t, folder, "CHANGELOG.md", "## [Unreleased]\n\n## [0.2.0]\n\n- **Go API:** store.New returns an error.\n\n## [0.1.0]\n")
	expect(false, "./store.New: changed")

	for _, command := range []string{"git commit -qam second", "git tag v1.0.0"} {
		if out, err := run(strings.Fields(command)...); err != nil {
			t.Fatal(command, out, err)
		}
	}
	expect(false, "compatible with v1.0.0")
	write(t, folder, "store/store.go", "package store\n")
	expect(true, "v1.0.0 promises compatibility")
}
