package rule

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what the test files say now as what they should")

// golden compares text with the golden file beside the input.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (see it with -rewrite); got:\n%s", file, got)
	}
}

func inputs(t *testing.T, folder string) []string {
	t.Helper()
	names, err := fileNames(folder)
	if err != nil || len(names) == 0 {
		t.Fatalf("no files in %s: %v", folder, err)
	}
	return names
}

func TestEveryMistakeIsListed(t *testing.T) {
	for _, name := range inputs(t, "testdata/bad") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			s, err := Load(name)
			if err == nil || s != nil {
				t.Fatal("loads, though it has mistakes")
			}
			golden(t, name+".problems", err.Error()+"\n")
		})
	}
}

func TestGoodFilesLoad(t *testing.T) {
	for _, name := range inputs(t, "testdata/good") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			s, err := Load(name)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".set", describe(s))
		})
	}
}

// describe returns the whole content of a set as lines.
func describe(s *Set) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version %q, tiers %v\n", s.Version(), s.Tiers())
	for _, r := range s.Rules() {
		fmt.Fprintf(&b, "%s: version %q, mode %d, headers %s, jitter %g, policy %d %d %d, local %v %v, deny all %t\n",
			r.ID, r.Version, r.Mode, r.Headers, r.RetryJitter, r.Policy.Consistency, r.Policy.OnFailure, r.Policy.Replicas, r.Local, r.LocalBy, r.DenyAll())
		for _, e := range r.Effective(s) {
			fmt.Fprintf(&b, "  tier %q override %q:\n", e.Tier, e.Override)
			for _, l := range e.Limits {
				fmt.Fprintf(&b, "    %s; most %d, rate %v\n", l, l.Max(), l.Rate())
			}
		}
	}
	if w := s.Warnings(); len(w) > 0 {
		fmt.Fprintf(&b, "warnings:\n%s\n", w)
	}
	return b.String()
}
