//go:build linux

package proxytest

import (
	"os"
	"strings"
	"testing"
)

// folder returns a new folder that every user may read, because proxies give up root.
func folder(t *testing.T) string {
	t.Helper()
	path, err := os.MkdirTemp("", "proxytest") //nolint:usetesting // a folder of t.TempDir is closed to them
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(path) })
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
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

func port(addr string) string {
	_, p, _ := strings.Cut(addr, ":")
	return p
}
