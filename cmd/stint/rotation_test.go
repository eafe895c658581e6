package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stintdev/stint/internal/redistest"
)

// rewrite replaces the content of a file in one step.
func rewrite(t *testing.T, path, content string) {
	t.Helper()
	writeFile(t, path+".next", content)
	if err := os.Rename(path+".next", path); err != nil {
		t.Fatal(err)
	}
}

// TestPasswordsOfRedisAreRotatedWhileServing rotates the password of the store and
// that of the rules, which use one Redis here. It cuts the server's connections, so
// that the server must log in with the new password.
func TestPasswordsOfRedisAreRotatedWhileServing(t *testing.T) {
	redis := redistest.Server(t)
	folder := t.TempDir()
	store, rules := filepath.Join(folder, "store"), filepath.Join(folder, "rules")
	rotate := func(password string) {
		redis.Must("ACL", "SETUSER", "app", "on", "resetpass", ">"+password, "+@all", "~*", "&*")
		redis.Must("CLIENT", "KILL", "USER", "app")
	}
	rotate("hidden1")
	writeFile(t, store, "hidden1\n")
	writeFile(t, rules, "hidden1\n")
	url := "redis://app@" + redis.Addr()
	p := startServer(t, nil, "--store", url, "--store-password-file", store, "--rules", url, "--rules-password-file", rules, "--state-dir", t.TempDir())
	publish := func(version string) {
		t.Helper()
		file := writeFile(t, filepath.Join(folder, "rules"+version+".yaml"), strings.ReplaceAll(failureRules, "limit: 3", "limit: 3"+version))
		var got result
		await(t, "version "+version+" is published", func() (bool, string) {
			got = command(t, []string{"STINT_SERVER=http://" + p.addr("admin")}, "rules", "apply", "--yes", file)
			return got.status == exitDone, got.errors
		})
		if !strings.Contains(got.out+got.errors, "version "+version) {
			t.Errorf("%s%s", got.out, got.errors)
		}
	}
	counts := func(when string) {
		t.Helper()
		await(t, when, func() (bool, string) { _, a := check(t, p, "/open", "k"); return !isDegraded(a), a })
	}
	publish("1")
	counts("at first")

	rotate("hidden2")
	await(t, "the old password is refused", func() (bool, string) { _, a := check(t, p, "/open", "k"); return isDegraded(a), a })
	rewrite(t, store, "hidden2\n")
	rewrite(t, rules, "hidden2\n")
	counts("after the rotation")
	publish("2")
	for _, flag := range []string{"store-password-file", "rules-password-file"} {
		await(t, "a log line", func() (bool, string) {
			log := strings.Join(p.logged(), "\n")
			return strings.Contains(log, `msg="secret file reloaded" setting=`+flag), log
		})
	}

	rewrite(t, store, "\n") // open connections are kept
	await(t, "the mistake is logged", func() (bool, string) {
		log := strings.Join(p.logged(), "\n")
		return strings.Contains(log, "secret file rejected") && strings.Contains(log, store), log
	})
	redis.Must("CLIENT", "KILL", "USER", "app")
	counts("after a mistake")
	p.signal(syscall.SIGHUP)
	counts("after SIGHUP")
	if log := strings.Join(p.logged(), "\n"); strings.Contains(log, "hidden") {
		t.Errorf("the log shows a password:\n%s", log)
	}
}

// TestTokensOfAStintAreRotatedWhileServing rotates the token with which one server
// counts in another.
func TestTokensOfAStintAreRotatedWhileServing(t *testing.T) {
	folder := t.TempDir()
	theirs, ours := filepath.Join(folder, "theirs"), filepath.Join(folder, "ours")
	writeFile(t, theirs, "hidden1")
	writeFile(t, ours, "hidden1")
	counting := startServer(t, nil, "--http-token-file", theirs)
	p := startShared(t, "stint://"+counting.addr("grpc"), "--store-password-file", ours)
	counts := func(when string, want bool) {
		t.Helper()
		await(t, when, func() (bool, string) { _, a := check(t, p, "/open", "k"); return isDegraded(a) != want, a })
	}
	counts("at first", true)
	rewrite(t, theirs, "hidden2")
	counts("the old token is refused", false)
	rewrite(t, ours, "hidden2")
	counts("after the rotation", true)
	if status, _ := do(t, http.MethodPost, "http://"+counting.addr("http")+"/v1/take", `{"key":"k","limit":"1/s"}`); status != http.StatusUnauthorized {
		t.Errorf("without a token: status %d", status)
	}
}
