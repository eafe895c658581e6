package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// grace is how long a patch release may be out before a build must use it. It
// leaves time to notice the release, and for its own faults to show.
const grace = 30 * 24 * time.Hour

// modulesBelow returns the folders with a go.mod.
func modulesBelow(root string) (folders []string, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		switch {
		case entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "bin" || name == "testdata"):
			return filepath.SkipDir
		case name == "go.mod":
			folders = append(folders, filepath.Dir(path))
		}
		return nil
	})
	if err == nil && len(folders) == 0 {
		err = fmt.Errorf("there is no go.mod below %s", root)
	}
	return folders, err
}

// dependency is a module that a go.mod requires.
type dependency struct{ path, version string }

// checkReleases fails if a dependency has a newer patch release that is older than
// the grace period.
func checkReleases(ctx context.Context, modules []string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, releasesTime)
	defer cancel()
	var old []error
	own, err := ownPaths(ctx, modules)
	if err != nil {
		return err
	}
	for _, folder := range modules {
		all, err := requirements(ctx, folder, own)
		if err != nil {
			return err
		}
		late, err := overdue(ctx, folder, all, time.Now())
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %d dependencies, %d with a patch release older than %d days\n", filepath.Join(folder, "go.mod"), len(all), len(late), grace/(24*time.Hour))
		old = append(old, late...)
	}
	return errors.Join(old...)
}

// ownPaths returns the paths of the modules in these folders.
func ownPaths(ctx context.Context, modules []string) (map[string]bool, error) {
	own := map[string]bool{}
	for _, folder := range modules {
		var file struct{ Module struct{ Path string } }
		if err := goTool(ctx, folder, &file, "mod", "edit", "-json"); err != nil {
			return nil, err
		}
		own[file.Module.Path] = true
	}
	return own, nil
}

// requirements returns the dependencies that a go.mod names, except those whose
// code is in this repository.
func requirements(ctx context.Context, folder string, own map[string]bool) ([]dependency, error) {
	var file struct {
		Require []struct{ Path, Version string }
	}
	if err := goTool(ctx, folder, &file, "mod", "edit", "-json"); err != nil {
		return nil, err
	}
	var all []dependency
	for _, r := range file.Require {
		if !own[r.Path] {
			all = append(all, dependency{r.Path, r.Version})
		}
	}
	return all, nil
}

// overdue returns an error for each dependency that should have been updated.
func overdue(ctx context.Context, folder string, all []dependency, now time.Time) (late []error, err error) {
	for _, d := range all {
		var published struct{ Versions []string }
		if err := goTool(ctx, folder, &published, "list", "-m", "-versions", "-json", d.path); err != nil {
			return nil, err
		}
		patches := newerPatches(d.version, published.Versions)
		if len(patches) == 0 {
			continue
		}
		var first struct{ Time time.Time }
		if err := goTool(ctx, folder, &first, "list", "-m", "-json", d.path+"@"+patches[0]); err != nil {
			return nil, err
		}
		if age := now.Sub(first.Time); age > grace {
			late = append(late, fmt.Errorf("%s: %s %s, but %s has been out for %d days (go get %s@%s)",
				filepath.Join(folder, "go.mod"), d.path, d.version, patches[0], age/(24*time.Hour), d.path, patches[len(patches)-1]))
		}
	}
	return late, nil
}

// release matches released versions, not pre-releases and pseudo-versions.
var release = regexp.MustCompile(`^(v\d+\.\d+)\.(\d+)(\+incompatible)?$`)

// newerPatches returns the newer releases that differ from a version only in the
// last number, in order. A pre-release is older than the release of its number. A
// pseudo-version of v0.0.0 has no newer patch.
func newerPatches(version string, published []string) (newer []string) {
	base, after := version, -1
	if m := release.FindStringSubmatch(version); m != nil {
		base, after = m[1], number(m[2])
	} else if before, _, _ := strings.Cut(version, "-"); release.MatchString(before) && before != "v0.0.0" {
		m := release.FindStringSubmatch(before)
		base, after = m[1], number(m[2])-1
	}
	for _, v := range published {
		if m := release.FindStringSubmatch(v); m != nil && m[1] == base && number(m[2]) > after {
			newer = append(newer, v)
		}
	}
	slices.SortFunc(newer, func(a, b string) int {
		return number(release.FindStringSubmatch(a)[2]) - number(release.FindStringSubmatch(b)[2])
	})
	return newer
}

// number returns the value of digits, or the greatest int if they do not fit.
func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}

// goTool runs the go command in a folder and decodes its JSON output.
func goTool(ctx context.Context, folder string, into any, args ...string) error {
	program := os.Getenv("GO")
	if program == "" {
		program = "go"
	}
	command := exec.CommandContext(ctx, program, args...) //nolint:gosec // the go command that its caller builds with
	command.Dir, command.WaitDelay = folder, time.Second
	var stderr bytes.Buffer
	command.Stderr = &stderr
	text, err := command.Output()
	if ctx.Err() != nil {
		return fmt.Errorf("%s: go %s: stopped after %v: is the module proxy reachable? (go env GOPROXY)", folder, strings.Join(args, " "), releasesTime)
	}
	if err != nil {
		return fmt.Errorf("%s: go %s: %w: is the module proxy reachable? (go env GOPROXY)\n%s", folder, strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: go %s: %w", folder, strings.Join(args, " "), err)
	}
	return nil
}
