package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const topRules = `
rules:
  - {id: orders, match: {path: /orders}, limit: 2, window: 1h}
  - {id: logins, match: {path: /logins}, limit: 1, window: 1h}
`

// asks sends n checks.
func (a *administered) asks(n int, key, path string) {
	a.t.Helper()
	for range n {
		do(a.t, http.MethodPost, "http://"+a.addr("http")+"/v1/check", fmt.Sprintf(`{"attributes":{"api_key":%q,"path":%q}}`, key, path))
	}
}

// lines returns the lines of a text, with single spaces.
func lines(text string) (list []string) {
	for line := range strings.Lines(text) {
		list = append(list, strings.Join(strings.Fields(line), " "))
	}
	return list
}

func TestKeyTop(t *testing.T) {
	rules := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), topRules)
	a, b := administer(t, "--rules", rules), administer(t, "--rules", rules)
	a.asks(6, "sk_live_one_1234567890", "/orders")
	a.asks(4, "sk_live_two_1234567890", "/orders")
	a.asks(3, "sk_live_two_1234567890", "/logins")
	b.asks(9, "sk_live_two_1234567890", "/orders")

	got := lines(a.run(exitDone, []string{"RULE", "KEY", "COUNT", "ERROR", "any other key has at most 0"}, "key", "top").out)
	if len(got) != 5 || !strings.HasPrefix(got[1], "orders sk_live… 4 0 ") {
		t.Errorf("%q", got)
	}
	// The hash selects the denials of the key: 4 of orders, and not those of logins.
	hash := got[1][strings.LastIndex(got[1], " ")+1:]
	if denied := lines(a.run(exitDone, nil, "denied", "--hash", hash).out); len(denied) != 5 || !strings.Contains(denied[1], " orders ") {
		t.Errorf("%q", denied)
	}
	if got = lines(a.run(exitDone, nil, "key", "top", "--by", "allowed", "--rule", "logins", "--window", "1h").out); len(got) != 3 || !strings.HasPrefix(got[1], "logins sk_live… 1 0 ") {
		t.Errorf("%q", got)
	}
	a.run(exitDone, []string{"any other key has at most 2"}, "key", "top", "--limit", "1")

	// Two keys of one shortened form stay apart, and each is one over both nodes.
	both := a.env[0][len("STINT_SERVER="):] + "," + b.env[0][len("STINT_SERVER="):]
	got = lines(a.run(exitDone, nil, "key", "top", "--server", both, "--rule", "orders").out)
	if len(got) != 4 || !strings.HasPrefix(got[1], "orders sk_live… 9 0 ") || !strings.HasPrefix(got[2], "orders sk_live… 4 0 ") {
		t.Errorf("%q", got)
	}
	a.env = []string{"STINT_SERVER=" + both}
	if items := a.json("key", "top", "--limit", "2")["items"].([]any); len(items) != 2 || items[0].(map[string]any)["count"] != 9.0 {
		t.Errorf("%v", items)
	}

	// A node that does not answer is named, after the sum of the others.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, address := range []string{silent.Addr().String(), "127.0.0.1:1"} {
		partial := command(t, nil, "key", "top", "--server", both+",http://"+address)
		if partial.status != exitFailed || !strings.Contains(partial.errors, "no counts from http://"+address) || !strings.HasPrefix(lines(partial.out)[1], "orders sk_live… 9 0 ") {
			t.Errorf("status %d\n%s%s", partial.status, partial.out, partial.errors)
		}
	}
	partial := command(t, nil, "key", "top", "--json", "--server", both+",http://127.0.0.1:1")
	if !strings.Contains(partial.out, `"unanswered":["http://127.0.0.1:1"]`) {
		t.Error(partial.out)
	}
	if none := command(t, nil, "key", "top", "--server", "http://127.0.0.1:1,http://127.0.0.1:2"); none.status != exitFailed || none.out != "" {
		t.Errorf("status %d: %s", none.status, none.out)
	}
}

func TestKeyTopRefusesWrongFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"by: \"refused\" is not known":     {"--by", "refused"},
		"window: \"2m\" is not known":      {"--window", "2m"},
		"limit: 0 is not a number":         {"--limit", "0"},
		"an address is given twice":        {"--server", "http://h:1,http://i:1,http://h:1"},
		"server: 65 addresses":             {"--server", strings.Repeat("http://h:1,", 64) + "http://h:1"},
		"server: \"h:1\" is not a URL":     {"--server", "h:1,http://h:1"},
		"server: \"\" is not a URL":        {"--server", "http://h:1,"},
		"server: is given, and empty":      {"--server", ""},
		"server: contains a user or a pas": {"--server", "http://u:p@h:1,http://h:2"},
	} {
		if got := command(t, nil, append([]string{"key", "top"}, args...)...); got.status != exitUsage || !strings.Contains(got.errors, want) {
			t.Errorf("%v: status %d: %s", args, got.status, got.errors)
		}
	}
}

// Without ids, keys of several nodes cannot be told to be one.
func TestOnlyAnAdminMergesTopKeys(t *testing.T) {
	h := sha256.Sum256([]byte("v"))
	tokens := writeFile(t, filepath.Join(t.TempDir(), "tokens"), "vera viewer "+hex.EncodeToString(h[:])+"\n")
	rules := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), topRules)
	a := administer(t, "--rules", rules, "--admin-tokens-file", tokens)
	a.env = append(a.env, "STINT_TOKEN=v")
	a.asks(3, "sk_live_one_1234567890", "/orders")
	if got := lines(a.run(exitDone, nil, "key", "top").out); len(got) != 3 || !regexp.MustCompile(`^orders sk_live… 1 0 [0-9a-f]{16}$`).MatchString(got[1]) {
		t.Errorf("%q", got)
	}
	got := command(t, a.env, "key", "top", "--server", a.env[0][len("STINT_SERVER="):]+",http://127.0.0.1:1")
	if got.status != exitFailed || !strings.Contains(got.errors, "below the role admin") {
		t.Errorf("status %d: %s", got.status, got.errors)
	}
	a.run(exitFailed, []string{"rule: there is no rule"}, "key", "top", "--rule", "order")
}
