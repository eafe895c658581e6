package ruleedit

import (
	"bytes"
	"testing"
	"time"

	"github.com/stintdev/stint/rule"
)

// FuzzEdits edits any file that is a valid rule set. The result must be valid,
// contain the edit, and be otherwise unchanged.
func FuzzEdits(f *testing.F) {
	for _, text := range []string{
		plain, "", "rules: []\n", "rules:\n- {id: a, limit: 1/s}", "id: a\nlimit: 1/s\n---\nid: b\nlimit: 1/s\n", `{"rules":[{"id":"a","limit":"1/s"}]}`,
		"tiers: {a: &n {limit: 1, window: 60}, b: *n}\nrules:\n  - &r\n    id: a\n    limit: 1/s\n  - <<: *r\n    id: b\n",
		"rules:\r\n- id: a\r\n  limit: 1/s # x\r\n", "# only\n# comments\n", "rules:\n  - id: a\n    limit: 1/s\n    # end\n# of it\n\n\n",
		"rules:\n- id: a\n  version: |\n    # no comment\n\n  limit: 1/s\n", "deny: x\nallow: [y]\nrules:\n", "---\n...\n---\nrules: [{id: a, limit: 1/s}]\n",
		"? rules\n: - id: a\n    limit: 1/s\n", "rules:\n-   id: a\n    limit: 1/s\n-\n    id: b\n    limit: 1/s\n", "\ufeffrules:\n- id: a\n  limit: 1/s\n",
	} {
		f.Add(text, []byte(`{"limit":7,"window":60}`), "a", "k")
	}
	f.Fuzz(func(t *testing.T, text string, body []byte, id, key string) {
		files := []rule.File{file("rules.yaml", text)}
		if _, err := rule.Parse(files...); err != nil {
			return
		}
		for _, e := range []Edit{
			PutRule(id, body), PutTier(id, body), PutOverride(id, key, body, time.Time{}), PutEntry(ListEntry{Deny: true, Match: key}),
			DeleteRule(id), DeleteTier(id), DeleteOverride(id, key, false), DeleteEntry(ListEntry{Match: key}),
		} {
			after, _, err := Apply(files, e)
			if err != nil {
				continue
			}
			wantOnly(t, files, after, e.what, id)
		}
		if !bytes.Equal(files[0].Data, []byte(text)) {
			t.Error("the files that were given have changed")
		}
	})
}

// wantOnly checks that only the edited part differs.
func wantOnly(t *testing.T, before, after []rule.File, what, id string) {
	t.Helper()
	if _, err := rule.Parse(after...); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	was, err := ReadContents(before)
	if err != nil {
		t.Fatal(err)
	}
	is, err := ReadContents(after)
	if err != nil {
		t.Fatal(err)
	}
	c := was.Changes(is)
	changed := append(append(c.Rules.Added, c.Rules.Removed...), c.Rules.Changed...)
	for _, name := range append(changed, append(append(c.Tiers.Added, c.Tiers.Removed...), c.Tiers.Changed...)...) {
		if name != id {
			t.Fatalf("%s of %q: %q has changed:\n%s\nbefore:\n%s", what, id, name, after[0].Data, before[0].Data)
		}
	}
	if c.Defaults || c.Moved || c.Lists && what != "entry" {
		t.Fatalf("%s: %+v", what, c)
	}
}
