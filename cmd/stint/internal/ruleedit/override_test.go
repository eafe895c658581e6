package ruleedit

import (
	"testing"
	"time"

	"github.com/stintdev/stint/rule"
)

func TestEditsOfOverridesAndLists(t *testing.T) {
	until := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const rules = "rules:\n  - id: a\n    limit: 1/s\n    override:\n      k: 2/s # two\n    temporary:\n      - {match: k, until: 2026-01-01T00:00:00Z, limit: 3/s}\n  - id: b\n    limit: 1/s\n    deny: [x]\n"
	for name, test := range map[string]struct {
		text string
		edit Edit
		want string
	}{
		"an override changes": {rules, PutOverride("a", "k", []byte(`{"limit":5,"window":1}`), time.Time{}), `
-      k: 2/s # two
+      k: {limit: 5, window: 1} # two
`},
		"an override comes": {rules, PutOverride("a", "10.0.0.0/8", []byte(`"5/s"`), time.Time{}), `
+      10.0.0.0/8: 5/s
`},
		"a rule's first": {rules, PutOverride("b", "1e3", []byte(`{"limit":"5/s"}`), time.Time{}), `
+    override:
+      "1e3": {limit: 5/s}
`},
		"for a time": {rules, PutOverride("b", "k", []byte(`{"limit":"5/s","until":"2026-01-02T03:04:05Z","reason":"a sale"}`), time.Time{}), `
+    temporary:
+      - {match: k, limit: 5/s, until: "2026-01-02T03:04:05Z", reason: a sale}
`},
		"for a given time": {rules, PutOverride("b", "k", []byte(`"5/s"`), until), `
+    temporary:
+      - {match: k, limit: 5/s, until: "2026-01-02T03:04:05Z"}
`},
		"for another time": {rules, PutOverride("a", "k", []byte("{limit: 9/s, until: 2026-01-02T03:04:05Z}"), time.Time{}), `
-      - {match: k, until: 2026-01-01T00:00:00Z, limit: 3/s}
+      - {match: k, limit: 9/s, until: '2026-01-02T03:04:05Z'}
`},
		"what is for a time goes first": {rules, DeleteOverride("a", "k", false), `
-    temporary:
-      - {match: k, until: 2026-01-01T00:00:00Z, limit: 3/s}
`},
		"a ban":                   {rules, PutEntry(ListEntry{Deny: true, Match: "k", Until: until, Reason: "it: tried"}), "\n+deny:\n+  - {match: k, until: \"2026-01-02T03:04:05Z\", reason: \"it: tried\"}\n"},
		"a ban from a rule":       {rules, PutEntry(ListEntry{Rule: "b", Deny: true, Match: "k"}), "\n-    deny: [x]\n+    deny: [x, k]\n"},
		"a ban is lifted":         {rules, DeleteEntry(ListEntry{Rule: "b", Deny: true, Match: "x"}), "\n-    deny: [x]\n+    deny: []\n"},
		"of one by another name":  {"blacklist: x\n", PutEntry(ListEntry{Deny: true, Match: "y"}), "\n-blacklist: x\n+blacklist:\n+  - x\n+  - y\n"},
		"one that is alone":       {"blacklist: x\n", DeleteEntry(ListEntry{Deny: true, Match: "x"}), "\n-blacklist: x\n+blacklist: []\n"},
		"one that lasts for good": {"deny:\n  - x # bad\n", PutEntry(ListEntry{Deny: true, Match: "x", Until: until}), "\n-  - x # bad\n+  - {match: x, until: \"2026-01-02T03:04:05Z\"} # bad\n"},
		"one among many":          {"allow:\n  # ours\n  - x\n  - y\n", DeleteEntry(ListEntry{Match: "x"}), "\n-  # ours\n-  - x\n"},
	} {
		t.Run(name, func(t *testing.T) { wantDiff(t, test.text, edited(t, "rules.yaml", test.text, test.edit), test.want) })
	}
}

func TestEntriesAreListed(t *testing.T) {
	entries, err := ListEntries([]rule.File{file("a.yaml", "deny: {match: x, until: 2026-01-02T03:04:05Z, reason: r}\nwhitelist: [y]\nrules: [{id: a, limit: 1/s, deny: [z]}]\n")})
	want := []ListEntry{
		{Deny: true, Match: "x", Until: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Reason: "r"},
		{Match: "y"}, {Rule: "a", Deny: true, Match: "z"},
	}
	if err != nil || len(entries) != len(want) {
		t.Fatal(entries, err)
	}
	for i := range want {
		if entries[i] != want[i] {
			t.Errorf("got %v, want %v", entries[i], want[i])
		}
	}
}
