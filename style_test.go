package stint_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// goFile is one Go file of this repository, parsed.
type goFile struct {
	path  string
	lines int
	set   *token.FileSet
	tree  *ast.File
}

func (f *goFile) test() bool { return strings.HasSuffix(f.path, "_test.go") }

func (f *goFile) imports(path string) bool {
	return slices.ContainsFunc(f.tree.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"`+path+`"` })
}

// length returns the number of lines of a function's body, without its braces.
func (f *goFile) length(d *ast.FuncDecl) int {
	lines := f.set.Position(d.Body.Rbrace).Line - f.set.Position(d.Body.Lbrace).Line
	return max(1, lines-1)
}

// goFiles returns every Go file that is not generated.
func goFiles(t *testing.T) (files []*goFile) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		f := &goFile{path: filepath.ToSlash(path), set: token.NewFileSet()}
		f.tree, err = parser.ParseFile(f.set, path, nil, parser.ParseComments)
		if err == nil && !ast.IsGenerated(f.tree) {
			f.lines = f.set.File(f.tree.Pos()).LineCount()
			files = append(files, f)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatal(len(files), err)
	}
	return files
}

// namedFile is a Go or Lua file in a comment, with or without its folder.
var namedFile = regexp.MustCompile(`(?:^|[\s(])((?:[\w-]+/)*[a-z]\w*\.(?:go|lua))\b`)

func TestFilesNamedInCommentsExist(t *testing.T) {
	for _, f := range goFiles(t) {
		for _, group := range f.tree.Comments {
			for _, m := range namedFile.FindAllStringSubmatch(group.Text(), -1) {
				_, beside := os.Stat(filepath.Join(filepath.Dir(f.path), m[1]))
				if _, err := os.Stat(m[1]); err != nil && beside != nil {
					t.Errorf("%s: a comment names %s, which exists neither beside it nor from the top", f.path, m[1])
				}
			}
		}
	}
}

func TestFilesHaveAtMost400Lines(t *testing.T) {
	for _, f := range goFiles(t) {
		if !f.test() && f.lines > 400 {
			t.Errorf("%s has %d lines: it holds more than one idea", f.path, f.lines)
		}
	}
}

func TestFunctionsAreSmall(t *testing.T) {
	var lengths []int
	for _, f := range goFiles(t) {
		for _, d := range f.tree.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil && !f.test() {
				lengths = append(lengths, f.length(d))
			}
		}
	}
	slices.Sort(lengths)
	if median := lengths[len(lengths)/2]; median > 8 {
		t.Errorf("the median function has %d lines; want at most 8", median)
	}
	if ninth := lengths[len(lengths)*9/10]; ninth > 25 {
		t.Errorf("one function in ten has more than %d lines; want at most 25", ninth)
	}
}

func TestPackagesHaveOneCommentAndAName(t *testing.T) {
	comments := map[string][]string{}
	for _, f := range goFiles(t) {
		name := f.tree.Name.Name
		if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "misc", "base", "shared"}, name) {
			t.Errorf("%s: package %s says nothing of what it is for", f.path, name)
		}
		if strings.HasSuffix(name, "_test") {
			continue
		}
		folder := filepath.Dir(f.path)
		comments[folder] = append(comments[folder], nil...)
		if f.tree.Doc != nil {
			comments[folder] = append(comments[folder], f.path)
		}
	}
	for folder, paths := range comments {
		if len(paths) != 1 {
			t.Errorf("package %s has %d package comments, in %v; want one", folder, len(paths), paths)
		}
	}
}

func TestTestsWaitForWhatTheyWaitFor(t *testing.T) {
	for _, f := range goFiles(t) {
		if !f.test() || f.imports("testing/synctest") { // under synctest, sleeping takes no real time
			continue
		}
		for _, at := range calls(f, "time", "Sleep") {
			t.Errorf("%v: a test that sleeps is slow or fails by chance (use testing/synctest, or poll)", at)
		}
	}
}

func TestNothingRunsAtInit(t *testing.T) {
	for _, f := range goFiles(t) {
		for _, d := range f.tree.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Recv == nil && d.Name.Name == "init" {
				t.Errorf("%s: init runs for everyone who imports the package, asked or not", f.path)
			}
		}
	}
}

// calls returns the places where a file calls a function of a package.
func calls(f *goFile, pkg, name string) (at []token.Position) {
	ast.Inspect(f.tree, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok || s.Sel.Name != name {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && x.Name == pkg {
			at = append(at, f.set.Position(s.Pos()))
		}
		return true
	})
	return at
}

// Only programs choose their store. Libraries receive one.
func TestStoresArePickedAtTheEdge(t *testing.T) {
	// Replay and impact decide recorded traffic by its own times, so they make their own stores.
	// Guard decides from a memory store while the shared store fails.
	edges := []string{"examples/", "bench/", "docs/", "guard/", "cmd/stint/internal/replay/", "cmd/stint/internal/impact/"}
	for _, f := range goFiles(t) {
		if f.test() || path.Dir(f.path) == "cmd/stint" || slices.ContainsFunc(edges, func(e string) bool { return strings.HasPrefix(f.path, e) }) {
			continue
		}
		for _, at := range calls(f, "stint", "NewMemory") {
			t.Errorf("%v: only commands, examples and tests pick a store", at)
		}
	}
}
