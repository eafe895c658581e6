// Package testserver finds the server programs that tests and benchmarks run, and ports
// for servers.
//
// scripts/install-wheels and scripts/install-ratelimit keep pinned versions in
// .cache/servers, one folder per server. They are independent of what the system has on
// PATH, so a test can run the oldest and the newest version of a server beside the
// system's own.
package testserver

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Pinned returns the path of a program of .cache/servers, as [Find] does. It skips
// the test, and says what to run, when there is none.
func Pinned(t testing.TB, name string) string {
	t.Helper()
	path, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	if path == "" {
		t.Skipf("needs %s in .cache/servers (run make servers)", name)
	}
	return path
}

// Find returns the path of a program of .cache/servers: the only program in the
// folder of that name. The path is empty when there is none.
func Find(name string) (path string, err error) {
	root, err := Root()
	if err != nil {
		return "", fmt.Errorf("look for .cache/servers above the working folder: %w", err)
	}
	found, err := filepath.Glob(filepath.Join(root, ".cache", "servers", name, "*"))
	if err != nil {
		return "", err
	}
	for _, path := range found {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o100 != 0 {
			return path, nil
		}
	}
	return "", nil
}

// Root returns the top folder of the repository: the one with scripts/test-servers.txt, at
// or above the working folder, which for a test is the folder of its package.
func Root() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "scripts", "test-servers.txt")); missing == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", os.ErrNotExist
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}
