package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/stintdev/stint/internal/redistest"
)

const failureRules = `rules:
  - {id: open, match: {path: /open}, by: [api_key], limit: 3, window: 3600}
  - {id: closed, match: {path: /closed}, by: [api_key], limit: 3, window: 3600, on_store_failure: closed}
  - {id: local, match: {path: /local}, by: [api_key], limit: 3, window: 3600, on_store_failure: local}
  - {id: known, match: {path: /known}, by: [api_key], limit: 10, window: 36000, on_store_failure: last_known}
`

// startShared starts a server with failureRules on a shared store.
func startShared(t *testing.T, store string, args ...string) *process {
	t.Helper()
	rules := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), failureRules)
	return startServer(t, []string{"STINT_STORE=" + store}, append([]string{"--rules", rules}, args...)...)
}

// check has one of the failureRules decide a request.
func check(t *testing.T, p *process, path, key string) (status int, answer string) {
	t.Helper()
	return do(t, http.MethodPost, "http://"+p.addr("http")+"/v1/check", fmt.Sprintf(`{"attributes":{"api_key":%q,"path":%q}}`, key, path))
}

func isDegraded(answer string) bool { return strings.Contains(answer, `"degraded":true`) }
func isAllowed(answer string) bool  { return strings.HasPrefix(answer, `{"allowed":true`) }

// await polls until a condition holds.
func await(t *testing.T, what string, ask func() (as bool, answer string)) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		as, answer := ask()
		if as {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: still %s", what, answer)
		}
	}
}

func (p *process) metrics() string {
	_, text := do(p.t, http.MethodGet, "http://"+p.addr("admin")+"/metrics", "")
	return text
}

func (p *process) awaitMetric(line string) {
	p.t.Helper()
	await(p.t, "metric "+line, func() (bool, string) {
		text := p.metrics()
		return strings.Contains(text, line), text
	})
}

// inTime repeats a case, each time with a new key, until no check of it was
// degraded: a check has a deadline of 50 ms, which a busy host may exceed. The case
// returns what is wrong, and whether a check was degraded.
func inTime(t *testing.T, run func(key string) (wrong string, degraded bool)) {
	t.Helper()
	const attempts = 5
	for i := range attempts {
		if wrong, degraded := run(fmt.Sprint("k", i)); !degraded {
			if wrong != "" {
				t.Error(wrong)
			}
			return
		}
	}
	t.Errorf("checks were decided without the store in %d attempts", attempts)
}

func TestProcessesShareOneLimit(t *testing.T) {
	redis := redistest.Server(t)
	servers := []*process{startShared(t, "redis://"+redis.Addr()), startShared(t, "redis://"+redis.Addr()+"/0")}
	inTime(t, func(key string) (wrong string, degraded bool) {
		var admitted, late atomic.Int64
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				_, answer := check(t, servers[i%2], "/closed", key)
				if isAllowed(answer) {
					admitted.Add(1)
				}
				if isDegraded(answer) {
					late.Add(1)
				}
			})
		}
		all.Wait()
		if admitted.Load() != 3 {
			wrong = fmt.Sprintf("%d admitted of a limit of 3", admitted.Load())
		}
		return wrong, late.Load() > 0
	})
	for key := range strings.FieldsSeq(redis.Must("KEYS", "*")) {
		if !strings.HasPrefix(key, "stint:") {
			t.Errorf("key %s", key)
		}
	}
}

func TestPrefixesCountApart(t *testing.T) {
	redis := redistest.Server(t)
	store := "redis://" + redis.Addr()
	servers := []*process{startShared(t, store, "--key-prefix", "blue"), startShared(t, store, "--key-prefix", "green")}
	inTime(t, func(key string) (wrong string, degraded bool) {
		for i := range 6 {
			_, answer := check(t, servers[i%2], "/closed", key)
			if !isAllowed(answer) {
				wrong = answer
			}
			degraded = degraded || isDegraded(answer)
		}
		return wrong, degraded
	})
}

// Two servers lose their store. Together they continue from what remained there.
func TestServersContinueFromWhatTheyLastKnew(t *testing.T) {
	redis := redistest.Server(t)
	url := "redis://" + redis.Addr()
	servers := []*process{startShared(t, url, "--nodes", "2", "--store-deadline", "1s"), startShared(t, url, "--nodes", "2", "--store-deadline", "1s")}
	for i := range 9 { // the first server checks five times, and the second four
		if _, answer := check(t, servers[i%2], "/known", "k"); !isAllowed(answer) || isDegraded(answer) {
			t.Fatal(answer)
		}
	}
	redis.Kill()
	for _, c := range []struct {
		key    string
		server int
		want   int
	}{{"k", 0, 1}, {"k", 1, 1}, {"unknown", 0, 5}, {"unknown", 1, 5}} {
		admitted := 0
		for range 12 {
			_, answer := check(t, servers[c.server], "/known", c.key)
			if !isDegraded(answer) {
				t.Fatal(answer)
			}
			if isAllowed(answer) {
				admitted++
			}
		}
		if admitted != c.want {
			t.Errorf("server %d admitted %d of key %s, want %d", c.server, admitted, c.key, c.want)
		}
	}
	servers[0].awaitMetric(`stint_decisions_total{decision="error_last_known",rule="known"} 24`)
}

func TestRulesDecideWhileTheStoreIsDown(t *testing.T) {
	redis := redistest.Server(t)
	p := startShared(t, "redis://"+redis.Addr())
	p.awaitMetric("stint_store_up 1\n")
	redis.Kill()
	for i := range 5 {
		if status, answer := check(t, p, "/open", "k"); status != http.StatusOK || !isAllowed(answer) || !isDegraded(answer) {
			t.Errorf("open: %d %s", status, answer)
		}
		if status, answer := check(t, p, "/closed", "k"); status != http.StatusServiceUnavailable || isAllowed(answer) || !isDegraded(answer) || !strings.Contains(answer, "retry_after_ms") {
			t.Errorf("closed: %d %s", status, answer)
		}
		if status, answer := check(t, p, "/local", "k"); status != http.StatusOK || isAllowed(answer) != (i < 3) || !isDegraded(answer) {
			t.Errorf("local, check %d: %d %s", i, status, answer)
		}
	}
	for _, line := range []string{
		"stint_store_up 0\n", `stint_decisions_total{decision="error_closed",rule="closed"} 5`, `stint_decisions_total{decision="error_local",rule="local"} 5`,
	} {
		p.awaitMetric(line)
	}
	for range 30 { // enough for the breaker
		check(t, p, "/open", "k")
	}
	p.awaitMetric(`stint_store_breaker_open{shard=""} 1`)
	redis.Restart()
	killed := time.Now()
	await(t, "the store is back", func() (bool, string) { _, a := check(t, p, "/open", "back"); return !isDegraded(a), a })
	t.Logf("counted again %v after the restart", time.Since(killed).Round(time.Millisecond))
	if _, answer := check(t, p, "/local", "k"); !isAllowed(answer) {
		t.Errorf("local counts still apply: %s", answer)
	}
	p.awaitMetric("stint_store_up 1\n")
	opened := 0
	for _, line := range p.logged() {
		if strings.Contains(line, "level=WARN") {
			opened++
		}
	}
	if opened > 4 {
		t.Errorf("%d warnings, want one a change of state:\n%s", opened, strings.Join(p.logged(), "\n"))
	}
}

func TestNodesDivideTheLocalLimit(t *testing.T) {
	redis := redistest.Server(t)
	store := "redis://" + redis.Addr()
	servers := []*process{startShared(t, store), startShared(t, store), startShared(t, store, "--nodes", "1")}
	for _, s := range servers {
		s.awaitMetric("stint_store_nodes 3\n")
	}
	redis.Kill()
	for i, want := range []int{1, 1, 3} { // remaining units of a limit of 3
		admitted := 0
		for range 5 {
			if _, answer := check(t, servers[i], "/local", "k"); isAllowed(answer) {
				admitted++
			}
		}
		if admitted != want {
			t.Errorf("node %d admits %d of its share of 3, want %d", i, admitted, want)
		}
	}
}

func TestRulesDecideAChargeThatNoReplicaHas(t *testing.T) {
	redis := redistest.Server(t)
	rules := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), `rules:
  - {id: sure, match: {path: /sure}, by: [api_key], limit: 3, window: 3600, replicas: 1, on_store_failure: closed}
  - {id: open, match: {path: /open}, by: [api_key], limit: 3, window: 3600, replicas: 1}
  - {id: alone, match: {path: /alone}, by: [api_key], limit: 3, window: 3600}
`)
	p := startServer(t, nil, "--store", "redis://"+redis.Addr(), "--rules", rules)
	if status, answer := check(t, p, "/sure", "k"); status != http.StatusServiceUnavailable || !isDegraded(answer) {
		t.Errorf("closed: %d %s", status, answer)
	}
	if status, answer := check(t, p, "/open", "k"); status != http.StatusOK || !isDegraded(answer) || !isAllowed(answer) {
		t.Errorf("open: %d %s", status, answer)
	}
	if status, answer := check(t, p, "/alone", "k"); status != http.StatusOK || isDegraded(answer) {
		t.Errorf("without replicas: %d %s", status, answer)
	}
	await(t, "the kind of error", func() (bool, string) {
		check(t, p, "/open", "k") // the first check may have missed its deadline
		text := p.metrics()
		return strings.Contains(text, `stint_store_errors_total{kind="replicas",`), text
	})
	await(t, "the log of unconfirmed charges and of what failed open", func() (bool, string) {
		log := strings.Join(p.logged(), "\n")
		return strings.Contains(log, "charges were not confirmed by enough replicas in time") && strings.Contains(log, "fail-open admissions") && strings.Contains(log, "rule=open"), log
	})
}

func TestServesBeforeTheStoreIsThere(t *testing.T) {
	redis := redistest.Server(t)
	redis.Kill()
	p := startShared(t, "redis://"+redis.Addr())
	if status, _ := get(t, p, "/readyz"); status != http.StatusOK {
		t.Errorf("/readyz answers %d", status)
	}
	if status, answer := check(t, p, "/open", "k"); status != http.StatusOK || !isDegraded(answer) {
		t.Errorf("%d %s", status, answer)
	}
	redis.Restart()
	await(t, "the store is there", func() (bool, string) { _, a := check(t, p, "/open", "k"); return !isDegraded(a), a })
}

func TestStartLogsWhyTheStoreIsNotReady(t *testing.T) {
	redis := redistest.Server(t, "--requirepass", "right")
	gone := redistest.Server(t)
	gone.Kill()
	for store, why := range map[string]string{
		"redis://" + gone.Addr():                 "cannot be reached yet.*connection refused",
		"redis://:wrong@" + redis.Addr():         "cannot be reached yet.*WRONGPASS",
		"redis://:right@" + redis.Addr() + "/99": "cannot be reached yet.*out of range",
	} {
		p := startShared(t, store)
		p.wait("msg=ready")
		if log := strings.Join(p.logged(), "\n"); !regexp.MustCompile(why).MatchString(log) {
			t.Errorf("%q is not in the log:\n%s", why, log)
		}
	}
	redis.Must("ACL", "SETUSER", "weak", "on", ">weak", "~*", "+@all", "-eval", "-evalsha")
	startShared(t, "redis://weak:weak@"+redis.Addr()).wait("accepts no checks yet")
}

func TestTermEndsAServerWhoseStoreIsFrozen(t *testing.T) {
	redis := redistest.Server(t)
	p := startShared(t, "redis://"+redis.Addr(), "--drain-delay", "0s")
	redis.Freeze()
	check(t, p, "/open", "k")
	begun := time.Now()
	p.signal(syscall.SIGTERM)
	if status, took := p.exit(), time.Since(begun); status != exitDone || took > 10*time.Second {
		t.Errorf("status %d after %v", status, took)
	}
	t.Logf("ended after %v", time.Since(begun))
}

func TestPasswordIsReadFromAFileAndShownNowhere(t *testing.T) {
	const password = "pass:w@rd/of #100%"
	redis := redistest.Server(t, "--requirepass", password)
	folder := t.TempDir()
	rules := writeFile(t, filepath.Join(folder, "rules.yaml"), failureRules)
	right := writeFile(t, filepath.Join(folder, "right"), password+"\n")
	wrong := writeFile(t, filepath.Join(folder, "wrong"), "not the "+password)
	for file, works := range map[string]bool{right: true, wrong: false} {
		p := startServer(t, []string{"STINT_STORE_PASSWORD_FILE=" + file}, "--rules", rules, "--store", "redis://"+redis.Addr(), "--log-level", "debug")
		await(t, "an answer", func() (bool, string) { _, a := check(t, p, "/open", "k"); return isDegraded(a) != works, a })
		if !works {
			await(t, "the kind of error", func() (bool, string) {
				check(t, p, "/open", "k")
				text := p.metrics()
				return strings.Contains(text, `stint_store_errors_total{kind="noauth",shard=""} `), text
			})
		}
		if log := strings.Join(p.logged(), "\n"); strings.Contains(log, password) || strings.Contains(log, "w@rd") {
			t.Errorf("the log shows the password:\n%s", log)
		}
	}
}

func TestPasswordInTheURLIsNotLogged(t *testing.T) {
	redis := redistest.Server(t, "--requirepass", "hidden")
	p := startShared(t, "redis://:hidden@"+redis.Addr(), "--log-level", "debug")
	if _, answer := check(t, p, "/open", "k"); isDegraded(answer) {
		t.Errorf("the first check is decided without the store: %s", answer)
	}
	if log := strings.Join(p.logged(), "\n"); strings.Contains(log, "hidden") {
		t.Error(log)
	}
}

func TestClockOfTheNodeCountsWhereAsked(t *testing.T) {
	redis := redistest.Server(t)
	p := startShared(t, "redis://"+redis.Addr(), "--store-clock", "node")
	if _, answer := check(t, p, "/open", "k"); isDegraded(answer) {
		t.Errorf("the first check is decided without the store: %s", answer)
	}
	p.awaitMetric("stint_clock_skew_seconds{")
}

func TestPasswordsOnTheCommandLineAreFound(t *testing.T) {
	for url, found := range map[string]bool{
		"memory": false, "redis://h:6379/0": false, "redis://app@h:6379/0": false, "rules/a:b@c.yaml": false, "redis://h:6379/0?timeout=1s": false,
		"redis://:pw@h": true, "redis://app:pw@h:6379/0": true, "rediss-sentinel://a:1,b:2/m?sentinel_username=x&sentinel_password=pw": true,
		"stint://:token@h": true, "postgres://u:pw@h/db": true, "postgres://h/db?password=pw": true, "redis://app:p@w@h": true,
	} {
		for _, value := range []string{url, "critical=" + url} {
			f := serveFlags{rules: url}
			f.defineStore(pflag.NewFlagSet("serve", pflag.ContinueOnError))
			if err := f.stores.Set(value); err != nil {
				t.Fatal(err)
			}
			for origin, want := range map[string]bool{"": found, "STINT_STORE": false} {
				if got := f.passwordsOnCommandLine(origins{"store": origin}); slices.Contains(got, "store") != want || slices.Contains(got, "rules") {
					t.Errorf("%s by %q: %v", value, origin, got)
				}
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
