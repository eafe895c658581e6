package deploytest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	section = regexp.MustCompile(`(?m)^## `)
	excerpt = regexp.MustCompile("(?s)```(?:nginx|haproxy|caddyfile|apache|yaml)\n(.*?)```")
)

// Every excerpt in the guide is also in the file that it comes from.
func TestGuideShowsTheFiles(t *testing.T) {
	shown := 0
	for _, part := range section.Split(read(t, "../docs/forward-auth.md"), -1) {
		name, text, _ := strings.Cut(part, "\n")
		excerpts := excerpt.FindAllStringSubmatch(text, -1)
		if len(excerpts) == 0 {
			continue
		}
		file := unindented(folder(t, strings.ToLower(name)))
		for _, m := range excerpts {
			if shown++; !strings.Contains(file, unindented(m[1])) {
				t.Errorf("%s: not in its files:\n%s", name, m[1])
			}
		}
	}
	if shown < 9 {
		t.Errorf("%d excerpts", shown)
	}
}

// folder is the text of all files of one.
func folder(t *testing.T, name string) string {
	t.Helper()
	entries, err := os.ReadDir(name)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, e := range entries {
		all.WriteString(read(t, filepath.Join(name, e.Name())))
	}
	return all.String()
}

func unindented(text string) string {
	var all strings.Builder
	for line := range strings.Lines(text) {
		all.WriteString(strings.TrimLeft(line, " \t-"))
	}
	return all.String()
}
