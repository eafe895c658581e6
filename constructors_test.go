package stint_test

import (
	"go/ast"
	"iter"
	"path"
	"regexp"
	"strings"
	"testing"
)

// constructor matches the names of functions that make a value: they are what a
// newcomer looks for in the documentation of a package.
var constructor = regexp.MustCompile(`^(New|Open|Join|Limit|MustParse|Parse|Per|Watch)([A-Z].*)?$`)

// Every exported constructor has an example, which its documentation shows.
func TestConstructorsHaveExamples(t *testing.T) {
	examples := map[string]bool{}
	constructors := 0
	files := goFiles(t)
	for _, f := range files {
		for name := range functions(f) {
			examples[path.Dir(f.path)+"."+name] = true
		}
	}
	for _, f := range files {
		if f.test() || !isPublic(f.path) {
			continue
		}
		for name := range functions(f) {
			if !constructor.MatchString(name) {
				continue
			}
			constructors++
			if !hasExample(examples, path.Dir(f.path), name) {
				t.Errorf("%s: %s has no example: write func Example%s in a test of the package", f.path, name, name)
			}
		}
	}
	if constructors == 0 {
		t.Error("no constructor was found")
	}
}

// isPublic reports whether a file belongs to a package that others import.
func isPublic(file string) bool {
	first, _, _ := strings.Cut(file, "/")
	switch first {
	case "bench", "cmd", "deploy", "docs", "examples", "scripts":
		return false
	}
	return !strings.Contains("/"+file, "/internal/")
}

// functions returns the names of the exported functions of a file, methods left out.
func functions(f *goFile) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, d := range f.tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && fn.Recv == nil && fn.Name.IsExported() && !yield(fn.Name.Name) {
				return
			}
		}
	}
}

// hasExample reports whether an example of the function is among those of the folders,
// with or without a suffix such as _byKey.
func hasExample(examples map[string]bool, folder, function string) bool {
	for name := range examples {
		rest, ok := strings.CutPrefix(name, folder+".Example"+function)
		if ok && (rest == "" || rest[0] == '_') {
			return true
		}
	}
	return false
}
