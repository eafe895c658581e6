package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/pgtest"
	"github.com/stintdev/stint/internal/redistest"
)

// emergencyNodes starts two servers that share their rules in the source, and their counts in
// the store.
func emergencyNodes(t *testing.T, source, store string, args ...string) (a, b *administered) {
	t.Helper()
	start := func() *administered {
		p := startServer(t, []string{"STINT_STORE=" + store}, append([]string{"--rules", source, "--state-dir", t.TempDir(), "--nodes", "2"}, args...)...)
		return &administered{p, []string{"STINT_SERVER=http://" + p.addr("admin")}, t.TempDir()}
	}
	return start(), start()
}

// admits returns how many of n requests of one client a server admits.
func (a *administered) admits(n int, client string) (admitted int) {
	a.t.Helper()
	for range n {
		_, answer := do(a.t, http.MethodPost, "http://"+a.addr("http")+"/v1/check", fmt.Sprintf(`{"attributes":{"ip":%q,"path":"/x"}}`, client))
		if isAllowed(answer) {
			admitted++
		}
	}
	return admitted
}

// obeysWithin waits until the server obeys an emergency, or none, and returns how long it took.
func (a *administered) obeysWithin(on bool, begun time.Time) {
	a.t.Helper()
	line := "\nstint_emergency 0\n"
	if on {
		line = "\nstint_emergency 1\n"
	}
	a.awaitMetric(line)
	if took := time.Since(begun); took > 2*time.Second {
		a.t.Errorf("it took %v", took)
	} else {
		a.t.Logf("obeyed after %v", took.Round(time.Millisecond))
	}
}

func TestEveryNodeObeysAnEmergencyInRedis(t *testing.T) {
	redis := redistest.Server(t)
	url := "redis://" + redis.Addr()
	a, b := emergencyNodes(t, url, url)
	everyNodeObeys(t, a, b)

	// The store fails: each node applies its share, although the built-in rules fail open.
	begun := time.Now()
	a.run(exitDone, nil, "emergency", "on", "--limit", "4/m", "--for", "10m")
	b.obeysWithin(true, begun)
	redis.Kill()
	for _, n := range []*administered{a, b} {
		if got := n.admits(10, "203.0.113.7"); got != 2 {
			t.Errorf("a node admits %d of 10, want its share of 2", got)
		}
	}
	// The source fails: each node is switched by its own admin API.
	a.run(exitDone, []string{"ON: 2/s by api_key", "ONLY THIS NODE is switched: the source of the rules does not answer", "do stint emergency on --limit 2/s --by api_key --for 5m --server $url"},
		"emergency", "on", "--limit", "2/s", "--by", "api_key", "--for", "5m")
	b.run(exitDone, []string{"ON: 4/m by ip", "the source of the rules does not answer"}, "emergency", "status")
	b.run(exitDone, []string{"emergency: off", "ONLY THIS NODE"}, "emergency", "off")
	b.awaitMetric("\nstint_emergency 0\n")
	redis.Restart()
	for n, want := range map[*administered]string{a: "ON: 2/s by api_key", b: "emergency: off"} {
		await(t, "a node that was switched alone says so", func() (bool, string) {
			got := n.run(exitDone, []string{want}, "emergency", "status")
			return strings.Contains(got.out, "the source of the rules did not take it when it was switched\nrun stint emergency"), got.out
		})
	}
	await(t, "a switching through the source", func() (bool, string) {
		got := a.run(exitDone, nil, "emergency", "off", "--reason", "over")
		return strings.Contains(got.out, "every node that shares these rules"), got.out
	})
	a.obeysWithin(false, time.Now())
}

// everyNodeObeys switches the emergency on, replaces it and switches it off.
func everyNodeObeys(t *testing.T, a, b *administered) {
	t.Helper()
	begun := time.Now()
	a.run(exitDone, []string{"emergency: ON: 3/m by ip until ", "every node that shares these rules obeys within 2 seconds"},
		"emergency", "on", "--limit", "3/m", "--for", "10m", "--reason", "ticket 81")
	b.obeysWithin(true, begun)
	if one, other := a.admits(5, "203.0.113.1"), b.admits(5, "203.0.113.1"); one+other != 3 {
		t.Errorf("the nodes admit %d and %d, together more or less than 3", one, other)
	}
	await(t, "both nodes obey", func() (bool, string) {
		got := b.run(exitDone, []string{"emergency: ON: 3/m by ip", "switched on by local:", "ticket 81"}, "emergency", "status")
		return strings.Count(got.out, "  obeys\n") == 2, got.out
	})
	await(t, "the list of nodes", func() (bool, string) {
		got := a.run(exitDone, nil, "nodes")
		return strings.Count(got.out, "EMERGENCY ON") == 2, got.out
	})
	begun = time.Now()
	b.run(exitDone, []string{"it replaces 3/m by ip"}, "emergency", "on", "--limit", "1/h", "--by", "host", "--for", "1m")
	await(t, "the other limit", func() (bool, string) {
		v := a.json("emergency", "status")
		return v["limit"] == "1/h", fmt.Sprint(v)
	})
	if took := time.Since(begun); took > 4*time.Second { // two processes of the command included
		t.Errorf("it took %v", took)
	}
	begun = time.Now()
	b.run(exitDone, []string{"emergency: off"}, "emergency", "off")
	a.obeysWithin(false, begun)
	a.wait(`msg="emergency off" limit=1/h by=host who=local`)
	a.run(exitDone, []string{"nothing was published"}, "rules", "history") // an emergency is no version
}

func TestEveryNodeObeysAnEmergencyInPostgreSQL(t *testing.T) {
	server, redis := pgtest.Start(t), redistest.Server(t)
	password := writeFile(t, filepath.Join(t.TempDir(), "password"), pgtest.Password)
	a, b := emergencyNodes(t, server.URL(), "redis://"+redis.Addr(), "--rules-password-file", password)
	everyNodeObeys(t, a, b)
}

// A node that starts later, and one that restarts, obey from their first request on.
func TestANodeThatStartsObeysTheEmergency(t *testing.T) {
	redis := redistest.Server(t)
	url := "redis://" + redis.Addr()
	a, _ := emergencyNodes(t, url, url)
	a.run(exitDone, nil, "emergency", "on", "--limit", "1/m")
	late, _ := emergencyNodes(t, url, url)
	if got := late.admits(3, "203.0.113.1"); got != 1 {
		t.Errorf("%d requests are admitted, want 1", got)
	}
}

func TestWrongEmergencies(t *testing.T) {
	a := administer(t)
	for want, args := range map[string][]string{
		"--limit is missing (give it as 10/s)":      {"on"},
		"limit: 0 is out of range":                  {"on", "--limit", "0/s"},
		"did you mean ip?":                          {"on", "--limit", "1/s", "--by", "ipp"},
		"give 1s to 24h":                            {"on", "--limit", "1/s", "--for", "25h"},
		`for: "soon" is not a duration`:             {"on", "--limit", "1/s", "--for", "soon"},
		"by: is given, and empty":                   {"on", "--limit", "1/s", "--by", ""},
		"the server verifies no tokens":             {"on", "--limit", "1/s", "--by", "jwt:sub"},
		"takes no arguments":                        {"on", "10/s"},
		"reason: is longer than 2000 bytes, or":     {"off", "--reason", "two\nlines"},
		`"of" is not a command (did you mean off?)`: {"of"},
		"a command is missing":                      nil,
	} {
		a.run(exitUsage, []string{want}, append([]string{"emergency"}, args...)...)
	}
	a.run(exitDone, []string{"emergency: off\n"}, "emergency", "status")
	a.run(exitDone, []string{"ONLY THIS NODE is switched: the rules are in files or built in"}, "emergency", "on", "--limit", "1/s", "--for", "90s")
	a.run(exitDone, []string{"this is the state of this node alone", "do stint emergency status --server $url"}, "emergency", "status")
	if v := a.json("emergency", "off"); v["on"] != false || v["shared"] != false {
		t.Error(v)
	}
	rules := a.file("emergency.yaml", "rules: [{id: emergency, limit: 1/s}]")
	a.run(exitUsage, []string{rules + ":1:14: the id emergency is reserved for stint emergency (give the rule another id)"}, "rules", "validate", rules)
}

func TestAnEmergencyNeedsTheRole(t *testing.T) {
	sum := func(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }
	tokens := writeFile(t, filepath.Join(t.TempDir(), "tokens"), fmt.Sprintf("vera viewer %s\nolga operator %s\n", sum("v"), sum("o")))
	a := administer(t, "--admin-tokens-file", tokens)
	server := a.env[0]
	a.env = []string{server, "STINT_TOKEN=v"}
	a.run(exitFailed, []string{"403", "vera has the role viewer"}, "emergency", "on", "--limit", "1/s")
	a.run(exitDone, []string{"emergency: off"}, "emergency", "status")
	a.env = []string{server, "STINT_TOKEN=o"}
	a.run(exitDone, []string{"switched on by olga at "}, "emergency", "on", "--limit", "1/s")
}
