package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stintdev/stint/internal/redistest"
)

func TestPasswordsOnTheCommandLineAreFound(t *testing.T) {
	for url, found := range map[string]bool{
		"memory": false, "redis://h:6379/0": false, "redis://app@h:6379/0": false, "rules/a:b@c.yaml": false, "redis://h:6379/0?timeout=1s": false,
		"redis://:pw@h": true, "redis://app:pw@h:6379/0": true, "rediss-sentinel://a:1,b:2/m?sentinel_username=x&sentinel_password=pw": true,
		"stint://:token@h": true, "postgres://u:pw@h/db": true, "postgres://h/db?password=pw": true, "redis://app:p@w@h": true,
	} {
		f := serveFlags{store: url, rules: url}
		for origin, want := range map[string]bool{"": found, "STINT_STORE": false} {
			if got := f.secretsOnCommandLine(origins{"store": origin}); slices.Contains(got, "store") != want || slices.Contains(got, "rules") {
				t.Errorf("%s by %q: %v", url, origin, got)
			}
		}
	}
}

func TestAPasswordOnTheCommandLineIsWarnedAbout(t *testing.T) {
	redis := redistest.Server(t, "--requirepass", "hidden")
	p := startServer(t, nil, "--store", "redis://:hidden@"+redis.Addr(), "--pprof")
	if log := strings.Join(p.logged(), "\n"); !strings.Contains(log, "flags=[store]") || strings.Contains(log, "hidden") {
		t.Error(log)
	}
	if status, text := do(t, "GET", "http://"+p.addr("admin")+"/debug/pprof/cmdline", ""); status != 200 || text != "stint" {
		t.Errorf("status %d, %q", status, text)
	}
}
