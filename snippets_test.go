package stint_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var goFence = regexp.MustCompile("(?s)```go\n(.*?)```")

// Go code shown in a document is part of an example that compiles and runs.
func TestCodeInDocumentsIsFromExamples(t *testing.T) {
	examples := exampleCode(t)
	shown := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "bench/*.md"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range goFence.FindAllStringSubmatch(string(text), -1) {
				shown++
				if !strings.Contains(examples, unindented(m[1])) {
					t.Errorf("%s shows code that is in no example:\n%s", path, m[1])
				}
			}
		}
	}
	if shown == 0 {
		t.Error("no document shows code")
	}
}

// exampleCode is the code of every example, without indentation.
func exampleCode(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		isExample := strings.HasPrefix(name, "example") && strings.HasSuffix(name, "_test.go") ||
			strings.HasPrefix(filepath.ToSlash(path), "examples/") && strings.HasSuffix(name, ".go")
		if err != nil || !isExample {
			return err
		}
		code, err := os.ReadFile(path)
		all.WriteString(unindented(string(code)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func unindented(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		b.WriteString(strings.TrimSpace(line))
		b.WriteByte('\n')
	}
	return b.String()
}
