package main

import (
	"strings"
	"testing"
)

// Rules in shadow mode say what they would deny, over two nodes with one Redis.
func TestRulesShadow(t *testing.T) {
	a, b, both := twoNodes(t, `
rules:
  - {id: old, match: {path: /orders}, limit: 1000, window: 1h}
  - {id: new, match: {path: /orders}, limit: 2, window: 1h, mode: shadow}
  - {id: alone, match: {path: /logins}, limit: 1, window: 1h, mode: shadow}
`)
	a.run(exitDone, []string{"no rule in shadow mode would have denied"}, "rules", "shadow")
	a.asks(6, "sk_live_one_1234567890", "/orders") // 4
	b.asks(3, "sk_live_one_1234567890", "/orders") // 3
	b.asks(4, "sk_live_two_1234567890", "/orders") // 2
	b.asks(3, "sk_live_two_1234567890", "/logins") // 2
	got := lines(a.run(exitDone, nil, "rules", "shadow", "--server", both).out)
	if len(got) != 7 || got[0] != "alone would have denied at least 2 requests of 1 key" || got[1] != "new would have denied at least 9 requests of 2 keys" ||
		!strings.HasPrefix(got[3], "new sk_live… 7 0 ") {
		t.Errorf("%q", got)
	}
	for servers, sum := range map[string]string{both: "9", "http://" + b.addr("admin"): "5"} { // of all keys, also those that are not listed
		got := lines(a.run(exitDone, nil, "rules", "shadow", "--server", servers, "--limit", "1").out)
		if len(got) != 5 || got[0] != "alone would have denied at least 2 requests of 1 key" || got[1] != "new would have denied at least "+sum+" requests of 2 keys" {
			t.Errorf("%q", got)
		}
	}
	if got := command(t, nil, "rules", "shadow", "--server", both, "--rule", "nwe"); got.status != exitFailed || got.out != "" || !strings.Contains(got.errors, "there is no rule") {
		t.Errorf("a rule that no server has: status %d\n%s%s", got.status, got.out, got.errors)
	}
	if got := lines(b.run(exitDone, nil, "rules", "shadow", "--rule", "alone", "--window", "1h").out); len(got) != 4 {
		t.Errorf("%q", got)
	}
	a.run(exitDone, []string{"rule old would have denied no request in shadow mode since "}, "rules", "shadow", "--rule", "old")
	if items, _ := b.json("key", "top", "--by", "shadow")["items"].([]any); len(items) != 3 {
		t.Errorf("%v", items)
	}
	if items, _ := b.json("key", "top")["items"].([]any); len(items) != 0 {
		t.Errorf("shadow rules count as denied: %v", items)
	}
}
