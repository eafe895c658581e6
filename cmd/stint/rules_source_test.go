package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stintdev/stint/internal/pgtest"
	"github.com/stintdev/stint/internal/redistest"
)

func TestRulesArePublishedInRedisBeforeAServerRuns(t *testing.T) {
	redis := redistest.Server(t)
	publishedWithoutServer(t, "redis://"+redis.Addr())
}

func TestRulesArePublishedInPostgreSQLBeforeAServerRuns(t *testing.T) {
	server := pgtest.Start(t)
	publishedWithoutServer(t, server.URL(), "password-file", writeFile(t, filepath.Join(t.TempDir(), "password"), pgtest.Password))
}

// publishedWithoutServer changes the rules in a source without a server, and then
// starts a server with that source.
func publishedWithoutServer(t *testing.T, source string, password ...string) {
	t.Helper()
	folder := t.TempDir()
	a := &administered{process: &process{t: t}, folder: folder}
	at, serve := []string{"--source", source}, []string{"--rules", source, "--state-dir", filepath.Join(folder, "state")}
	if len(password) > 0 {
		at, serve = append(at, "--source-"+password[0], password[1]), append(serve, "--rules-"+password[0], password[1])
	}
	rules := func(status int, want []string, args ...string) {
		t.Helper()
		a.run(status, want, append(append([]string{"rules"}, args...), at...)...)
	}
	first, removed := a.file("first.yaml", adminRules), a.file("removed.yaml", adminRemoved)
	rules(exitDone, []string{"nothing was published"}, "history")
	rules(exitDone, []string{"version 1 is published", "2 added"}, "apply", first)
	rules(exitFailed, []string{"it removes 1 rule (b)"}, "apply", removed)
	rules(exitDone, []string{"version 2"}, "apply", "--yes", removed)
	rules(exitFailed, []string{"412", "1 removed (b)"}, "apply", "--base", "1", first)
	rules(exitDone, []string{"version 3"}, "rollback", "1")
	p := startServer(t, nil, serve...)
	a.env = []string{"STINT_SERVER=http://" + p.addr("admin")}
	if got := a.run(exitDone, nil, "rules", "show"); got.out != adminRules || !strings.Contains(got.errors, "version 3") {
		t.Errorf("%s%s", got.out, got.errors)
	}
	p.wait("version=3")
	for range 100 { // nodes announce themselves shortly after they are ready
		if got := command(t, nil, append([]string{"nodes"}, at...)...); strings.Contains(got.out, "  "+programVersion(t)+"  3      ") {
			return
		}
	}
	t.Error("the node is not listed")
}

// The commands distinguish a source that was emptied, or that does not answer, from a
// source that never had a version.
func TestASourceThatLostItsVersionsIsReported(t *testing.T) {
	redis := redistest.Server(t)
	a := administer(t, "--rules", "redis://"+redis.Addr())
	a.run(exitDone, []string{"0*", "nothing was published"}, "rules", "history")
	a.run(exitDone, []string{"version 1 is published"}, "rules", "apply", a.file("rules.yaml", adminRules))
	if _, err := redis.Do("FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	a.run(exitDone, []string{"1*", "the source no longer has any version"}, "rules", "history")
	redis.Kill()
	if got := a.run(exitFailed, []string{"503", "does not answer"}, "rules", "history"); strings.Contains(got.errors, "took a change") {
		t.Error(got.errors)
	}
	a.run(exitFailed, []string{"503", "nothing was changed: the source of the rules does not answer"}, "rules", "apply", "--yes", a.file("raised.yaml", adminRaised))
	if got := a.run(exitDone, nil, "rules", "show"); got.out != adminRules {
		t.Error(got.out)
	}
}

// A damaged version is not treated as a missing one.
func TestADamagedVersionIsReported(t *testing.T) {
	redis := redistest.Server(t)
	source := "redis://" + redis.Addr()
	a := administer(t, "--rules", source)
	first, raised := a.file("rules.yaml", adminRules), a.file("raised.yaml", adminRaised)
	a.run(exitDone, []string{"version 1 is published"}, "rules", "apply", first)
	a.run(exitDone, []string{"version 2 is published"}, "rules", "apply", raised)
	redis.Must("HSET", "stint:rules:{rules}:files", "1", "junk")
	a.run(exitFailed, []string{"the versions in the source are damaged"}, "rules", "show", "1")
	a.run(exitFailed, []string{"the versions in the source are damaged"}, "rules", "rollback", "1")
	a.run(exitDone, []string{"2*"}, "rules", "history", "--source", source)
	redis.Must("HSET", "stint:rules:{rules}:files", "2", "junk")
	a.run(exitFailed, []string{"is damaged", "--server"}, "rules", "history", "--source", source)
	a.run(exitFailed, []string{"is damaged", "--server"}, "rules", "apply", "--yes", "--source", source, first)
	a.run(exitDone, []string{"version 3 is published"}, "rules", "apply", "--yes", first)
	a.run(exitDone, []string{"3*"}, "rules", "history", "--source", source)
}
