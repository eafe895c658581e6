package moduletest

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// source is a module of a repository: its files, without those of modules below it.
type source struct {
	path  string // its import path
	mod   *modfile.File
	files []zip.File
}

// file is a file of a module.
type file struct {
	name string // in the module
	path string
}

func (f file) Path() string                 { return f.name }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(f.path) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(f.path) }

// workingTree returns the modules of the repository at top as they are on disk, with
// uncommitted changes.
func workingTree(t *testing.T, top string) []source {
	t.Helper()
	listed := strings.Split(git(t, top, "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00")
	return modulesOf(t, top, slices.DeleteFunc(listed, func(name string) bool {
		info, err := os.Lstat(filepath.Join(top, name))
		return err != nil || !info.Mode().IsRegular() // deleted, or no file
	}))
}

// atTag returns the modules of the repository at top as they are at a tag.
func atTag(t *testing.T, top, tag string) []source {
	t.Helper()
	folder, names := t.TempDir(), []string(nil)
	for files := tar.NewReader(strings.NewReader(git(t, top, "archive", tag))); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return modulesOf(t, folder, names)
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		text, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, header.Name), string(text))
		names = append(names, header.Name)
	}
}

// modulesOf sorts the files of a repository by module.
func modulesOf(t *testing.T, top string, names []string) []source {
	t.Helper()
	byFolder := map[string]*source{}
	for _, name := range names {
		if path.Base(name) != "go.mod" || strings.Contains(name, "testdata/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			t.Fatal(err)
		}
		mod, err := modfile.Parse(name, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		byFolder[path.Dir(name)] = &source{path: mod.Module.Mod.Path, mod: mod}
	}
	for _, name := range names {
		folder := path.Dir(name)
		for byFolder[folder] == nil && folder != "." {
			folder = path.Dir(folder)
		}
		if m := byFolder[folder]; m != nil {
			m.files = append(m.files, file{strings.TrimPrefix(strings.TrimPrefix(name, folder), "/"), filepath.Join(top, name)})
		}
	}
	var all []source
	for _, m := range byFolder {
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b source) int { return strings.Compare(a.path, b.path) })
	return all
}

// proxy is a folder that serves modules at one version that no other proxy has. The module
// cache of this machine holds them until the test ends, so that modules of other
// repositories, and what is built of them, come from the caches.
type proxy struct{ folder, version string }

// newProxy serves the modules, which require each other at the version of the proxy.
func newProxy(t *testing.T, modules []source) *proxy {
	t.Helper()
	if testing.Short() {
		t.Skip("builds many programs")
	}
	p := &proxy{t.TempDir(), version(t) + "-test." + strconv.FormatUint(rand.Uint64(), 36)}
	for i := range modules {
		t.Cleanup(func() { p.forget(t, modules[i].path, p.version) })
		p.publish(t, &modules[i], p.version)
	}
	return p
}

// forget removes a version from the module cache.
func (p *proxy) forget(t *testing.T, path, version string) {
	t.Helper()
	command := exec.Command(goProgram(), "env", "GOMODCACHE") // the context of the test has ended
	cache := strings.TrimSpace(output(t, command))
	_ = os.RemoveAll(filepath.Join(cache, path+"@"+version))
	downloaded := filepath.Join(cache, "cache/download", path, "@v")
	cached, _ := filepath.Glob(filepath.Join(downloaded, version+".*"))
	for _, name := range append(cached, filepath.Join(downloaded, "list")) { // the list is fetched again when it is needed
		_ = os.Remove(name)
	}
}

// publish serves a module at a version.
func (p *proxy) publish(t *testing.T, m *source, version string) {
	t.Helper()
	for _, r := range m.mod.Require {
		if ours(r.Mod.Path) {
			if err := m.mod.AddRequire(r.Mod.Path, p.version); err != nil {
				t.Fatal(err)
			}
		}
	}
	text, err := m.mod.Format()
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(p.folder, m.path, "@v", version)
	write(t, filepath.Join(filepath.Dir(at), "list"), version+"\n")
	write(t, at+".info", `{"Version": "`+version+`"}`)
	write(t, at+".mod", string(text))
	for i, f := range m.files {
		if f.Path() == "go.mod" {
			m.files[i] = file{"go.mod", at + ".mod"}
		}
	}
	var packed bytes.Buffer
	if err := zip.Create(&packed, module.Version{Path: m.path, Version: version}, m.files); err != nil {
		t.Fatalf("%s cannot be a module: %v", m.path, err)
	}
	write(t, at+".zip", packed.String())
}

// run runs the go command in a folder, as on the machine of a user.
func (p *proxy) run(t *testing.T, folder string, args ...string) (string, error) {
	t.Helper()
	flags := strings.TrimSpace(goTool(t, "env", "GOFLAGS"))
	others := strings.TrimSpace(goTool(t, "env", "GOPROXY"))
	command := exec.CommandContext(t.Context(), goProgram(), args...)
	command.Dir = folder
	command.Env = append(os.Environ(), "GOWORK=off", "GOSUMDB=off", "GONOPROXY=", "GOPRIVATE=",
		"GOPROXY=file://"+filepath.ToSlash(p.folder)+","+others, "GOFLAGS="+flags+" -mod=mod -modcacherw")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	text, err := command.Output()
	if err != nil {
		err = errors.Join(err, errors.New(stderr.String()))
	}
	return string(text), err
}

func goProgram() string {
	if program := os.Getenv("GO"); program != "" {
		return program
	}
	return "go"
}

func goTool(t *testing.T, args ...string) string {
	t.Helper()
	return output(t, exec.CommandContext(t.Context(), goProgram(), args...))
}

func git(t *testing.T, folder string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", args...)
	command.Dir = folder
	return output(t, command)
}

func output(t *testing.T, command *exec.Cmd) string {
	t.Helper()
	var stderr bytes.Buffer
	command.Stderr = &stderr
	text, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s", command, err, &stderr)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
