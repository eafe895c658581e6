package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// proxy writes a module proxy of files for GOPROXY=file://…. published has the
// versions of modules and the age of each in days.
func proxy(t *testing.T, published map[string]map[string]int) {
	t.Helper()
	root := t.TempDir()
	for module, versions := range published {
		folder := filepath.Join(root, module, "@v")
		var list strings.Builder
		for version, days := range versions {
			fmt.Fprintln(&list, version)
			at := time.Now().Add(-time.Duration(days) * 24 * time.Hour).UTC().Format(time.RFC3339)
			write(t, filepath.Join(folder, version+".info"), fmt.Sprintf(`{"Version": %q, "Time": %q}`, version, at))
			write(t, filepath.Join(folder, version+".mod"), "module "+module+"\n")
		}
		write(t, filepath.Join(folder, "list"), list.String())
	}
	t.Setenv("GOPROXY", "file://"+filepath.ToSlash(root))
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Setenv("GOFLAGS", "-mod=mod -modcacherw")
	t.Setenv("GONOSUMDB", "*")
	t.Setenv("GOWORK", "off")
	// No test uses the public database.
	t.Setenv("GOVULNDB", "http://127.0.0.1:1")
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

// tree writes a repository of two modules, one of which uses the other.
func tree(t *testing.T, requires, nested string) (root string) {
	t.Helper()
	root = t.TempDir()
	write(t, filepath.Join(root, "go.mod"), "module example.com/own\n\ngo 1.26\n\nrequire (\n"+requires+"\n)\n")
	write(t, filepath.Join(root, "sub", "go.mod"), "module example.com/own/sub\n\ngo 1.26\n\nrequire (\nexample.com/own v0.1.0\n"+nested+"\n)\n")
	write(t, filepath.Join(root, "testdata", "go.mod"), "not read")
	return root
}

func TestOldPatchReleasesFail(t *testing.T) {
	proxy(t, map[string]map[string]int{
		"example.com/current": {"v1.2.3": 400, "v1.2.4-rc.1": 300, "v1.3.0": 200, "v2.0.0+incompatible": 100},
		"example.com/fresh":   {"v1.0.0": 400, "v1.0.1": 29},
		"example.com/late":    {"v0.4.9": 400, "v0.4.10": 31, "v0.4.11": 2},
	})
	root := tree(t, "example.com/current v1.2.3\nexample.com/fresh v1.0.0", "example.com/late v0.4.9")
	var out strings.Builder
	err := check(t.Context(), root, "no-such-program", &out)
	if err == nil || strings.Count(err.Error(), "\n") != 0 {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"sub/go.mod", "example.com/late v0.4.9", "v0.4.10 has been out for 31 days", "go get example.com/late@v0.4.11"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	for _, want := range []string{"go.mod: 2 dependencies, 0 with", "sub/go.mod: 1 dependencies, 1 with"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %s", want, &out)
		}
	}
	write(t, filepath.Join(root, "sub", "go.mod"), strings.Replace(read(t, filepath.Join(root, "sub", "go.mod")), "v0.4.9", "v0.4.10", 1))
	if err := check(t.Context(), root, "no-such-program", &out); err != nil {
		t.Errorf("updated: %v", err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestNewerPatches(t *testing.T) {
	published := []string{"v0.0.1", "v1.2.10", "v1.2.9", "v1.2.3", "v1.2.11-beta", "v1.3.0", "v2.2.4", "v2.2.5+incompatible"}
	for version, want := range map[string][]string{
		"v1.2.3":                               {"v1.2.9", "v1.2.10"},
		"v1.2.9":                               {"v1.2.10"},
		"v1.2.10":                              nil,
		"v1.3.0":                               nil,
		"v2.2.4+incompatible":                  {"v2.2.5+incompatible"},
		"v1.2.9-rc.1":                          {"v1.2.9", "v1.2.10"},
		"v1.2.9-0.20240319094008-0393e58bdf10": {"v1.2.9", "v1.2.10"},
		"v0.0.0-20240319094008-0393e58bdf10":   nil,
		"v3.0.0":                               nil,
	} {
		if got := newerPatches(version, published); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", version, got, want)
		}
	}
}

func TestNoNetworkIsAClearError(t *testing.T) {
	proxy(t, nil)
	t.Setenv("GOPROXY", "http://127.0.0.1:1")
	var out strings.Builder
	err := check(t.Context(), tree(t, "example.com/current v1.2.3", ""), "no-such-program", &out)
	if err == nil || !strings.Contains(err.Error(), "is the module proxy reachable?") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(out.String(), "SKIPPED") {
		t.Errorf("the other part was not tried: %s", &out)
	}
}

// TestEveryModuleIsCheckedForVulnerabilities replaces govulncheck with a program
// that finds something in one of two modules.
func TestEveryModuleIsCheckedForVulnerabilities(t *testing.T) {
	proxy(t, nil)
	root, program := tree(t, "", ""), filepath.Join(t.TempDir(), "govulncheck")
	script := "#!/bin/sh\necho \"scanned $(basename \"$PWD\") with $*\"\ncase $PWD in */sub) exit 3;; esac\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	var status int
	database := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer database.Close()
	t.Setenv("GOVULNDB", database.URL)
	for status = range map[int]bool{http.StatusOK: true, http.StatusForbidden: false} {
		var out strings.Builder
		err := check(t.Context(), root, program, &out)
		found := err != nil && strings.Contains(err.Error(), "sub/go.mod: govulncheck, see above: exit status 3") && strings.Count(out.String(), "scanned") == 2
		skipped := err == nil && strings.Contains(out.String(), "SKIPPED") && strings.Contains(out.String(), "403") && !strings.Contains(out.String(), "scanned")
		if reached := status == http.StatusOK; found != reached || skipped == reached {
			t.Errorf("%d: %v\n%s", status, err, &out)
		}
	}
	status = http.StatusOK
	var out strings.Builder
	if err := check(t.Context(), root, "no-such-program", &out); err == nil || strings.Contains(out.String(), "SKIPPED") {
		t.Errorf("without the program: %v, %s", err, &out)
	}
}
