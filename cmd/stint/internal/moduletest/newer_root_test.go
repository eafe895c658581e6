package moduletest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/semver"
)

// A user's build may take one module at the last tag and the module at the top at a newer
// version. So every module, as it was at the last tag, builds against the module at the
// top of the working tree. While there is no tag, the modules of the working tree build,
// each with its own go.mod.
func TestModulesBuildWithANewerTop(t *testing.T) {
	if err := buildWithNewerTop(t, top); err != nil {
		t.Error(err)
	}
}

func buildWithNewerTop(t *testing.T, repository string) error {
	t.Helper()
	tree := workingTree(t, repository)
	modules := tree
	if tag := lastTag(t, repository); tag != "" {
		t.Logf("the modules of %s build against the working tree", tag)
		modules = atTag(t, repository, tag)
	}
	proxy := newProxy(t, modules)
	newer := strings.Replace(proxy.version, "-test.", "-testnewer.", 1) // is greater
	t.Cleanup(func() { proxy.forget(t, root, newer) })
	i := slices.IndexFunc(tree, func(m source) bool { return m.path == root })
	proxy.publish(t, &tree[i], newer)

	requires, imports := map[string]string{}, []string(nil)
	for i := range modules {
		if folder := strings.TrimPrefix(modules[i].path, root+"/"); folder != "bench" && folder != "examples" { // nobody requires them
			requires[modules[i].path] = proxy.version
			imports = append(imports, packagesOf(&modules[i])...)
		}
	}
	requires[root] = newer
	program := newProgram(t, requires, nil)
	_, err := proxy.run(t, program, append([]string{"build"}, imports...)...)
	return err
}

// lastTag returns the greatest version among the tags of a repository, or "".
func lastTag(t *testing.T, repository string) string {
	t.Helper()
	tags := slices.DeleteFunc(strings.Fields(git(t, repository, "tag", "--list", "v*")), func(tag string) bool { return !semver.IsValid(tag) })
	if len(tags) == 0 {
		return ""
	}
	return slices.MaxFunc(tags, semver.Compare)
}

// A package below internal/ that loses what a tagged module uses is found.
func TestANewerTopThatBreaksAModuleIsFound(t *testing.T) {
	repository := t.TempDir()
	files := map[string]string{
		"go.mod":          "module " + root + "\n\ngo 1.26\n",
		"top.go":          "package stint\n",
		"internal/x/x.go": "package x\n\nfunc Used() {}\n\nfunc Unused() {}\n",
		"rule/go.mod":     "module " + root + "/rule\n\ngo 1.26\n\nrequire " + root + " v0.1.0\n",
		"rule/rule.go":    "package rule\n\nimport \"" + root + "/internal/x\"\n\nfunc F() { x.Used() }\n",
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		write(t, repository+"/"+name, files[name])
	}
	git(t, repository, "init", "-q")
	git(t, repository, "add", ".")
	git(t, repository, "-c", "user.name=t", "-c", "user.email=t@t.example", "commit", "-qm", "all")
	git(t, repository, "tag", "v0.1.0")

	write(t, repository+"/rule/rule.go", "package rule\n\nthis is not what is tagged\n")
	write(t, repository+"/internal/x/x.go", "package x\n\nfunc Used() {}\n")
	if err := buildWithNewerTop(t, repository); err != nil {
		t.Errorf("without an unused function: %v", err)
	}
	write(t, repository+"/internal/x/x.go", "package x\n\nfunc Unused() {}\n")
	if err := buildWithNewerTop(t, repository); err == nil || !strings.Contains(err.Error(), "x.Used") {
		t.Errorf("without a used function: %v, want an error that names it", err)
	}
}
