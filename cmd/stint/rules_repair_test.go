package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stintdev/stint/internal/redistest"
)

// TestForgedNumbersAreRepaired follows the steps of an operator: a change is refused
// with the command to run, the command asks for confirmation, and the servers follow.
func TestForgedNumbersAreRepaired(t *testing.T) {
	redis := redistest.Server(t)
	url := "redis://" + redis.Addr()
	a := administer(t, "--rules", url)
	first := a.file("first.yaml", adminRules)
	a.run(exitDone, []string{"version 1 is published"}, "rules", "apply", first)
	removed := a.file("removed.yaml", adminRemoved)
	redis.Must("XADD", "stint:rules:{rules}:versions", "18446744073709551615-0", "version", "{}")
	a.run(exitFailed, []string{"stint rules repair --source"}, "rules", "apply", "--yes", removed)

	repair := []string{"rules", "repair", "--source", url}
	a.run(exitFailed, []string{"Version 1 is published as version 2", "nothing was changed", "--yes"}, repair...)
	a.run(exitDone, []string{"version 2 is published (version 1 again, by a repair)"}, append(repair, "--yes")...)
	a.run(exitDone, []string{"version 3 is published"}, "rules", "apply", "--yes", removed)
	a.run(exitDone, []string{"version 4 is published"}, append(repair, "--yes", "--comment", "taken back", first)...)
	if got := command(t, nil, append(repair, "--yes", a.file("bad.yaml", "rules: [{id: a, limitt: 1}]"))...); got.status != exitUsage || !strings.Contains(got.errors, "limit") {
		t.Errorf("status %d, %s", got.status, got.errors)
	}
	for want, args := range map[string][]string{
		"source: is missing":         {"rules", "repair"},
		"is a file or folder":        {"rules", "repair", "--source", filepath.Join(t.TempDir(), "rules.yaml")},
		"etcd:// is not a source of": {"rules", "repair", "--source", "etcd://u:secret@h"},
	} {
		if got := command(t, nil, args...); got.status != exitUsage || !strings.Contains(got.errors, want) || strings.Contains(got.errors, "secret") {
			t.Errorf("%v: status %d, %s", args, got.status, got.errors)
		}
	}
}
