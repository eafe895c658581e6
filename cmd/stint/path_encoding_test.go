package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

func TestPathEncodingIsAFlagAVariableAndASetting(t *testing.T) {
	folder := t.TempDir()
	rules := writeFile(t, filepath.Join(folder, "rules.yaml"), "rules:\n  - {id: a, match: {path: /v1/orders}, deny_all: true, limit: 1/s}\n")
	settings := func(encoding string) string {
		return writeFile(t, filepath.Join(folder, encoding+".yaml"), "path_encoding: "+encoding+"\n")
	}
	for name, c := range map[string]struct {
		environment, flags []string
		status             int
	}{
		"default":  {nil, nil, http.StatusTooManyRequests},
		"flag":     {nil, []string{"--path-encoding", "keep"}, http.StatusOK},
		"variable": {[]string{"STINT_PATH_ENCODING=reject"}, nil, http.StatusBadRequest},
		"setting":  {nil, []string{"--config", settings("keep")}, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			p := startServer(t, c.environment, append(c.flags, "--rules", rules)...)
			if status, body := get(t, p, "/v1/auth/v1%2Forders"); status != c.status {
				t.Errorf("%d %s, want %d", status, body, c.status)
			}
		})
	}
	got := command(t, nil, "serve", "--path-encoding", "both")
	if got.status != exitUsage || !strings.Contains(got.errors, fmt.Sprintf("path-encoding: %q is not known (use keep, decode or reject)", "both")) {
		t.Errorf("status %d, %s", got.status, got.errors)
	}
}
