package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stintdev/stint/internal/redistest"
)

// twoNodes are two servers over one Redis.
func twoNodes(t *testing.T, rules string) (a, b *administered, both string) {
	t.Helper()
	redis := redistest.Server(t)
	file := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), rules)
	secret := writeFile(t, filepath.Join(t.TempDir(), "secret"), "a secret of the test, long enough")
	start := func() *administered {
		return administer(t, "--rules", file, "--store", "redis://"+redis.Addr()+"/0", "--key-hash-file", secret)
	}
	a, b = start(), start()
	return a, b, a.env[0][len("STINT_SERVER="):] + "," + b.env[0][len("STINT_SERVER="):]
}

func TestDeniedOverTwoNodes(t *testing.T) {
	a, b, both := twoNodes(t, topRules)
	if got := a.run(exitDone, nil, "denied"); got.out != "no request was denied, as far as the servers remember\n" {
		t.Error(got.out)
	}
	a.asks(3, "sk_live_one_1234567890", "/orders") // one denied
	b.asks(2, "sk_live_one_1234567890", "/orders")
	b.asks(2, "sk_live_two_1234567890", "/logins") // one denied
	got := lines(a.run(exitDone, nil, "denied", "--server", both).out)
	if len(got) != 5 || !strings.HasPrefix(got[0], "TIME RULE KEY HASH LIMIT REMAINING RETRY BY PATH") || !strings.Contains(got[4], " logins sk_live… ") ||
		!strings.Contains(got[1], " orders sk_live… ") || !strings.HasSuffix(got[1], " check /orders") || !strings.Contains(got[1], " 2 token_bucket:1h 0 ") {
		t.Errorf("%q", got)
	}
	hash := strings.Fields(got[1])[4]
	if first, second := strings.Fields(got[1]), strings.Fields(got[3]); first[4] != second[4] || first[4] == strings.Fields(got[4])[4] {
		t.Errorf("the hash of a key is not that of the key: %q", got)
	}
	for want, args := range map[int][]string{
		4: {"--hash", hash}, 2: {"--rule", "logins"}, 5: {"--since", "1h"}, 3: {"--limit", "1"}, 1: {"--rule", "(take)"},
	} {
		if got := lines(a.run(exitDone, nil, append([]string{"denied", "--server", both}, args...)...).out); len(got) != want {
			t.Errorf("%v: %q", args, got)
		}
	}
	a.env = []string{"STINT_SERVER=" + both}
	if items, _ := a.json("denied")["items"].([]any); len(items) != 4 {
		t.Errorf("%v", items)
	}
	if got := command(t, a.env, "denied", "--rule", "order"); got.status != exitFailed || got.out != "" || !strings.Contains(got.errors, "there is no rule") {
		t.Errorf("a rule that no server has: status %d\n%s%s", got.status, got.out, got.errors)
	}
	partial := command(t, nil, "denied", "--server", both+",http://127.0.0.1:1")
	if partial.status != exitFailed || !strings.Contains(partial.errors, "no denials from http://127.0.0.1:1") || len(lines(partial.out)) != 5 {
		t.Errorf("status %d\n%s%s", partial.status, partial.out, partial.errors)
	}
	if none := command(t, nil, "denied", "--server", "http://127.0.0.1:1,http://127.0.0.1:2"); none.status != exitFailed || none.out != "" {
		t.Errorf("status %d: %s", none.status, none.out)
	}
	a.run(exitDone, []string{"no request was denied"}, "denied", "--rule", "-") // no deny list denied
	a.run(exitFailed, []string{"rule: there is no rule"}, "denied", "--server", strings.Split(both, ",")[0], "--rule", "order")
}

func TestWhyOverTwoNodes(t *testing.T) {
	a, b, both := twoNodes(t, topRules)
	const key = "sk_live_one_1234567890"
	a.asks(3, key, "/orders")
	b.asks(2, key, "/orders")
	b.asks(2, "sk_live_two_1234567890", "/orders")
	do(t, http.MethodPost, "http://"+b.addr("http")+"/v1/take", `{"key":"`+key+`","limit":"1/h"}`)
	do(t, http.MethodPost, "http://"+b.addr("http")+"/v1/take", `{"key":"`+key+`","limit":"1/h"}`)
	got := lines(a.run(exitDone, nil, "key", "why", key, "--server", both).out)
	text := strings.Join(got, "\n")
	if len(got) != 5+1+1+3 || strings.Count(text, " orders sk_live… ") != 3 || strings.Count(text, " (take) sk_live… ") != 1 ||
		!strings.Contains(text, "\n\nnow:\nRULE LIMIT OF REMAINING RESET AFTER\n") || !strings.Contains(text, "\norders token_bucket:1h 2 0 ") {
		t.Errorf("%q", got)
	}
	if got := lines(a.run(exitDone, []string{"1 earlier ones are left out (--last)"}, "key", "why", key, "--server", both, "--rule", "orders", "--last", "2").out); len(got) != 3+1+2+2 {
		t.Errorf("%q", got)
	}
	a.run(exitDone, []string{"no request was denied", "now:", "orders  token_bucket:1h  2   2 "}, "key", "why", "--rule", "orders", "sk_live_three_123456")
	a.env = []string{"STINT_SERVER=" + both}
	if w := a.json("key", "why", key); len(w["denials"].([]any)) != 4 || len(w["limits"].([]any)) != 2 {
		t.Errorf("%v", w)
	}
}

// --follow prints denials of all nodes as they come, also after a node has failed.
func TestFollowedDenials(t *testing.T) {
	a, b, both := twoNodes(t, topRules)
	a.asks(3, "sk_live_one_1234567890", "/orders")
	b.asks(3, "sk_live_four_123456789", "/orders")
	a.asks(2, "sk_live_two_1234567890", "/logins")
	c := exec.Command(binary, "denied", "--follow", "--json", "--limit", "1", "--server", both+",http://127.0.0.1:1")
	c.Env = cleanEnvironment()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := startCommand(t, c)
	followed := bufio.NewScanner(out)
	next := func() (d struct{ Rule, Path, Key string }) {
		t.Helper()
		if !followed.Scan() || json.Unmarshal(followed.Bytes(), &d) != nil {
			t.Fatalf("%q %v", followed.Text(), followed.Err())
		}
		return d
	}
	if d := next(); d.Rule != "logins" { // the newest one of all servers
		t.Errorf("%+v", d)
	}
	p.wait("no denials from http://127.0.0.1:1") // it is asked again
	if all := strings.Join(p.logged(), "\n"); strings.Contains(all, "TIME ") {
		t.Errorf("the objects have a heading: %q", all)
	}
	b.asks(2, "sk_live_three_12345678", "/logins")
	if d := next(); d.Rule != "logins" || d.Key != "sk_live…" || d.Path != "/logins" {
		t.Errorf("%+v", d)
	}
	address := b.addr("admin")
	b.signal(os.Kill)
	b.exit()
	p.wait("no denials from http://" + address)
	a.asks(1, "sk_live_one_1234567890", "/orders")
	if d := next(); d.Rule != "orders" {
		t.Errorf("%+v", d)
	}
}

func TestDeniedRefusesWrongFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"limit: 0 is not a number":    {"denied", "--limit", "0"},
		"limit: 1001 is not":          {"denied", "--limit", "1001"},
		"an address is given twice":   {"denied", "--server", "http://h:1,http://h:1"},
		"rule: is given, and empty":   {"denied", "--rule", ""},
		"last: 0 is not a number":     {"key", "why", "--last", "0", "k"},
		"key: is missing":             {"key", "why"},
		"server: \"h:1\" is not a UR": {"key", "why", "--server", "h:1,http://h:1", "k"},
	} {
		if got := command(t, nil, args...); got.status != exitUsage || !strings.Contains(got.errors, want) {
			t.Errorf("%v: status %d: %s", args, got.status, got.errors)
		}
	}
	a := administer(t)
	a.run(exitUsage, []string{"since: \"soon\" is neither"}, "denied", "--since", "soon")
}
