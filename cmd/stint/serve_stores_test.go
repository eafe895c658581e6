package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stintdev/stint/internal/redistest"
)

func TestStoresAreGivenByName(t *testing.T) {
	const cluster, quorum = "redis-cluster://a:1,b:2", "postgres://u@c,d/limits?options=-c%20a=b"
	file := writeFile(t, filepath.Join(t.TempDir(), "stint.yaml"), "store:\n  - "+cluster+"\n  - critical="+quorum+"\nstore-password-file: [a.secret, critical=/b.secret]\n")
	for how, flags := range map[string]serveFlags{
		"repeated":    withSettings(t, nil, "--store", "critical="+quorum, "--store", cluster, "--store-password-file", "critical=/b.secret", "--store-password-file", "a.secret"),
		"commas":      withSettings(t, nil, "--store", "default="+cluster+",critical="+quorum, "--store-password-file", "default=a.secret,critical=/b.secret"),
		"environment": withSettings(t, map[string]string{"STINT_STORE": cluster + ",critical=" + quorum, "STINT_STORE_PASSWORD_FILE": "a.secret,critical=/b.secret"}),
		"file":        withSettings(t, nil, "--config", file),
	} {
		if flags.store != cluster || !slices.Equal(flags.stores.named, []named{{"critical", quorum}}) ||
			flags.storePasswordFile != "a.secret" || !slices.Equal(flags.storePasswords.named, []named{{"critical", "/b.secret"}}) {
			t.Errorf("%s: %q and %v, %q and %v", how, flags.store, flags.stores.named, flags.storePasswordFile, flags.storePasswords.named)
		}
		if err := flags.checkStores(); err != nil {
			t.Errorf("%s: %v", how, err)
		}
	}
	flags := withSettings(t, nil, "--store", "redis://h,critical=memory,other=stint://h")
	if flags.store != "redis://h" || !slices.Equal(flags.stores.named, []named{{"critical", memoryStore}, {"other", "stint://h"}}) {
		t.Errorf("%q, %v", flags.store, flags.stores.named)
	}
}

func TestWrongStoresByName(t *testing.T) {
	many := []string{"serve"}
	for i := range maxStores {
		many = append(many, "--store", fmt.Sprintf("s%d=redis://h:%d", i, i+1))
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"serve", "--store", "redis://a", "--store", "redis://b"}, "the default store is given twice"},
		{[]string{"serve", "--store", "redis://a,redis://b"}, "the default store is given twice"},
		{[]string{"serve", "--store", "Critical=redis://a"}, `"Critical" is not the name of a store`},
		{[]string{"serve", "--store", "=redis://a"}, `"" is not the name of a store`},
		{[]string{"serve", "--store", strings.Repeat("n", 33) + "=redis://a"}, "is not the name of a store"},
		{[]string{"serve", "--store", "a\x1b[31m=redis://a"}, `"a\x1b[31m" is not the name of a store`},
		{[]string{"serve", "--store", "a=redis://h", "--store", "a=redis://i"}, "store: a is given twice"},
		{[]string{"serve", "--store", "a=memory"}, "a is a second memory store (give one of them the URL of a shared store)"},
		{[]string{"serve", "--store", "redis://a,Critical=redis://b"}, `"Critical" is not the name of a store`},
		{[]string{"serve", "--store", "a=redis://h,b=redis://h"}, "b has the URL of another store"},
		{[]string{"serve", "--store", "a=riak://user:secret@h"}, "store: a: riak:// is not a store of this version"},
		{[]string{"serve", "--store", "a=redis://h:99999"}, "store: a: "},
		{many, "17 stores are given"},
		{[]string{"serve", "--store-password-file", "a=b"}, "there is no store \"a\" (no store has a name: give --store NAME=URL)"},
		{[]string{"serve", "--store", "b=redis://h", "--store-password-file", "a=b"}, `there is no store "a" (name b, default)`},
		{[]string{"serve", "--store-password-file", "a", "--store-password-file", "b"}, "is given twice"},
	} {
		got := command(t, nil, c.args...)
		if got.status != exitUsage || !strings.Contains(got.errors, c.want) || strings.Contains(got.errors, "secret@") || strings.Contains(got.errors, "\x1b") {
			t.Errorf("%q: status %d, %q, want %q", c.args, got.status, got.errors, c.want)
		}
	}
}

const storeRules = `rules:
  - {id: all, by: [api_key], limit: 100, window: 3600}
  - {id: voucher, match: {path: /voucher}, by: [api_key], limit: 3, window: 3600, on_store_failure: closed, store: critical}
`

// Two servers that name their stores in different order share both.
func TestRulesNameTheirStore(t *testing.T) {
	first, second := redistest.Server(t), redistest.Server(t)
	const punishing = "  - {id: guess, match: {path: /guess}, by: [api_key], limit: 1, window: 60, store: critical, penalty: {after: 1, cool_down: 10m}}\n"
	rules := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), storeRules+punishing)
	stores := []string{"redis://" + first.Addr(), "critical=redis://" + second.Addr()}
	servers := []*process{
		startServer(t, nil, "--rules", rules, "--store", stores[0], "--store", stores[1]),
		startServer(t, nil, "--rules", rules, "--store", stores[1], "--store", stores[0]),
	}
	inTime(t, func(key string) (wrong string, degraded bool) {
		for i := range 5 {
			_, answer := check(t, servers[i%2], "/voucher", key)
			if isAllowed(answer) != (i < 3) {
				wrong = fmt.Sprintf("check %d of a limit of 3: %s", i, answer)
			}
			degraded = degraded || isDegraded(answer)
		}
		_, answer := check(t, servers[0], "/", key)
		if !strings.Contains(answer, `"remaining":96,`) {
			wrong = "denied requests were charged: " + answer
		}
		return wrong, degraded || isDegraded(answer)
	})
	for i, server := range []*redistest.Process{first, second} {
		if keys := strings.Count(server.Must("KEYS", "stint:{k0}*"), "stint:"); keys != 1 {
			t.Errorf("server %d has %d keys of a caller, want 1", i, keys)
		}
	}
	p := servers[0]
	if status, answer := do(t, http.MethodPost, "http://"+p.addr("http")+"/v1/take", `{"key":"k","limit":{"limit":5,"window":"1m","store":"critical"}}`); status != http.StatusBadRequest {
		t.Errorf("a caller that chooses a store: %d %s", status, answer)
	}
	check(t, p, "/guess", "guesser")
	await(t, "a penalty", func() (bool, string) {
		_, answer := check(t, p, "/guess", "guesser")
		return strings.Contains(answer, `"penalty":"cool_down"`), answer
	})
	second.Kill()
	await(t, "the store is down", func() (bool, string) {
		status, answer := check(t, p, "/voucher", "new")
		return status == http.StatusServiceUnavailable && !isAllowed(answer), answer
	})
	p.awaitMetric(`stint_store_up{store="critical"} 0`)
	if status, answer := do(t, http.MethodPost, "http://"+p.addr("admin")+"/v1/reset", `{"key":"new","rule":"voucher"}`); status != http.StatusServiceUnavailable || !strings.Contains(answer, "the store critical fails (") {
		t.Errorf("a reset: %d %s", status, answer)
	}
	await(t, "the penalty, which the default store has, still denies", func() (bool, string) {
		_, answer := check(t, p, "/guess", "guesser")
		return !isAllowed(answer) && strings.Contains(answer, `"penalty":"cool_down"`), answer
	})
	if _, answer := check(t, p, "/guess", "another"); !isAllowed(answer) || !isDegraded(answer) {
		t.Error("a caller without a penalty:", answer)
	}
	p.awaitMetric(`stint_store_up{store="default"} 1`)
	if _, health := do(t, http.MethodGet, "http://"+p.addr("http")+"/readyz?verbose", ""); !strings.Contains(health, "store default: up\nstore critical: down") {
		t.Error(health)
	}
	inTime(t, func(key string) (wrong string, degraded bool) {
		_, answer := check(t, p, "/", "later "+key)
		if !isAllowed(answer) || !strings.Contains(answer, `"remaining":99,`) {
			wrong = "the default store: " + answer
		}
		return wrong, isDegraded(answer)
	})
	second.Restart()
	await(t, "the store is back", func() (bool, string) { _, a := check(t, p, "/voucher", "back"); return !isDegraded(a), a })
}

// A rule that moves to another store starts fresh there. One that names a store that the
// server does not have is rejected, and the previous rules stay in force.
func TestRuleMovesToAnotherStore(t *testing.T) {
	first, second := redistest.Server(t), redistest.Server(t)
	folder := t.TempDir()
	of := func(store string) string { return strings.ReplaceAll(storeRules, "store: critical", "store: "+store) }
	rules := writeFile(t, filepath.Join(folder, "rules.yaml"), of("default"))
	p := startServer(t, nil, "--rules", rules, "--store", "redis://"+first.Addr(), "--store", "critical=redis://"+second.Addr(), "--store-deadline", "5s", "--store-slow", "0")
	take := func() string { _, answer := check(t, p, "/voucher", "k"); return answer }
	reload := func(store string, log string, n int) {
		if err := os.WriteFile(rules, []byte(of(store)), 0o600); err != nil {
			t.Fatal(err)
		}
		p.signal(syscall.SIGHUP)
		p.waitNth(log, n)
	}
	take()
	if answer := take(); !strings.Contains(answer, `"remaining":1,`) {
		t.Fatal(answer)
	}
	reload("nowhere", "rules rejected", 1)
	if log := strings.Join(p.logged(), "\n"); !strings.Contains(log, `rules.yaml:3:`) || !strings.Contains(log, "there is no store") || !strings.Contains(log, "name one of default, critical") {
		t.Error(log)
	}
	if answer := take(); !strings.Contains(answer, `"remaining":0,`) {
		t.Error("after rules that were rejected:", answer)
	}
	next := writeFile(t, filepath.Join(folder, "next.yaml"), of("critical"))
	got := command(t, nil, "rules", "diff", "--server", "http://"+p.addr("admin"), next)
	if !strings.Contains(got.out, "starts fresh: token_bucket:1h of voucher\n") {
		t.Errorf("%+v", got)
	}
	reload("critical", "rules reloaded", 1)
	if answer := take(); !isAllowed(answer) || !strings.Contains(answer, `"remaining":2,`) {
		t.Error("in the other store:", answer)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"key", "peek"}, "voucher"}, {[]string{"key", "reset"}, "voucher"},
	} {
		got := command(t, nil, append(c.args, "--server", "http://"+p.addr("admin"), "k")...)
		if got.status != 0 || !strings.Contains(got.out, c.want) {
			t.Errorf("%v: %+v", c.args, got)
		}
	}
	if keys := second.Must("KEYS", "stint:{k}*"); strings.Contains(keys, "stint:") {
		t.Errorf("a reset left %q", keys)
	}
	reload("default", "rules reloaded", 2)
	if answer := take(); isAllowed(answer) {
		t.Error("the default store has forgotten its counts, which were not reset:", answer)
	}
}

// A canary moves the callers that it has to the new store. A rule whose counts callers of both
// sides share stays in the old store until the promotion, and apply says so.
func TestCanaryMovesItsCallersToAnotherStore(t *testing.T) {
	first, second := redistest.Server(t), redistest.Server(t)
	p := startServer(t, nil, "--rules", "redis://"+first.Addr()+"/1", "--store", "redis://"+first.Addr(), "--store", "critical=redis://"+second.Addr(), "--store-deadline", "5s", "--store-slow", "0")
	a := &administered{p, []string{"STINT_SERVER=http://" + p.addr("admin")}, t.TempDir()}
	const old = "rules:\n  - {id: own, by: [api_key], limit: 100, window: 1h}\n  - {id: paths, by: [path], limit: 1000, window: 1h}\n"
	moved := strings.ReplaceAll(old, "window: 1h", "window: 1h, store: critical")
	shared := strings.Replace(old, "1000, window: 1h", "1000, window: 1h, store: critical", 1)
	a.run(exitDone, nil, "rules", "apply", a.file("old.yaml", old))
	a.run(exitFailed, []string{"it changes only limits whose counts all callers share (paths)"}, "rules", "apply", "--yes", "--canary", "50%", a.file("shared.yaml", shared))
	a.run(exitDone, []string{
		"  own: 100/h → 100/h (store critical)\nstarts fresh: token_bucket:1h of own\n",
		"callers of both sides share the counts: the limits of paths\n  paths: 1000/h → 1000/h (store critical)\n",
	}, "rules", "apply", "--yes", "--canary", "50%", a.file("moved.yaml", moved))
	p.wait("canary on")
	for i := range 40 {
		if _, answer := check(t, p, "/x", fmt.Sprintf("caller%d", i)); !isAllowed(answer) {
			t.Fatal(answer)
		}
	}
	here, there := strings.Count(first.Must("KEYS", "stint:{caller*"), "stint:"), strings.Count(second.Must("KEYS", "stint:{caller*"), "stint:")
	if here == 0 || there == 0 || here+there != 40 {
		t.Errorf("%d callers in the old store and %d in the new one, want 40 in all", here, there)
	}
	if keys := second.Must("KEYS", "stint:{/x}*"); strings.Contains(keys, "stint:") {
		t.Errorf("the canary has moved counts that all callers share: %q", keys)
	}
	a.run(exitDone, nil, "rules", "promote")
	p.wait("canary ended")
	check(t, p, "/x", "caller0")
	if keys := second.Must("KEYS", "stint:{/x}*"); !strings.Contains(keys, "stint:") {
		t.Errorf("after the promotion: %q", keys)
	}
}

func TestValidateKnowsTheStores(t *testing.T) {
	rules := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), storeRules)
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{nil, 0, "OK, 2 rules"},
		{[]string{"--store-names", "audit,critical"}, 0, "OK, 2 rules"},
		{[]string{"--store-names", "audit"}, exitUsage, `rules.yaml:3:`},
		{[]string{"--store-names", "audit"}, exitUsage, `store: there is no store "critical" (name one of default, audit, or start the server with --store critical=URL)`},
		{[]string{"--store-names", ""}, exitUsage, "name one of default, or start"},
	} {
		got := command(t, nil, append([]string{"rules", "validate", rules}, c.args...)...)
		if got.status != c.status || !strings.Contains(got.out+got.errors, c.want) {
			t.Errorf("%v: %+v", c.args, got)
		}
	}
	if got := command(t, nil, "rules", "validate", rules); !strings.Contains(got.out, "  STORE\n") || !regexp.MustCompile(`(?m)^all .* default$`).MatchString(got.out) || !regexp.MustCompile(`(?m)^voucher .* critical$`).MatchString(got.out) {
		t.Error(got.out)
	}
	if got := command(t, nil, "rules", "validate", "--json", rules); strings.Count(got.out, `"store":`) != 1 || !strings.Contains(got.out, `{"rule":"voucher","mode":"enforce","store":"critical",`) {
		t.Error(got.out)
	}
	bad := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), strings.ReplaceAll(storeRules, "critical", `"a/../b"`))
	if got := command(t, nil, "rules", "validate", bad); got.status != exitUsage || !strings.Contains(got.errors, `store: "a/../b" is not the name of a store`) {
		t.Errorf("%+v", got)
	}
	explain := command(t, nil, "rules", "explain", "--rules", rules, "--attributes", `{"api_key":"k","path":"/voucher"}`)
	if !strings.Contains(explain.out, "  store: critical\n") {
		t.Errorf("%+v", explain)
	}
}
